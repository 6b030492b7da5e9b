"""Copies of blocks, and of states at their ends, that wait for the writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .blocks import BlockStore
from .stored_prompt import StoredPrompt


class PendingCopies:
    """Keys of the copies. On the engine's thread.

    Attributes:
        num_bytes: Size of all copies.
    """

    def __init__(self) -> None:
        self._counts = Counter[bytes]()
        self.num_bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._counts

    def add(self, keys: Iterable[bytes], num_bytes: int) -> None:
        """Add copies."""
        self._counts.update(keys)
        self.num_bytes += num_bytes

    def remove(self, keys: Iterable[bytes], num_bytes: int) -> None:
        """Remove copies that the writer has finished."""
        self.num_bytes -= num_bytes
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def find(
        self, prompt: StoredPrompt, first: int, stores: Sequence[BlockStore]
    ) -> tuple[bytes | None, int]:
        """Return the key of the last block on the way, and the end of the blocks from block `first`
        on that are stored or on the way. None without a block on the way."""
        key, end = None, first
        for candidate in prompt.keys[first + 1 :]:
            if candidate in self:
                key = candidate
            elif not any(store.holds(candidate) for store in stores):
                break
            end += 1
        return key, end
