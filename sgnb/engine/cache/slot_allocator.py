"""Which KV slots are free. Knows numbers only: the tensors are in `kv_cache.py`."""

from __future__ import annotations

import numpy as np

from .radix import Ints


class SlotAllocator:
    """A stack of the free slots among 0 .. total - 1. A slot holds one token's keys and values."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._stack: Ints = np.arange(total - 1, -1, -1, dtype=np.int32)
        self.free = total

    def allocate(self, count: int) -> Ints:
        """Take `count` slots, ascending when they were freed together: neighbours are cheaper to
        read.

        The caller has made sure that `count` are free; a MemoryError otherwise.
        """
        if count > self.free:
            raise MemoryError(f"{count} KV slots asked for, {self.free} of {self.total} free")
        self.free -= count
        return self._stack[self.free : self.free + count][::-1].copy()

    def release(self, slots: Ints) -> None:
        """Give slots back. Each must have been allocated and be used by nobody."""
        self._stack[self.free : self.free + len(slots)] = slots[::-1]
        self.free += len(slots)
