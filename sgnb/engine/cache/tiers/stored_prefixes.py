"""The stores of an engine's present weights, and the keys of prompts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ....errors import LostRankError
from ..radix import Ints
from .blocks import BlockStore
from .item_records import ItemRecords
from .stored_prompt import ItemSpan, StoredPrompt, read_prompt

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Stores(NamedTuple):
    """Stores of one model. All sequences have the fastest store first."""

    root: bytes  # key of the empty prompt
    blocks: Sequence[BlockStore]  # "host", "disk" or both
    states: Sequence[BlockStore] = ()  # the same, for states of recurrent layers after a block
    records: ItemRecords | None = None  # with the store "disk"


@dataclass
class StoredPrefixes:
    """Stores, and the keys of prompts in the stores.

    Attributes:
        find_items: Returns the images, videos and sounds of a prompt.
        stores: The present stores.
    """

    find_items: Callable[[Ints], Sequence[ItemSpan]]
    stores: Stores

    def read(self, tokens: Ints) -> StoredPrompt:
        """Return a prompt with the ids and keys of the stores."""
        return read_prompt(self.stores.root, tokens, self.find_items(tokens))

    def blocks(self, name: str) -> list[BlockStore]:
        """Return the stores of blocks with a name."""
        return [store for store in self.stores.blocks if store.name == name]

    def states(self, name: str) -> list[BlockStore]:
        """Return the stores of states with a name."""
        return [store for store in self.stores.states if store.name == name]

    def read_facts(self, key: bytes) -> bytes | None:
        """Return the stored facts of an item, or None. On any thread."""
        records = self.stores.records
        return None if records is None else records.read(key)

    def mark_cached(self, keys: Sequence[bytes]) -> None:
        """Note loaded blocks: the KV pool has them, too."""
        for store in self.blocks("host"):
            store.mark(keys, cached=True)

    def flush(self) -> None:
        """Empty host memory."""
        for store in self._in_host_memory():
            store.flush()

    def relieve(self) -> None:
        """Return host memory that the machine lacks."""
        for store in self._in_host_memory():
            store.relieve()

    def _in_host_memory(self) -> list[BlockStore]:
        return self.blocks("host") + self.states("host")

    def close(self) -> None:
        """Return the memory of the stores."""
        for store in (*self.stores.blocks, *self.stores.states):
            store.close()


def guarded(work: Callable[[], T]) -> T | None:
    """Run `work`. An error is only logged: each prefix can be computed again."""
    try:
        return work()
    except LostRankError:  # the engine ends with this error
        return None
    except Exception:
        _log.exception("a copy of the cache failed")
        return None
