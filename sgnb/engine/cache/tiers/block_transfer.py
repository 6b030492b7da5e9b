"""Copies of a payload between the device and host memory."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

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
    stream, writes on any thread and on a stream of their own.

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
        self._unused: deque[tuple[Tensor, ...]] = deque()  # pinned memory of dropped contents
        self._on_gpu = device.type == "cuda"
        self._writes = torch.cuda.Stream(device) if self._on_gpu else None
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
        # Freed here, not by the thread that drops the content: torch then records an event on the
        # engine's stream, which fails while this stream is captured.
        self._unused.clear()
        if not self._on_gpu:
            return partial(self._pack, self._units.take(ids), len(ids))

        staged = self._staged(len(ids))
        self._units.copy(ids, staged)
        content = torch.empty(staged.shape, dtype=torch.uint8, pin_memory=True)
        content.copy_(staged, non_blocking=True)
        finite = torch.empty(len(ids), dtype=torch.bool, pin_memory=True)
        finite.copy_(self._is_finite(staged), non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        rows = content.numpy()
        weakref.finalize(rows, self._unused.append, (content, finite)).atexit = False

        def wait() -> tuple[Bytes, NDArray[np.bool_]]:
            copied.synchronize()
            return rows, finite.numpy()

        return wait

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
        if self._writes is not None:
            self._writes.wait_stream(torch.cuda.current_stream(self._device))

    def end_writes(self) -> None:
        """Order later work of the engine's thread after all writes."""
        if self._writes is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._writes)

    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        """Write the content of units, in blocks. Takes memory of the device for all blocks.

        Returns:
            A function that waits until the blocks are read and the units are written. From pinned
            memory, a write itself does not wait.
        """
        if self._writes is None:
            for begin, block in zip(range(0, len(ids), self.per_block), blocks, strict=True):
                content = torch.from_numpy(block.reshape(self.per_block, self.unit_bytes))
                with torch.inference_mode():
                    self._units.restore(ids[begin : begin + self.per_block], content)
            return lambda: None

        size = len(blocks), self.block_bytes
        with torch.inference_mode(), torch.cuda.stream(self._writes):
            staged = torch.empty(size, dtype=torch.uint8, device=self._device)
            for part, block in zip(staged, blocks, strict=True):
                part.copy_(torch.from_numpy(block).view(-1), non_blocking=True)
            self._units.restore(ids, staged.view(len(ids), self.unit_bytes))
            written = torch.cuda.Event()
            written.record()
        return written.synchronize

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
