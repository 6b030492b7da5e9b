"""Messages from rank 0 to all followers: arrays in shared memory, and a pipe per follower.

The shared memory is an unnamed file, removed with the processes. A pipe carries the place of each
message. A follower waits by reading the pipe, and the end of the pipe is the end of rank 0.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

UNREAD = 4
"""Maximum number of unread messages while a new message is written. The results of a step need all
ranks, and at most two steps are launched before the results are read."""

PLACE_SIZE = 1 << 16
"""Initial number of integers of a place for a message."""

HEAD = struct.Struct("<QQ")  # begin and end of a message's place in the memory, in integers


class RingWriter:
    """Writer of messages for all followers. `memory`: file descriptor for the followers."""

    def __init__(self, place_size: int = PLACE_SIZE) -> None:
        self.memory = _unnamed_file()
        self._size = self._place_size = 0
        self._places: Iterator[tuple[bytes, Ints]] = iter(())
        self._extend(place_size)

    def write(self, parts: Sequence[NDArray[np.integer]], pipes: Sequence[int]) -> None:
        """Write concatenated arrays as int32, and tell the followers.

        Args:
            parts: Arrays of one dimension.
            pipes: File descriptor of each follower's pipe.

        Raises:
            OSError: A follower has ended.
        """
        size = sum(map(len, parts))
        if size > self._place_size:
            self._extend(max(2 * self._place_size, size))
        head, place = next(self._places)
        end = 0
        for part in parts:  # faster than np.concatenate after a step of the model, with cold caches
            begin, end = end, end + len(part)
            place[begin:end] = part
        for pipe in pipes:
            os.write(pipe, head)

    def close(self) -> None:
        """Release the memory. Idempotent."""
        if self.memory >= 0:
            self._places = iter(())
            os.close(self.memory)
            self.memory = -1

    def _extend(self, place_size: int) -> None:
        """Add larger places for the next messages. Places of unread messages stay."""
        begin, self._place_size = self._size, place_size
        self._size += (UNREAD + 1) * place_size
        os.ftruncate(self.memory, 4 * self._size)
        array = np.frombuffer(mmap.mmap(self.memory, 4 * self._size), np.int32)
        bounds = [(at, at + place_size) for at in range(begin, self._size, place_size)]
        self._places = cycle([(HEAD.pack(*place), array[slice(*place)]) for place in bounds])


def _unnamed_file() -> int:
    """Return the descriptor of a new file in memory, or on disk if the system has no memfd."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sgnb-steps")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class RingReader:
    """Reader of a follower.

    Args:
        memory: File descriptor of the shared memory.
        pipe: File descriptor of this follower's pipe.
    """

    def __init__(self, memory: int, pipe: int) -> None:
        self._memory, self._pipe = memory, pipe
        self._array: Ints = np.empty(0, np.int32)

    def read(self) -> Ints | None:
        """Wait for a message. Returns a view of its place, which has unused integers behind the
        message and is overwritten later. None at the end of rank 0."""
        head = read_bytes(self._pipe, HEAD.size)
        if head is None:
            return None
        begin, end = HEAD.unpack(head)
        if end > len(self._array):
            self._array = np.frombuffer(mmap.mmap(self._memory, 0), np.int32)
        return self._array[begin:end]


def read_bytes(pipe: int, count: int) -> bytes | None:
    """Return the next bytes of a pipe, or None at the end."""
    data = b""
    while len(data) < count:
        more = os.read(pipe, count - len(data))
        if not more:
            return None
        data += more
    return data
