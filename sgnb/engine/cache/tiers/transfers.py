"""Interface of copies of a payload between the device and host memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radix import Ints
from ..slot_allocator import SlotAllocator
from .blocks import BLOCK, Bytes

PART_BYTES = 32 * 2**20
"""Largest copy at once."""

MAX_PENDING_BYTES = 2**30
"""Copies on the way through other memory than that of a store. Further copies are dropped: an
eviction never waits."""


class ReadBlocks(NamedTuple):
    """Content of blocks."""

    blocks: Sequence[Bytes]  # each uint8[BLOCK, row_bytes]
    finite: NDArray[np.bool_]  # blocks with only finite values


class Transfer(ABC):
    """Copies between the units of a payload and host memory. Reads are on the engine's thread and
    stream, writes on any thread and on streams of their own.

    Args:
        units: KV slots, or states, with content.
        per_block: Units of a block: `BLOCK` slots, or one state.
        unit_bytes: Bytes of a unit in host memory. A block has a multiple of `BLOCK` bytes.
        padding: Zeros at the end of a unit in host memory, in bytes.

    Attributes:
        per_block, unit_bytes: See above.
    """

    def __init__(self, units: SlotAllocator, per_block: int, unit_bytes: int, padding: int) -> None:
        self._units, self.per_block, self.unit_bytes = units, per_block, unit_bytes
        self._padding = padding

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in host memory."""
        return self.per_block * self.unit_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a block, see `Block.data`."""
        return self.block_bytes // BLOCK

    @property
    def part_blocks(self) -> int:
        """Largest number of blocks to copy at once."""
        return max(1, PART_BYTES // self.block_bytes)

    @abstractmethod
    def read(self, ids: Ints, places: Sequence[Bytes] = ()) -> Callable[[], ReadBlocks] | None:
        """Copy the content of units. The units may change after the call.

        Args:
            ids: Units of at most `part_blocks` blocks.
            places: Memory of `allocate` for the content of each block. Otherwise the content is
                in other memory.

        Returns:
            A function to wait for the copy, on any thread, with the content. On a GPU the copy
            follows the launched kernels, and this call does not wait. None if no other memory is
            left.
        """

    @abstractmethod
    def begin_writes(self) -> None:
        """Order later writes after all launched work of the engine's thread, which may use the
        units."""

    @abstractmethod
    def end_writes(self) -> None:
        """Order later work of the engine's thread after all writes."""

    @abstractmethod
    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        """Write the content of units, in blocks: memory of a store, or of `spare`. Takes memory of
        the device for all blocks.

        Returns:
            A function to wait until the blocks are read and the units are written. From pinned
            memory, a write itself does not wait.
        """

    @abstractmethod
    def spare(self, count: int) -> Sequence[Bytes]:
        """Return memory for copies of blocks, each uint8[BLOCK, row_bytes], pinned for a GPU.

        Raises:
            MemoryError: No memory is left.
        """

    @abstractmethod
    def allocate(self, size: int) -> Bytes:
        """Allocate memory of a store for many blocks, pinned for a GPU.

        Raises:
            MemoryError, RuntimeError: The memory cannot be allocated or pinned.
        """

    @abstractmethod
    def close(self) -> None:
        """Return the memory of copies on the way, once the copies have ended."""

    def find_fault(self) -> str:
        """Write random content to the units of a block, read and compare. Returns the difference as
        text, or ""."""
        units, [block] = self._units, self.spare(1)
        if units.available < self.per_block:
            return f"the KV pool of {units.total} tokens is smaller than a block of {BLOCK}"
        content = np.random.default_rng(0).integers(0, 256, block.shape, np.uint8)
        content.reshape(self.per_block, -1)[:, self.unit_bytes - self._padding :] = 0
        ids = units.allocate(self.per_block)
        try:
            self.begin_writes()
            np.copyto(block, content)
            self.write(ids, [block])()
            reading = self.read(ids)
            assert reading is not None
            [restored] = reading().blocks
            wrong = np.flatnonzero((restored != content).reshape(self.per_block, -1).any(axis=0))
            block.fill(0)
            self.write(ids, [block])()  # unused units stay finite
        finally:
            units.free(ids)

        kind = "a token" if self.per_block > 1 else "the recurrent layers' state"
        return f"byte {wrong[0]} of {kind} is not restored" if len(wrong) else ""
