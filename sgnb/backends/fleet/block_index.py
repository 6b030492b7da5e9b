"""Exact index from blocks of prompts to the workers with these blocks. Knows no events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence, Set
from itertools import repeat
from operator import or_
from typing import NamedTuple

Key = Hashable
"""Key of a block. Equal keys mean equal prompts up to the end of the block (`block_keys`)."""


class Level(NamedTuple):
    """A part of a prompt, and the workers with this part."""

    blocks: int  # number of leading blocks
    workers: int  # bitset: bit w is worker w


class BlockIndex:
    """Cached blocks of each worker, and blocks of booked calls.

    A cache holds a block only with all blocks before, as a radix tree does. The sets of workers
    along a prompt therefore shrink, and `levels` needs few lookups.
    """

    def __init__(self) -> None:
        self._holders: dict[Key, int] = {}
        self._cached = defaultdict[int, set[Key]](set)
        self._booked = defaultdict[int, Counter[Key]](Counter)

    def cached(self, worker: int) -> Set[Key]:
        """Return the blocks in the worker's cache, without bookings."""
        return self._cached[worker]

    def add(self, worker: int, keys: Sequence[Key]) -> None:
        """Record new blocks of the worker's cache."""
        self._mark(worker, keys)
        self._cached[worker].update(keys)

    def remove(self, worker: int, keys: Iterable[Key]) -> None:
        """Record evicted blocks of the worker's cache."""
        cached, booked = self._cached[worker], self._booked[worker]
        for key in keys:
            cached.discard(key)
            if key not in booked:
                self._clear(worker, key)

    def book(self, worker: int, keys: Sequence[Key]) -> None:
        """Count the future blocks of a call as present. `unbook` must follow."""
        self._mark(worker, keys)
        self._booked[worker].update(keys)

    def unbook(self, worker: int, keys: Iterable[Key]) -> None:
        """Undo `book`: the call ended or moved. Cached blocks stay."""
        cached, booked = self._cached[worker], self._booked[worker]
        for key in keys:
            if booked[key] > 1:
                booked[key] -= 1
                continue
            booked.pop(key)
            if key not in cached:
                self._clear(worker, key)

    def forget(self, worker: int) -> None:
        """Remove all cached blocks of the worker."""
        self.remove(worker, list(self._cached[worker]))

    def levels(self, keys: Sequence[Key]) -> list[Level]:
        """Return the parts of a prompt with different sets of workers, the shortest part first."""
        get, count = self._holders.get, len(keys)
        levels: list[Level] = []
        begin = 0
        while begin < count and (workers := get(keys[begin], 0)):
            last, stride = begin, 1
            while last + stride < count and get(keys[last + stride]) == workers:
                last += stride
                stride *= 2

            while stride := stride // 2:
                if last + stride < count and get(keys[last + stride]) == workers:
                    last += stride
            begin = last + 1
            levels.append(Level(begin, workers))
        return levels

    def _mark(self, worker: int, keys: Sequence[Key]) -> None:
        earlier = map(self._holders.get, keys, repeat(0))
        # One pass in C: a decision books hundreds of blocks.
        self._holders.update(zip(keys, map(or_, earlier, repeat(1 << worker)), strict=True))

    def _clear(self, worker: int, key: Key) -> None:
        workers = self._holders.get(key, 0) & ~(1 << worker)
        if workers:
            self._holders[key] = workers
        else:
            self._holders.pop(key, None)
