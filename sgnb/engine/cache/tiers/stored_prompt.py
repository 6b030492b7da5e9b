"""Prompts with ids and keys that mean the same in each process.

Images, videos and sounds have token ids of one engine. Stores know them by content: each token has
a negative id that follows from the digest of the item, and the key of a block contains the digests
of its items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..radix import Ints
from .blocks import BLOCK, block_keys


class StoredItem(Protocol):
    """An image, video or sound; `items.item.EngineItem` implements this interface."""

    key: bytes  # digest of content, processor and options, equal in all processes
    count: int  # tokens
    blocks: Sequence[tuple[int, int]]  # spans of mutually visible tokens
    seconds: float  # of the processor

    def pack_facts(self) -> bytes | None:
        """Return the facts that replace a run of the processor; None before the first encoding."""


class ItemSpan(NamedTuple):
    """An item in a prompt. The prompt may end inside."""

    begin: int
    item: StoredItem


class StoredPrompt(NamedTuple):
    """A prompt as the stores know the prompt."""

    tokens: Ints  # with content ids
    keys: Sequence[bytes]  # the root key, and the keys of the full blocks
    spans: Sequence[ItemSpan]
    ids: Ints  # of one engine

    def permits(self, end: int) -> bool:
        """Return whether a load may end at a position: not between mutually visible tokens."""
        return not any(
            begin < end - span.begin < stop
            for span in self.spans
            for begin, stop in span.item.blocks
        )


def read_prompt(root: bytes, tokens: Ints, spans: Sequence[ItemSpan]) -> StoredPrompt:
    """Return a prompt with content ids and keys.

    Args:
        root: Key of the empty prompt, for the model and the namespace.
        tokens: Token ids of one engine, int32[n].
        spans: Items of the prompt.
    """
    request_ids = tokens
    if spans:
        tokens = tokens.copy()
    digests: dict[int, bytes] = {}
    for begin, item in spans:
        ids = tokens[begin : begin + item.count]
        ids[:] = _content_ids(item)[: len(ids)]
        for block in range(begin // BLOCK, (begin + item.count - 1) // BLOCK + 1):
            digests[block] = digests.get(block, b"") + item.key

    return StoredPrompt(tokens, [root, *block_keys(root, tokens, digests)], spans, request_ids)


def _content_ids(item: StoredItem) -> Ints:
    """Return negative ids of an item's tokens, int32[count]."""
    stream = hashlib.shake_128(item.key).digest(4 * item.count)
    return np.frombuffer(stream, "<i4").astype(np.int32) | np.int32(-(2**31))
