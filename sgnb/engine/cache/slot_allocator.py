"""Allocation of slots by number, without tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .payload import Storage
from .radix import Ints


class SlotAllocator:
    """Payload of KV slots or recurrent states: a stack of the free slots among 0 .. total - 1.

    Args:
        total: Number of slots.
        storage: Tensors with the slots' content. None: slots without content.
    """

    def __init__(self, total: int, storage: Storage | None = None) -> None:
        self.total = self.available = total
        self.unit_bytes = 0 if storage is None else storage.unit_bytes
        self._storage = storage
        self._stack: Ints = np.arange(total - 1, -1, -1, dtype=np.int32)

    def allocate(self, count: int) -> Ints:
        """Take `count` slots, ascending if freed together: neighbours are cheaper to read.

        Raises:
            MemoryError: If fewer slots are available.
        """
        if count > self.available:
            free = f"{self.available} of {self.total} are available"
            raise MemoryError(f"{count} slots requested, {free}")
        self.available -= count
        return self._stack[self.available : self.available + count][::-1].copy()

    def free(self, ids: Ints) -> None:
        """Give slots back. Each slot must be allocated and without a user."""
        self._stack[self.available : self.available + len(ids)] = ids[::-1]
        self.available += len(ids)

    def copy(self, ids: Ints, destination: Any) -> None:
        """Copy the content of slots to `destination`, uint8[len(ids), unit_bytes]."""
        assert self._storage is not None
        self._storage.copy(ids, destination)

    def take(self, ids: Ints) -> Callable[[Any], None]:
        """Take the present content of slots in host memory. Returns a function that writes the
        content to a tensor, as `copy` does, on any thread."""
        assert self._storage is not None
        return self._storage.take(ids)

    def restore(self, ids: Ints, source: Any) -> None:
        """Write the content of slots, uint8[len(ids), unit_bytes] as written by `copy`."""
        assert self._storage is not None
        self._storage.restore(ids, source)
