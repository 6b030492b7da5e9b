"""Events about copies of blocks. Knows no stores and no slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ....events import BlocksNamed, CopiesChanged, TokenIds
from ..radix import Ints
from .blocks import BLOCK, BlockStore
from .stored_prefixes import Stores

STORED = "stored"
"""State of a present copy; see `CopiesChanged`."""

REMEMBERED = 4096
"""Blocks without copies with a number, at most: the latest."""


@dataclass(slots=True)
class NamedBlock:
    """A block with a number."""

    number: int
    parent: bytes
    states: dict[str, str] = field(default_factory=dict)  # by store
    children: int = 0

    @property
    def is_stored(self) -> bool:
        return STORED in self.states.values()


class CopyJournal:
    """Writer of the events, each block named before the first use. On the engine's thread.

    Memory grows with the stored blocks only.

    Args:
        emit: Receives the events.
    """

    def __init__(self, emit: Callable[[Any], None]) -> None:
        self._emit = emit
        self._blocks: dict[bytes, NamedBlock] = {}
        self._absent: dict[bytes, None] = {}  # blocks without copies, the oldest first
        self._last = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def name(self, keys: Sequence[bytes], tokens: Ints) -> None:
        """Name the blocks of a prompt. Changes of the blocks should follow.

        Args:
            keys: Root key, and the keys of the blocks in order.
            tokens: Token ids from the start of the prompt.
        """
        blocks = self._blocks
        first = next((i for i, key in enumerate(keys[1:]) if key not in blocks), None)
        if first is None:
            return

        parent = blocks.get(keys[first])
        above = 0 if parent is None else parent.number
        count = len(keys) - 1 - first
        ids = tokens[first * BLOCK : (first + count) * BLOCK].astype("<i4")
        self._emit(BlocksNamed(self._last + 1, count, above, TokenIds(ids.tobytes())))
        for parent_key, key in zip(keys[first:-1], keys[first + 1 :], strict=True):
            self._last += 1
            blocks[key] = NamedBlock(self._last, parent_key)
            self._absent[key] = None
            if parent_key in blocks:
                blocks[parent_key].children += 1

    def collect(self, stores: Stores) -> None:
        """Report the recorded changes of all stores, without changes of recurrent states."""
        for store in stores.states:
            store.changes.clear()
        for store in stores.blocks:
            if not store.changes:
                continue
            changes = [store.changes.popleft() for _ in range(len(store.changes))]
            for (state, message), group in groupby(changes, lambda change: change[1:]):
                self.change(store.name, state, [change.key for change in group], message)

    def change(self, store: str, state: str, keys: Iterable[bytes], message: str = "") -> None:
        """Report the state of the copies of blocks in a store. Skips unknown blocks and known
        states."""
        changed = {
            key: block
            for key in keys
            if (block := self._blocks.get(key)) is not None and block.states.get(store) != state
        }
        if not changed:
            return

        numbers = tuple(block.number for block in changed.values())
        self._emit(CopiesChanged(store, state, numbers, message))
        for key, block in changed.items():
            block.states[store] = state
            self._absent.pop(key, None)
            if not block.is_stored:
                self._absent[key] = None

        while len(self._absent) > REMEMBERED:
            self._forget(next(iter(self._absent)))

    def missing(self, store: BlockStore, key: bytes) -> None:
        """Report a copy lost without a record. Skips present copies and blocks without copies."""
        block = self._blocks.get(key)
        if block is not None and block.states.get(store.name) == STORED and not store.holds(key):
            self.change(store.name, "gone", [key])

    def drop_all(self, state: str) -> None:
        """Report the loss of all copies, and forget all blocks: the keys change."""
        for name in ("host", "disk"):
            keys = [key for key, block in self._blocks.items() if block.states.get(name) == STORED]
            self.change(name, state, keys)

        self._blocks.clear()
        self._absent.clear()

    def _forget(self, oldest: bytes) -> None:
        """Forget an absent block without blocks below, and all blocks above without further
        use."""
        del self._absent[oldest]
        key, block = oldest, self._blocks.get(oldest)
        while not (block is None or block.children or block.is_stored or key in self._absent):
            del self._blocks[key]
            key, block = block.parent, self._blocks.get(block.parent)
            if block is not None:
                block.children -= 1
