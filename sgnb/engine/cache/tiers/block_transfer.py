"""Copies of a payload between the device and memory of this process."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..radix import Ints
from ..slot_allocator import SlotAllocator
from .blocks import BLOCK, Bytes
from .host_memory import allocate, allocate_pinned
from .transfers import ReadBlocks, Transfer


class BlockTransfer(Transfer):
    """`Transfer` between the units and the host memory of this process. Writes use two streams:
    units are written during the next copy to the GPU.

    Args:
        units: KV slots, or states, with content.
        device: Device of the content.
        is_finite: Returns which units, uint8[n, unit_bytes], have only finite values, bool[n].
            Others are not stored.
        per_block: Units of a block: `BLOCK` slots, or one state.

    Attributes:
        device: See above.
    """

    def __init__(
        self,
        units: SlotAllocator,
        device: torch.device,
        is_finite: Callable[[Tensor], Tensor] = lambda units: torch.ones(len(units)).bool(),
        per_block: int = BLOCK,
    ) -> None:
        step = BLOCK // per_block
        unit_bytes = max(1, -(-units.unit_bytes // step)) * step
        super().__init__(units, per_block, unit_bytes, padding=unit_bytes - units.unit_bytes)
        self.device = device
        self._pinned: list[tuple[weakref.ref[NDArray[Any]], Tensor]] = []  # arrays, their memory
        self._copied: torch.cuda.Event | None = None  # behind the last read
        self._on_gpu = device.type == "cuda"
        self._writes = [torch.cuda.Stream(device) for _ in range(2 * self._on_gpu)]
        self._turns = cycle(self._writes)
        self._is_finite = is_finite

    def read(self, ids: Ints, places: Sequence[Bytes] = ()) -> Callable[[], ReadBlocks]:
        if not self._on_gpu:
            return partial(self._pack, self._units.take(ids), len(ids), places)

        # Freed here, not by the thread that drops the arrays: torch then records an event on the
        # engine's stream, which fails while this stream is captured.
        self._pinned = [(find, memory) for find, memory in self._pinned if find() is not None]
        staged = self._staged(len(ids))
        self._units.copy(ids, staged)
        finite = self._to_host(self._is_finite(staged))
        for part, place in zip(staged.view(-1, self.block_bytes), places, strict=bool(places)):
            torch.from_numpy(place).view(-1).copy_(part, non_blocking=True)
        blocks = places or self._rows(self._to_host(staged))
        copied = self._copied = _mark()

        def wait() -> ReadBlocks:
            copied.synchronize()
            return _read(blocks, finite)

        return wait

    def _to_host(self, source: Tensor) -> NDArray[Any]:
        """Return an array in pinned memory, filled after the launched kernels."""
        memory = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        memory.copy_(source, non_blocking=True)
        array = memory.numpy()
        self._pinned.append((weakref.ref(array), memory))
        return array

    def _pack(
        self, write: Callable[[Tensor], None], count: int, places: Sequence[Bytes]
    ) -> ReadBlocks:
        """Return taken content as `read` does."""
        staged = self._staged(count)
        write(staged)
        blocks = self._rows(staged.numpy())
        for place, block in zip(places, blocks, strict=bool(places)):
            np.copyto(place, block)
        return _read(places or blocks, self._is_finite(staged).numpy())

    def _staged(self, count: int) -> Tensor:
        """Return memory of the device for the content of units, with zeros behind the content."""
        new = torch.zeros if self._padding else torch.empty
        return new((count, self.unit_bytes), dtype=torch.uint8, device=self.device)

    def _rows(self, units: Bytes) -> Sequence[Bytes]:
        """Return the blocks of units, each uint8[BLOCK, row_bytes]."""
        return list(units.reshape(-1, BLOCK, self.row_bytes))

    def begin_writes(self) -> None:
        for stream in self._writes:
            stream.wait_stream(torch.cuda.current_stream(self.device))

    def end_writes(self) -> None:
        for stream in self._writes:
            torch.cuda.current_stream(self.device).wait_stream(stream)

    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        if not self._on_gpu:
            for begin, block in zip(range(0, len(ids), self.per_block), blocks, strict=True):
                content = torch.from_numpy(block.reshape(self.per_block, self.unit_bytes))
                with torch.inference_mode():
                    self._units.restore(ids[begin : begin + self.per_block], content)
            return lambda: None

        size = len(blocks), self.block_bytes
        stream = next(self._turns)
        with torch.inference_mode(), torch.cuda.stream(stream):
            staged = torch.empty(size, dtype=torch.uint8, device=self.device)
            try:
                for part, block in zip(staged, blocks, strict=True):
                    part.copy_(torch.from_numpy(block).view(-1), non_blocking=True)
                self._units.restore(ids, staged.view(len(ids), self.unit_bytes))
            except BaseException:
                stream.synchronize()  # the caller gives up the blocks
                raise
            return _mark().synchronize

    def spare(self, count: int) -> Sequence[Bytes]:
        size = count, BLOCK, self.row_bytes
        if not self._on_gpu:
            return list(torch.empty(size, dtype=torch.uint8).numpy())
        with torch.cuda.device(self.device):  # otherwise a context on the first GPU
            return list(torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy())

    def allocate(self, size: int) -> Bytes:
        return allocate_pinned(self.device, size) if self._on_gpu else allocate(size)

    def close(self) -> None:
        with suppress(RuntimeError):  # of a failed device
            if self._copied is not None:
                self._copied.synchronize()  # nothing else waits: the writer's thread has ended
        self._pinned.clear()


def _read(blocks: Sequence[Bytes], finite: NDArray[Any]) -> ReadBlocks:
    """Return blocks with flags for the blocks. finite: flags of their units."""
    return ReadBlocks(blocks, finite.reshape(len(blocks), -1).all(axis=1, keepdims=True).ravel())


def _mark() -> torch.cuda.Event:
    """Return an event behind all launched work of the current stream. Threads that wait for the
    event sleep: a load has up to `READERS` of them."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event
