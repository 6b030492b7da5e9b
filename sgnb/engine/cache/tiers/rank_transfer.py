"""Copies of blocks of all ranks: rank 0 sends commands, and each rank copies its own part.

The stores, the index and all decisions are on rank 0. A block of all ranks has a single place in
memory shared by all ranks, and a single file. A command reaches a follower between the same two
steps as on rank 0. A copy has ended when all ranks have confirmed the end, on a thread of the
stores: no step waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from ..radix import Ints
from ..slot_allocator import SlotAllocator
from .block_transfer import BlockTransfer
from .blocks import Bytes
from .copy_commands import CopyCommand, CopyKind, CopyRanks
from .host import arena_sizes
from .shared_places import PlaceMemory, PlacePool
from .transfers import MAX_PENDING_BYTES, ReadBlocks, Transfer

MOST_READ = 2048
"""Largest number of blocks on the way to the stores."""


class RankTransfer(Transfer):
    """`Transfer` of all ranks, on rank 0.

    Args:
        own: Copies of the part of rank 0.
        units: KV slots.
        ranks: The ranks.
        host_bytes: Bytes of the blocks in host memory.
        readers: Number of threads with calls of `spare`.
    """

    def __init__(
        self,
        own: BlockTransfer,
        units: SlotAllocator,
        ranks: CopyRanks,
        host_bytes: int,
        readers: int,
    ) -> None:
        super().__init__(units, own.per_block, ranks.size * own.unit_bytes, padding=0)
        self._own, self._ranks = own, ranks
        self._most_read = max(1, min(MOST_READ, MAX_PENDING_BYTES // self.block_bytes))
        spare_bytes = readers * self.part_blocks * self.block_bytes
        read_bytes = self._most_read * self.block_bytes
        self._memory = PlaceMemory(
            ranks.blocks,
            own.block_bytes,
            ranks.size,
            [spare_bytes, read_bytes, *arena_sizes(host_bytes, self.block_bytes)],
            self._pin,
            self._unpin,
        )
        self._spare = PlacePool(self._memory, self._memory.allocate(spare_bytes))
        self._read = PlacePool(self._memory, self._memory.allocate(read_bytes))

    @property
    def part_blocks(self) -> int:
        return min(self._most_read, super().part_blocks)

    def read(self, ids: Ints, places: Sequence[Bytes] = ()) -> Callable[[], ReadBlocks] | None:
        blocks = places or self._read.take(len(ids) // self.per_block)
        if blocks is None:
            return None
        numbers = self._numbers(blocks)
        confirm = self._ranks.ask(CopyCommand(CopyKind.READ, numbers, ids))
        try:
            wait = self._own.read(ids, self._memory.parts(numbers, 0))
        except BaseException:
            confirm()  # the caller gives up the places, which the followers fill
            raise

        def finish() -> ReadBlocks:
            finite = wait().finite
            for not_finite in confirm():
                finite[not_finite] = False
            return ReadBlocks(blocks, finite)

        return finish

    def begin_writes(self) -> None:
        self._own.begin_writes()
        self._ranks.tell(CopyCommand(CopyKind.BEGIN_WRITES))

    def end_writes(self) -> None:
        self._own.end_writes()
        self._ranks.tell(CopyCommand(CopyKind.END_WRITES))

    def write(self, ids: Ints, blocks: Sequence[Bytes]) -> Callable[[], None]:
        places = self._numbers(blocks)
        confirm = self._ranks.ask(CopyCommand(CopyKind.WRITE, places, ids))
        wait = self._own.write(ids, self._memory.parts(places, 0))

        def finish() -> None:
            wait()
            confirm()

        return finish

    def spare(self, count: int) -> Sequence[Bytes]:
        blocks = self._spare.take(count)
        if blocks is None:
            raise MemoryError(f"no memory of the ranks is left for {count} blocks")
        return blocks

    def allocate(self, size: int) -> Bytes:
        return self._memory.allocate(size)

    def close(self) -> None:
        self._own.close()
        self._spare = self._read = PlacePool(self._memory, self._memory.view(0, 0))

    def _numbers(self, blocks: Sequence[Bytes]) -> Ints:
        return np.array([self._memory.number(block) for block in blocks], np.int32)

    def _pin(self, first: int, count: int) -> None:
        """Pin the memory of places on all ranks. The pages are taken once, before."""
        if self._own.device.type != "cuda":
            return
        self._memory.view(first, count).fill(0)
        confirm = self._ranks.ask(CopyCommand(CopyKind.PIN, np.array([first, count], np.int32)))
        self._memory.pin(self._own.device, first, count)
        confirm()

    def _unpin(self, first: int) -> None:
        if self._own.device.type == "cuda":
            self._memory.unpin(first)
            self._ranks.tell(CopyCommand(CopyKind.UNPIN, np.array([first], np.int32)))


def group_fingerprint(own: str, ranks: CopyRanks) -> str:
    """Return the fingerprint of the weights of all ranks: another number of ranks has another
    fingerprint. own: fingerprint of rank 0."""
    parts = [own, *ranks.ask(CopyCommand(CopyKind.IDENTIFY))()]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()
