"""Messages from rank 0 to all followers: arrays in shared memory, and a pipe per follower.

The shared memory is an unnamed file, removed with the processes. A pipe carries the place of each
message. A follower waits by reading the pipe, and the end of the pipe is the end of rank 0. The
first page of the memory has the number of messages read by each follower.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from ...shared_file import reserve, unnamed_file

Ints = NDArray[np.int32]

PLACES = 8
"""Initial number of places for messages. A message never waits: more places follow if a follower
has not read the message in the next place."""

PLACE_SIZE = 1 << 16
"""Initial number of integers of a place for a message."""

HEAD = struct.Struct("<QQ")  # begin and end of a message's place in the memory, in integers

COUNTS_BYTES = mmap.PAGESIZE
"""Size of the counts at the begin of the memory: int64 per follower."""


class RingWriter:
    """Writer of messages for all followers, on one thread at a time.

    Args:
        readers: Number of followers.
        place_size: Initial number of integers of a place.

    Attributes:
        memory: File descriptor for the followers.

    Raises:
        MemoryError: No memory is left for the first places.
    """

    def __init__(self, readers: int, place_size: int = PLACE_SIZE) -> None:
        self.memory = unnamed_file("sgnb-steps")
        self._read = memoryview(b"").cast("q")
        self._size = COUNTS_BYTES // 4
        self._num_places = self._place_size = self._written = 0
        self._places: Iterator[tuple[bytes, Ints]] = iter(())
        try:
            self._extend(PLACES, place_size)
            self._read = memoryview(mmap.mmap(self.memory, COUNTS_BYTES)).cast("q")[:readers]
        except BaseException:
            self.close()
            raise

    def write(self, parts: Sequence[NDArray[np.integer]], pipes: Sequence[int]) -> None:
        """Write concatenated arrays as int32, and tell the followers.

        Args:
            parts: Arrays of one dimension.
            pipes: File descriptor of each follower's pipe.

        Raises:
            OSError: A follower has ended.
            MemoryError: No memory is left for the message, and nothing is written.
        """
        size = sum(map(len, parts))
        if size > self._place_size:
            self._extend(self._num_places, max(2 * self._place_size, size))
        if self._written - min(self._read, default=self._written) >= self._num_places:
            self._extend(2 * self._num_places, self._place_size)

        head, place = next(self._places)
        end = 0
        for part in parts:  # faster than np.concatenate after a step of the model, with cold caches
            begin, end = end, end + len(part)
            place[begin:end] = part
        self._written += 1
        for pipe in pipes:
            os.write(pipe, head)

    def close(self) -> None:
        """Release the memory. Idempotent."""
        if self.memory >= 0:
            self._places = iter(())
            self._read = self._read[:0]
            os.close(self.memory)
            self.memory = -1

    def _extend(self, num_places: int, place_size: int) -> None:
        """Add places for the next messages. Places of unread messages stay. Changes nothing
        before a MemoryError."""
        begin, end = self._size, self._size + num_places * place_size
        try:
            reserve(self.memory, 4 * begin, 4 * (end - begin))
            array = np.frombuffer(mmap.mmap(self.memory, 4 * end), np.int32)
        except (OSError, ValueError) as error:
            message = f"{4 * (end - begin):,} bytes of shared memory for steps: {error}"
            raise MemoryError(message) from None
        self._size, self._num_places, self._place_size = end, num_places, place_size
        bounds = [(at, at + place_size) for at in range(begin, end, place_size)]
        self._places = cycle([(HEAD.pack(*place), array[slice(*place)]) for place in bounds])


class RingReader:
    """Reader of a follower.

    Args:
        memory: File descriptor of the shared memory.
        pipe: File descriptor of this follower's pipe.
        rank: Number of this follower, from 1.
    """

    def __init__(self, memory: int, pipe: int, rank: int) -> None:
        self._memory, self._pipe = memory, pipe
        self._array: Ints = np.empty(0, np.int32)
        self._read = memoryview(mmap.mmap(memory, COUNTS_BYTES)).cast("q")[rank - 1 : rank]
        self._count = 0

    def read(self) -> Ints | None:
        """Wait for a message. Returns a view of its place, which has unused integers behind the
        message and is overwritten after the next call. None at the end of rank 0."""
        self._read[0] = self._count
        head = read_bytes(self._pipe, HEAD.size)
        if head is None:
            return None
        self._count += 1
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
