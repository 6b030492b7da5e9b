"""Staging buffers: int32 tables at fixed device addresses, filled again for each step. Independent
of the content of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from ..cache.radix import Ints

ALIGN = 64
"""Alignment of tables: kernels are compiled for aligned pointers."""

GAP = 4096
"""Maximum gap between tables in one device copy: a further copy costs as much as this number of
elements."""

STAGES = 3
"""Maximum number of steps with pending device copies."""


class StagingBuffers:
    """Named tables in one device tensor, with pinned host memory for filling.

    Tables move only if a table outgrows the capacity; `generation` then changes.
    """

    def __init__(self, device: torch.device, capacities: Mapping[str, int]) -> None:
        self.generation = self._turn = 0
        self._device = device
        self._capacities = dict(capacities)
        self._allocate()

    def fill(self, tables: Mapping[str, Sequence[Ints]]) -> None:
        """Write the concatenated arrays of each table without waiting. The content of all other
        tables is lost."""
        capacities = self._capacities
        lengths = {
            name: arrays[0].size if len(arrays) == 1 else sum(map(len, arrays))
            for name, arrays in tables.items()
        }
        for name, n in lengths.items():
            if n > capacities[name]:
                self._grow(lengths)
                break

        source, staged = self._stages[self._turn]
        if self._events:
            self._events[self._turn].synchronize()

        end = -GAP - 1
        ranges: list[list[int]] = []
        for name, place in self._places.items():
            length = lengths.get(name, 0)
            if not length:
                continue
            _put(tables[name], staged[place : place + length])
            if place - end > GAP:
                ranges.append([place, place])
            ranges[-1][1] = end = place + length

        for begin, end in ranges:
            self._data[begin:end].copy_(source[begin:end], non_blocking=True)
        if self._events:
            self._events[self._turn].record()
        self._turn = (self._turn + 1) % STAGES

    def _grow(self, lengths: Mapping[str, int]) -> None:
        for name, n in lengths.items():
            if n > self._capacities[name]:
                self._capacities[name] = 1 << (n - 1).bit_length()
        self.generation += 1
        self._allocate()

    def __getitem__(self, name: str) -> Tensor:
        """Table `name` as int32 in full capacity; same memory until `generation` changes."""
        return self._views[name]

    def _allocate(self) -> None:
        sizes = [-(-capacity // ALIGN) * ALIGN for capacity in self._capacities.values()]
        self._places = dict(zip(self._capacities, accumulate(sizes, initial=0), strict=False))

        on_gpu = self._device.type == "cuda"
        self._data = torch.zeros(sum(sizes), dtype=torch.int32, device=self._device)
        self._views = {
            name: self._data[at : at + self._capacities[name]] for name, at in self._places.items()
        }

        pinned = [
            torch.zeros(sum(sizes), dtype=torch.int32, pin_memory=on_gpu) for _ in range(STAGES)
        ]
        self._stages: list[tuple[Tensor, Ints]] = [(tensor, tensor.numpy()) for tensor in pinned]

        self._events = [torch.cuda.Event() for _ in range(STAGES)] if on_gpu else []
        self._turn = 0


def _put(arrays: Sequence[Ints], target: Ints) -> None:
    if len(arrays) == 1:
        target[:] = arrays[0].reshape(-1)
    else:
        np.concatenate([array.reshape(-1) for array in arrays], out=target)
