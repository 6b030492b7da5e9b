"""Blocks in host memory. Knows no files and no requests.

A block occupies a place in an arena. A place is free, stored, or moving: a copy fills the place, or
reads the place of a block that was removed meanwhile. The lock is never held during a copy.

Only blocks without a stored next block are evicted: a block is useless without the blocks before.
Blocks that the KV pool has, too, are evicted first. The order of the others is GreedyDual (Young,
1994): the value of a block is `clock` at the last use plus the saved seconds, and `clock` is the
value of the last loser. All blocks have the same size.
"""

from __future__ import annotations

import heapq
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..radix import Ints
from .blocks import BLOCK, Block, Bytes, CopyChange, Reservation

ARENA_BYTES = 1 << 28

RESERVE_BYTES = 1 << 30
"""Host memory that stays free: below this, an arena is returned."""

Rank = tuple[float, int]
"""Value of a block and number of the last use: the lowest rank is evicted first."""


@dataclass(slots=True, eq=False)
class Arena:
    """Memory of many blocks. `returned`: freed with the last block that is still copied."""

    size: int
    returned: bool = False


class BlockPlace(NamedTuple):
    """Memory of a block, uint8[BLOCK, unit_bytes]."""

    data: Bytes
    arena: Arena


@dataclass(slots=True, eq=False)
class HeldBlock:
    """A stored block.

    Attributes:
        readers: Number of copies from the place.
        queued: The queue contains the block.
    """

    place: BlockPlace
    parent: bytes
    tokens: bytes
    seconds: float
    rank: Rank
    readers: int = 0
    queued: bool = False


