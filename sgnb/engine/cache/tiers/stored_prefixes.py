"""The stores of an engine's present weights, and the keys of prompts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..radix import Ints
from .blocks import BlockStore, block_keys

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass
class StoredPrefixes:
    """Stores, and the keys of prompts in the stores.

    Attributes:
        vocab_size: Tokens from this id on belong to images and end the stored prefix.
        root: Key of the empty prompt.
        stores: "host", "disk" or both, the fastest first.
    """

    vocab_size: int
    root: bytes
    stores: Sequence[BlockStore]

    def text(self, tokens: Ints) -> Ints:
        """Return the tokens before the first token of an image."""
        items = np.flatnonzero(tokens >= self.vocab_size)
        return tokens[: items[0]] if len(items) else tokens

    def keys(self, tokens: Ints) -> list[bytes]:
        """Return the root key and the keys of the full blocks."""
        return [self.root, *block_keys(self.root, tokens)]

    def named(self, name: str) -> list[BlockStore]:
        return [store for store in self.stores if store.name == name]

    def close(self) -> None:
        """Return the memory of the stores."""
        for store in self.stores:
            store.close()


def guarded(work: Callable[[], T]) -> T | None:
    """Run `work`. An error is only logged: each prefix can be computed again."""
    try:
        return work()
    except Exception:
        _log.exception("a copy of the cache failed")
        return None
