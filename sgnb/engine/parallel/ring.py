"""Messages from rank 0 to all followers: arrays in shared memory, and a pipe per follower.

The shared memory is an unnamed file, removed with the processes. A pipe carries the place and a few
numbers of each message. A follower waits by reading the pipe, and the end of the pipe is the end of
rank 0.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

CAPACITY = 1 << 20
"""Initial bytes of the shared memory; a larger message extends the memory."""

UNREAD = 4
"""Maximum number of unread messages while a new message is written. The results of a step need all
ranks, and at most two steps are launched before the results are read."""

NUMBERS = 6
"""Numbers of a message besides the arrays."""

HEAD = struct.Struct(f"<QQ{NUMBERS}q")  # offset and length of the arrays in int32, numbers


class RingWriter:
    """Writer of messages for all followers. `memory`: file descriptor for the followers."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.memory = _unnamed_file()
        self._unread: deque[tuple[int, int]] = deque(maxlen=UNREAD)
        self._end = self._capacity = 0
        self._array: Ints = np.empty(0, np.int32)
        self._extend(capacity // 4)

    def write(
        self,
        numbers: Sequence[int],
        parts: Sequence[NDArray[np.integer]],
        pipes: Sequence[int],
    ) -> None:
        """Write concatenated arrays as int32, and tell the followers.

        Args:
            numbers: `NUMBERS` integers.
            parts: Arrays of one dimension.
            pipes: File descriptor of each follower's pipe.

        Raises:
            OSError: A follower has ended.
        """
        size = sum(map(len, parts))
        begin = self._place(size)
        # A single call: the processor's caches hold the model's data, and each call is slow.
        np.concatenate(parts, out=self._array[begin : begin + size], casting="unsafe")
        head = HEAD.pack(begin, size, *numbers)
        for pipe in pipes:
            os.write(pipe, head)

    def close(self) -> None:
        """Release the memory. Idempotent."""
        if self.memory >= 0:
            self._array = np.empty(0, np.int32)
            os.close(self.memory)
            self.memory = -1

    def _place(self, size: int) -> int:
        """Return the offset of a new message, apart from unread messages."""
        begin = self._end if self._end + size <= self._capacity else 0
        end = begin + size
        for first, last in self._unread:
            if begin < last and first < end:
                begin, end = self._capacity, self._capacity + size
                break
        if end > self._capacity:
            self._extend(max(2 * self._capacity, end))
        self._end = end
        self._unread.append((begin, end))
        return begin

    def _extend(self, count: int) -> None:
        first, self._capacity = self._capacity, count
        os.ftruncate(self.memory, 4 * count)
        self._array = np.frombuffer(mmap.mmap(self.memory, 4 * count), np.int32)
        self._array[first:] = 0  # a write to a new page takes longer


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

    def read(self) -> tuple[Sequence[int], Ints] | None:
        """Wait for a message. Returns the numbers and the concatenated arrays, in memory that is
        overwritten later. None at the end of rank 0."""
        head = read_bytes(self._pipe, HEAD.size)
        if head is None:
            return None
        begin, size, *numbers = HEAD.unpack(head)
        if begin + size > len(self._array):
            self._array = np.frombuffer(mmap.mmap(self._memory, 0), np.int32)
        return numbers, self._array[begin : begin + size]


def read_bytes(pipe: int, count: int) -> bytes | None:
    """Return the next bytes of a pipe, or None at the end."""
    data = b""
    while len(data) < count:
        more = os.read(pipe, count - len(data))
        if not more:
            return None
        data += more
    return data