class HostBlocks:
    """`BlockStore` in host memory. `grow` allocates arenas ahead of the writes, if the machine has
    enough free memory: on a GPU an allocation takes longer than the copies to the arena.

    Args:
        limit_bytes: Upper bound of the memory of all arenas.
        unit_bytes: Bytes per token.
        allocate: See `Transfer.allocate`.
        free_bytes: Returns the free memory of the machine.

    Attributes:
        total: Number of places. Always the sum of `free`, `stored` and `moving`.
    """

    name = "host"

    def __init__(
        self,
        limit_bytes: int,
        unit_bytes: int,
        allocate: Callable[[int], Bytes],
        free_bytes: Callable[[], int] = lambda: sys.maxsize,
    ) -> None:
        self.total = self.moving = 0
        self._free_bytes = free_bytes
        self.changes: deque[CopyChange] = deque()
        self._unit_bytes, self._allocate = unit_bytes, allocate
        self._sizes = arena_sizes(limit_bytes, BLOCK * unit_bytes)  # of further arenas
        self._arenas: list[Arena] = []

        self._lock = threading.Lock()
        self._grown = threading.Condition(self._lock)
        self._is_growing = self._is_short = False  # too little free memory for the next arena
        self._places: list[BlockPlace] = []
        self._blocks: dict[bytes, HeldBlock] = {}
        self._following = Counter[bytes]()  # number of stored next blocks of each block
        # A heap with a rank of each block without a next block. Ranks may be outdated, and blocks
        # may have a next block since, or be removed.
        self._queue: list[tuple[Rank, bytes, HeldBlock]] = []
        self._cached: dict[bytes, None] = {}  # blocks that the KV pool has, too
        self._clock, self._uses, self._flushes = 0.0, 0, 0
        self._closed = False

    @property
    def free(self) -> int:
        """Number of free places."""
        return len(self._places)

    @property
    def stored(self) -> int:
        """Number of stored blocks."""
        return len(self._blocks)

    def holds(self, key: bytes) -> bool:
        return key in self._blocks

    def seconds(self, key: bytes) -> float:
        block = self._blocks.get(key)
        return 0.0 if block is None else block.seconds

    @contextmanager
    def open(
        self, key: bytes, parent: bytes, tokens: Ints, spare: Callable[[], Bytes]
    ) -> Iterator[Bytes | None]:
        """See `BlockStore`. Gives the place of the block, which no write uses meanwhile."""
        content = parent, tokens.tobytes()
        with self._lock:
            block = self._blocks.get(key)
            matches = block is not None and (block.parent, block.tokens) == content
            if block is not None and matches:
                block.rank = self._rank(block.seconds)
                block.readers += 1

        if block is None or not matches:
            yield None
            return
        try:
            yield block.place.data
        finally:
            with self._lock:
                block.readers -= 1
                if not block.readers and self._blocks.get(key) is not block:
                    self._vacate(block.place)

    def write(self, block: Block) -> bool:
        with self._lock:
            stored = self._blocks.get(block.key)
            if stored is not None:
                stored.rank = self._rank(stored.seconds)
                return True

        if not self._places:
            self.grow(1)
        with self._lock:
            reserved = self._reserve(block.key, block.parent, block.seconds, True)
        if reserved is None:
            self.changes.append(CopyChange(block.key, "bound"))
            return False
        try:
            np.copyto(reserved.data, block.data)
            return reserved.store(block)
        finally:
            reserved.cancel()

    def reserve(self, key: bytes, parent: bytes, seconds: float) -> Reservation | None:
        with self._lock:
            return None if key in self._blocks else self._reserve(key, parent, seconds, False)

    def _reserve(
        self, key: bytes, parent: bytes, seconds: float, has_grown: bool
    ) -> Reservation | None:
        """See `reserve`. has_grown: no arena can be added; otherwise valuable blocks stay."""
        rank, flushes, is_open = self._rank(seconds), self._flushes, True
        place = self._places.pop() if self._places else self._evict_cached(parent)
        if place is None and (has_grown or not self.lacks(1)):
            place = self._evict(rank, parent)
        if place is None:
            return None
        self.moving += 1

        def end(block: Block | None) -> bool:
            nonlocal is_open
            with self._lock:
                if not is_open:
                    return False
                is_open = False
                # Another thread may have stored the block, or removed all blocks.
                gone = flushes != self._flushes or place.arena.returned
                if block is None or key in self._blocks or gone:
                    self._vacate(place)
                else:
                    self._hold(block, place, rank)
            return block is not None and key in self._blocks

        return Reservation(place.data, end, partial(end, None))

    def _hold(self, block: Block, place: BlockPlace, rank: Rank) -> None:
        self.moving -= 1
        parent, tokens = block.parent, block.tokens.tobytes()
        self._blocks[block.key] = HeldBlock(place, parent, tokens, block.seconds, rank)
        self._following[parent] += 1
        self._enqueue(block.key)
        self.changes.append(CopyChange(block.key, "stored"))

    def flush(self) -> None:
        with self._lock:
            self._flushes += 1
            self.moving += len(self._blocks)
            self.changes.extend(CopyChange(key, "flush") for key in self._blocks)
            for block in self._blocks.values():
                if not block.readers:
                    self._vacate(block.place)

            self._blocks.clear()
            self._following.clear()
            self._queue.clear()
            self._cached.clear()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._sizes.clear()
            while self._arenas:
                self._return_arena()

    def relieve(self) -> None:
        """Return arenas, the latest first, while the machine has too little free memory. Their
        blocks are removed."""
        with self._lock:
            while self._arenas and self._free_bytes() < RESERVE_BYTES:
                self._sizes.append(self._arenas[-1].size)
                self._return_arena()
            self._is_short = False  # the next growth compares the memory again

    def _rank(self, seconds: float) -> Rank:
        self._uses += 1
        return self._clock + seconds, self._uses

    def _enqueue(self, key: bytes) -> None:
        """Add a block without a stored next block to the queue."""
        block = self._blocks.get(key)
        if block is not None and not block.queued and not self._following[key]:
            block.queued = True
            heapq.heappush(self._queue, (block.rank, key, block))

    def _remove(self, key: bytes) -> HeldBlock:
        block = self._blocks.pop(key)
        self._cached.pop(key, None)
        self._following[block.parent] -= 1
        if not self._following[block.parent]:
            del self._following[block.parent]
            self._enqueue(block.parent)
        return block

    def _return_arena(self) -> None:
        """Free the latest arena, and remove its blocks."""
        arena = self._arenas.pop()
        arena.returned = True
        kept = [place for place in self._places if place.arena is not arena]
        self.total -= len(self._places) - len(kept)
        self._places = kept
        for key, block in list(self._blocks.items()):
            if block.place.arena is arena:
                self._remove(key)
                self.changes.append(CopyChange(key, "memory"))
                self.moving += 1
                if not block.readers:
                    self._vacate(block.place)

        self._prune()

    def _prune(self) -> None:
        """Remove removed blocks from the queue."""
        self._queue = [each for each in self._queue if self._blocks.get(each[1]) is each[2]]
        heapq.heapify(self._queue)

    def _vacate(self, place: BlockPlace) -> None:
        """End the move of a place. A place of a returned arena is gone."""
        self.moving -= 1
        if place.arena.returned:
            self.total -= 1
        else:
            self._places.append(place)

    def mark(self, keys: Sequence[bytes], cached: bool) -> None:
        with self._lock:
            for key in keys:
                block = self._blocks.get(key)
                if block is None:
                    continue
                self._cached.pop(key, None)
                if cached:
                    self._cached[key] = None
                else:
                    block.rank = self._rank(block.seconds)

    def _evict_cached(self, parent: bytes) -> BlockPlace | None:
        """Remove a block that the KV pool has, too, except `parent`, and blocks with readers or a
        next block. Returns the place, or None without such a block.

        The latest block first: the pool keeps this block the longest. The oldest block needs a new
        copy soon, and the next oldest block would lose its copy to the new copy.
        """
        while self._cached:
            key, _ = self._cached.popitem()
            if not (self._following[key] or self._blocks[key].readers or key == parent):
                if len(self._queue) > 2 * len(self._blocks):
                    self._prune()
                return self._give_up(key)
        return None

    def _evict(self, rank: Rank, parent: bytes) -> BlockPlace | None:
        """Remove the block of the lowest rank, except `parent`, and blocks with readers or a next
        block. Returns the place, or None if no rank is below `rank`."""
        kept: list[tuple[Rank, bytes, HeldBlock]] = []
        place = None
        while place is None and self._queue:
            queued, key, block = self._queue[0]
            if self._following[key] or self._blocks.get(key) is not block:
                heapq.heappop(self._queue)
                block.queued = False
                continue

            if queued != block.rank:
                heapq.heapreplace(self._queue, (block.rank, key, block))
                continue

            self._clock = max(self._clock, min(queued, rank)[0])
            if queued > rank:
                break

            heapq.heappop(self._queue)
            if block.readers or key == parent:
                kept.append((queued, key, block))
            else:
                place = self._give_up(key)

        for entry in kept:
            heapq.heappush(self._queue, entry)
        return place

    def _give_up(self, key: bytes) -> BlockPlace:
        self.changes.append(CopyChange(key, "room"))
        return self._remove(key).place

    def lacks(self, count: int) -> bool:
        return bool(self._sizes) and len(self._places) < count and not self._is_short

    def grow(self, count: int) -> None:
        while (size := self._next_size(count)) and self._add_arena(size):
            pass

    def _next_size(self, count: int) -> int:
        """Begin the allocation of the next arena. Returns the size; 0 if `count` places are free,
        or the present arenas are the last."""
        with self._lock:
            self._grown.wait_for(lambda: len(self._places) >= count or not self._is_growing)
            if len(self._places) >= count or not self._sizes:
                return 0
            self._is_growing = True
            return self._sizes.pop()

    def _add_arena(self, size: int) -> bool:
        """Add the places of a new arena, if at least as much memory stays free, and the reserve. If
        the memory is full, the present arenas are the last. Returns whether the arena is added."""
        memory, is_full = None, False
        try:
            if self._free_bytes() >= 2 * size + RESERVE_BYTES:
                memory = self._allocate(size)
        except (MemoryError, RuntimeError):
            is_full = True
        finally:
            with self._lock:
                self._is_growing, self._is_short = False, memory is None
                if is_full:
                    self._sizes.clear()
                elif memory is None and not self._closed:
                    self._sizes.append(size)
                elif memory is not None and not self._closed:
                    self._add_places(memory, Arena(size))
                self._grown.notify_all()
        return memory is not None

    def _add_places(self, memory: Bytes, arena: Arena) -> None:
        count = arena.size // (BLOCK * self._unit_bytes)
        blocks = memory[: count * BLOCK * self._unit_bytes]
        places = blocks.reshape(count, BLOCK, self._unit_bytes)
        self._arenas.append(arena)
        self._places += [BlockPlace(place, arena) for place in places]
        self.total += count


def arena_sizes(limit: int, block_bytes: int) -> list[int]:
    """Return the bytes of each arena, the largest last."""
    full = max(ARENA_BYTES, block_bytes)
    sizes = [limit % full] if limit % full >= block_bytes else []
    return sizes + [full] * (limit // full)
