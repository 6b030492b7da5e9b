"""Int32 tables that are refilled every step at fixed places on a device. Knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from ..radix import Ints

ALIGN = 64
"""Tables begin at multiples of so many numbers: kernels are compiled for aligned pointers."""

GAP = 4096
"""Tables that lie no farther apart are copied together: a copy takes as long as this many numbers more."""

STAGES = 3
"""Steps whose copies may be under way at a time."""


class Tables:
    """Tables by name in one device tensor. They move only when one outgrows its capacity; `generation` then changes."""

    def __init__(self, device: torch.device, capacities: Mapping[str, int]) -> None:
        self.generation = self._turn = 0
        self._device = device
        self._capacities = dict(capacities)
        self._allocate()

    def fill(self, tables: Mapping[str, Sequence[Ints]]) -> None:
        """Put each table's arrays, one after the other, in its place. Copies without waiting; others keep old data."""
        lengths = {name: sum(a.size for a in arrays) for name, arrays in tables.items()}
        small = {name: n for name, n in lengths.items() if n > self._capacities[name]}
        if small:
            self._capacities |= {name: 1 << (n - 1).bit_length() for name, n in small.items()}
            self.generation += 1
            self._allocate()
        stage = self._stages[self._turn]
        if self._events:
            self._events[self._turn].synchronize()
        ranges: list[list[int]] = []
        for name, place in self._places.items():
            length = lengths.get(name, 0)
            if not length:
                continue
            arrays = [array.reshape(-1) for array in tables[name]]
            np.concatenate(arrays, out=stage[1][place : place + length])
            if ranges and place - ranges[-1][1] <= GAP:
                ranges[-1][1] = place + length
            else:
                ranges.append([place, place + length])
        for begin, end in ranges:
            self._data[begin:end].copy_(stage[0][begin:end], non_blocking=True)
        if self._events:
            self._events[self._turn].record()
        self._turn = (self._turn + 1) % STAGES

    def __getitem__(self, name: str) -> Tensor:
        """int32, the whole capacity; the same memory until `generation` changes."""
        return self._views[name]

    def _allocate(self) -> None:
        sizes = [-(-capacity // ALIGN) * ALIGN for capacity in self._capacities.values()]
        self._places = dict(zip(self._capacities, accumulate(sizes, initial=0), strict=False))
        on_gpu = self._device.type == "cuda"
        self._data = torch.zeros(sum(sizes), dtype=torch.int32, device=self._device)
        self._views = {name: self._data[at : at + self._capacities[name]] for name, at in self._places.items()}
        pinned = [torch.zeros(sum(sizes), dtype=torch.int32, pin_memory=on_gpu) for _ in range(STAGES)]
        self._stages: list[tuple[Tensor, Ints]] = [(tensor, tensor.numpy()) for tensor in pinned]
        self._events = [torch.cuda.Event() for _ in range(STAGES)] if on_gpu else []
        self._turn = 0
