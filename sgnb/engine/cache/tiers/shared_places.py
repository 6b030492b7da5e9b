"""Memory for blocks, mapped by all ranks of an engine: a file of places with a block each.

A place has the part of rank 0 first, then the part of rank 1, until the last rank. Stores see a
block of all ranks as a single content. Only rank 0 allocates places.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import torch

from ....errors import OptionError
from ....shared_file import reserve
from ..radix import Ints
from .blocks import BLOCK, Bytes
from .host_memory import pin, unpin


class SharedPlaces:
    """A mapping of the file in a process.

    Args:
        file: Descriptor of the file.
        part_bytes: Bytes of a rank's part of a block.
        ranks: Number of ranks.
    """

    def __init__(self, file: int, part_bytes: int, ranks: int) -> None:
        self._map = mmap.mmap(file, 0)
        self._part_bytes, self.block_bytes = part_bytes, ranks * part_bytes
        self._pinned = set[int]()  # first places

    def view(self, first: int, count: int) -> Bytes:
        """Return the memory of consecutive places, uint8[count * block_bytes]."""
        size = count * self.block_bytes
        return np.frombuffer(self._map, np.uint8, size, first * self.block_bytes)

    def parts(self, places: Ints, rank: int) -> list[Bytes]:
        """Return a rank's parts of places, each uint8[BLOCK, part_bytes / BLOCK]."""
        begins = (places.astype(np.int64) * self.block_bytes + rank * self._part_bytes).tolist()
        return [
            np.frombuffer(self._map, np.uint8, self._part_bytes, begin).reshape(BLOCK, -1)
            for begin in begins
        ]

    def pin(self, device: torch.device, first: int, count: int) -> None:
        """Pin the memory of places for copies by a GPU of this process.

        Raises:
            MemoryError: CUDA cannot pin the memory.
        """
        pin(device, self.view(first, count))
        self._pinned.add(first)

    def unpin(self, first: int) -> None:
        """Undo `pin`, if any."""
        if first in self._pinned:
            self._pinned.remove(first)
            unpin(self.view(first, 1).ctypes.data)


class PlaceMemory(SharedPlaces):
    """The places of rank 0. Sets the size of the file. An arena takes memory.

    Args:
        file: Descriptor of the file.
        part_bytes: Bytes of a rank's part of a block.
        ranks: Number of ranks.
        arenas: Bytes of all arenas allocated at the same time.
        pin: Pins the memory of places on all ranks, given by the first place and the number;
            raises MemoryError or RuntimeError.
        unpin: Undoes `pin`, if any, given the first place.

    Raises:
        OptionError: The memory is larger than the machine can address.
    """

    def __init__(
        self,
        file: int,
        part_bytes: int,
        ranks: int,
        arenas: Sequence[int],
        pin: Callable[[int, int], None],
        unpin: Callable[[int], None],
    ) -> None:
        block_bytes = ranks * part_bytes
        # Memory is pinned and returned in whole pages.
        self._step = mmap.PAGESIZE // math.gcd(block_bytes, mmap.PAGESIZE)
        size = block_bytes * sum(self._count(size, block_bytes) for size in arenas)
        try:
            os.ftruncate(file, size)
            super().__init__(file, part_bytes, ranks)
        except (OSError, OverflowError, ValueError) as error:
            raise OptionError(
                f"{size:,} bytes of memory for {ranks} ranks cannot be mapped: {error}",
                "load with a smaller host_cache",
            ) from None
        self._file = file
        self._lock = threading.Lock()
        self._next = 0  # first place of the next arena
        self._unused: dict[int, list[int]] = {}  # first places of returned arenas by count
        self._pin_all, self._unpin_all = pin, unpin
        self._begin = self.view(0, 1).ctypes.data

    def number(self, block: Bytes) -> int:
        """Return the number of the place at the begin of memory."""
        address: int = block.__array_interface__["data"][0]
        return (address - self._begin) // self.block_bytes

    def allocate(self, size: int) -> Bytes:
        """Allocate an arena of `size` bytes, pinned on all ranks. On any thread. The memory returns
        with the last reference.

        Raises:
            MemoryError, RuntimeError: The memory is full, or a rank cannot pin the memory.
        """
        count = self._count(size, self.block_bytes)
        with self._lock:
            unused = self._unused.get(count)
            first = unused.pop() if unused else self._next
            self._next = max(self._next, first + count)
        try:
            self._reserve(first, count)
            self._pin_all(first, count)
        except BaseException:
            self._release(first, count)
            raise
        memory = self.view(first, count)
        weakref.finalize(memory, self._release, first, count).atexit = False
        return memory[:size]

    def _reserve(self, first: int, count: int) -> None:
        size = count * self.block_bytes
        try:
            reserve(self._file, first * self.block_bytes, size)
        except OSError as error:
            raise MemoryError(f"{size:,} bytes of shared memory for blocks: {error}") from None

    def _count(self, size: int, block_bytes: int) -> int:
        """Return the number of places of an arena."""
        return -(-size // (block_bytes * self._step)) * self._step

    def _release(self, first: int, count: int) -> None:
        """Return the memory of an arena to the machine."""
        self._unpin_all(first)
        with suppress(AttributeError, OSError):  # only Linux
            begin, size = first * self.block_bytes, count * self.block_bytes
            self._map.madvise(mmap.MADV_REMOVE, begin, size)
        self._unused.setdefault(count, []).append(first)


class PlacePool:
    """Places for contents on the way. On any thread.

    Args:
        places: The memory.
        arena: Part of the memory, kept by the pool and the taken blocks.
    """

    def __init__(self, places: PlaceMemory, arena: Bytes) -> None:
        self._places, self._arena = places, arena
        first, count = places.number(arena), len(arena) // places.block_bytes
        self._free = list(range(first + count - 1, first - 1, -1))

    def take(self, count: int) -> list[Bytes] | None:
        """Return blocks, uint8[BLOCK, block_bytes / BLOCK], each free with its last reference; None
        without free places."""
        numbers: list[int] = []
        try:
            for _ in range(count):
                numbers.append(self._free.pop())
        except IndexError:
            self._free += numbers
            return None
        return [self._block(number) for number in numbers]

    def _block(self, number: int) -> Bytes:
        memory = self._places.view(number, 1)
        weakref.finalize(memory, self._give_back, number).atexit = False
        return memory.reshape(BLOCK, -1)

    def _give_back(self, number: int) -> None:
        self._free.append(number)
