"""Copies of a payload between the device and host memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
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

PART_BYTES = 32 * 2**20
"""Largest copy at once."""


class BlockTransfer:
    """Copies between the units of a payload and host memory. Reads are on the engine's thread and
    stream, writes on any thread and on two streams of their own: units are written during the next
    copy to the GPU.

    Args:
        units: KV slots, or states, with content.
        device: Device of the content.
        is_finite: Returns which units, uint8[n, unit_bytes], have only finite values, bool[n].
            Others are not stored.
        per_block: Units of a block: `BLOCK` slots, or one state.

    Attributes:
        unit_bytes: Bytes of a unit in host memory. A block has a multiple of `BLOCK` bytes.
    """

    def __init__(
        self,
        units: SlotAllocator,
        device: torch.device,
        is_finite: Callable[[Tensor], Tensor] = lambda units: torch.ones(len(units)).bool(),
        per_block: int = BLOCK,
    ) -> None:
        self._units, self._device = units, device
        self._pinned: list[tuple[weakref.ref[NDArray[Any]], Tensor]] = []  # arrays, their memory
        self._on_gpu = device.type == "cuda"
        self._writes = [torch.cuda.Stream(device) for _ in range(2 * self._on_gpu)]
        self._turns = cycle(self._writes)
        self._is_finite = is_finite
        self.per_block = per_block
        step = BLOCK // per_block
        self.unit_bytes = max(1, -(-units.unit_bytes // step)) * step

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in host memory."""
        return self.per_block * self.unit_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a block, see `Block.data`."""
        return self.block_bytes // BLOCK

    def read(self, ids: Ints) -> Callable[[], tuple[Bytes, NDArray[np.bool_]]]:
        """Copy the content of units, which may change after the call.

        Returns:
            A function that waits for the copy, on any thread, and returns the content,
            uint8[len(ids), unit_bytes], and which units are finite, bool[len(ids)]. On a GPU the
            copy follows the launched kernels, and this call does not wait.
        """
        if not self._on_gpu:
            return partial(self._pack, self._units.take(ids), len(ids))

        # Freed here, not by the thread that drops the arrays: torch then records an event on the
        # engine's stream, which fails while this stream is captured.
        self._pinned = [(find, memory) for find, memory in self._pinned if find() is not None]
        staged = self._staged(len(ids))
        self._units.copy(ids, staged)
        content, finite = map(self._to_host, (staged, self._is_finite(staged)))
        copied = _mark()

        def wait() -> tuple[Bytes, NDArray[np.bool_]]:
            copied.synchronize()
            return content, finite

        return wait

    def _to_host(self, source: Tensor) -> NDArray[Any]:
        """Return an array in pinned memory, filled after the launched kernels."""
        memory = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        memory.copy_(source, non_blocking=True)
        array = memory.numpy()
        self._pinned.append((weakref.ref(array), memory))
        return array

    def _pack(self, write: Callable[[Tensor], None], count: int) -> tuple[Bytes, NDArray[np.bool_]]:
        """Return taken content as `read` does."""
        staged = self._staged(count)
        write(staged)
        return staged.numpy(), self._is_finite(staged).numpy()

    def _staged(self, count: int) -> Tensor:
        """Return memory of the device for the content of units, with zeros behind the content."""
        padded = self.unit_bytes > self._units.unit_bytes
        new = torch.zeros if padded else torch.empty
        return new((count, self.unit_bytes), dtype=torch.uint8, device=self._device)

    def begin_writes(self) -> None:
        """Order later writes after all launched work of the engine's thread, which may use the
        units."""
        for stream in self._writes:
            stream.wait_stream(torch.cuda.current_stream(self._device))

    def end_writes(self) -> None:
        """Order later work of the engine's thread after all writes."""
        for stream in self._writes:
            torch.cuda.current_stream(self._device).wait_stream(stream)

    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        """Write the content of units, in blocks. Takes memory of the device for all blocks.

        Returns:
            A function that waits until the blocks are read and the units are written. From pinned
            memory, a write itself does not wait.
        """
        if not self._on_gpu:
            for begin, block in zip(range(0, len(ids), self.per_block), blocks, strict=True):
                content = torch.from_numpy(block.reshape(self.per_block, self.unit_bytes))
                with torch.inference_mode():
                    self._units.restore(ids[begin : begin + self.per_block], content)
            return lambda: None

        size = len(blocks), self.block_bytes
        stream = next(self._turns)
        with torch.inference_mode(), torch.cuda.stream(stream):
            staged = torch.empty(size, dtype=torch.uint8, device=self._device)
            try:
                for part, block in zip(staged, blocks, strict=True):
                    part.copy_(torch.from_numpy(block).view(-1), non_blocking=True)
                self._units.restore(ids, staged.view(len(ids), self.unit_bytes))
            except BaseException:
                stream.synchronize()  # the caller gives up the blocks
                raise
            return _mark().synchronize

    def spare(self, count: int) -> Bytes:
        """Return memory for copies of blocks, uint8[count, BLOCK, row_bytes], pinned for a GPU."""
        size = count, BLOCK, self.row_bytes
        if not self._on_gpu:
            return torch.empty(size, dtype=torch.uint8).numpy()
        with torch.cuda.device(self._device):  # otherwise a context on the first GPU
            return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()

    def find_fault(self) -> str:
        """Write random content to the units of a block and read it back. Returns the difference as
        text, or ""."""
        units = self._units
        if units.available < self.per_block:
            return f"the KV pool of {units.total} tokens is smaller than a block of {BLOCK}"
        size = self.per_block, self.unit_bytes
        content = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        content[:, units.unit_bytes :] = 0
        ids = units.allocate(self.per_block)
        try:
            self.begin_writes()
            self.write(ids, [content])()
            restored, _ = self.read(ids)()
            wrong = np.flatnonzero((restored != content).any(axis=0))
            self.write(ids, [np.zeros_like(content)])()  # unused units stay finite
        finally:
            units.free(ids)

        kind = "a token" if self.per_block > 1 else "the recurrent layers' state"
        return f"byte {wrong[0]} of {kind} is not restored" if len(wrong) else ""


def _mark() -> torch.cuda.Event:
    """Return an event behind all launched work of the current stream. Threads that wait for the
    event sleep: a load has up to `READERS` of them."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event
