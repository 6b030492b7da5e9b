"""Blocks of computed tokens, and the interface of stores that keep copies of blocks."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..radix import Ints

BLOCK = 64
"""Tokens of a block."""

Bytes = NDArray[np.uint8]


class Block(NamedTuple):
    """A block of a prompt with its content."""

    key: bytes  # of `block_keys`
    parent: bytes  # key of the block before, or the root key
    tokens: Ints  # int32[BLOCK]
    seconds: float  # compute time that the block saves
    data: Bytes  # uint8[BLOCK, unit_bytes]: keys and values of each token, or states at the end


class CopyChange(NamedTuple):
    """New state of a copy; see `CopiesChanged`."""

    key: bytes
    state: str
    message: str = ""


class Reservation(NamedTuple):
    """Memory of a store for the content of a block."""

    data: Bytes  # uint8[BLOCK, unit_bytes]
    store: Callable[[Block], bool]  # see `BlockStore.write`; the content is in `data`
    cancel: Callable[[], object]  # harmless after the end


class BlockStore(Protocol):
    """Copies of blocks by key. All methods may be called on any thread, and never raise for the
    state of the storage: a full, absent or damaged storage has no block."""

    name: str  # "host" or "disk", as in events
    changes: deque[CopyChange]  # for events, appended on any thread

    def holds(self, key: bytes) -> bool:
        """Return whether a block is stored, as far as known without reading the block."""

    def open(
        self, key: bytes, parent: bytes, tokens: Ints, spare: Callable[[], Bytes]
    ) -> AbstractContextManager[Bytes | None]:
        """Give the content of a block, uint8[BLOCK, unit_bytes], unchanged until the exit: memory
        of the store, or memory of `spare` with a copy.

        None if the block is absent or damaged, or belongs to another parent or other tokens.
        """

    def seconds(self, key: bytes) -> float:
        """Return the compute time that a stored block saves; 0 if unknown."""

    def write(self, block: Block) -> bool:
        """Store a copy of a block; evicts less valuable blocks if needed. Returns whether the block
        is stored."""

    def reserve(self, key: bytes, parent: bytes, seconds: float) -> Reservation | None:
        """Return memory for the content of a block, without any wait; None if `write` should copy
        the content. Evicts a less valuable block if needed."""

    def flush(self) -> None:
        """Remove all blocks of this model."""

    def mark(self, keys: Sequence[bytes], cached: bool) -> None:
        """Note that the KV pool has the blocks, too, or not any more. Skips absent blocks.

        Args:
            keys: Keys of consecutive blocks.
            cached: The KV pool has the blocks.
        """

    def lacks(self, count: int) -> bool:
        """Return whether `grow` would allocate memory for `count` further blocks."""

    def grow(self, count: int) -> None:
        """Allocate memory ahead of writes, while fewer than `count` further blocks fit. Waits for
        an allocation by another thread."""

    def relieve(self) -> None:
        """Return memory that the machine lacks, with its blocks."""

    def close(self) -> None:
        """Return the memory of the store. Files stay."""


def root_key(fingerprint: str) -> bytes:
    """Return the key of the empty prompt for the weights of a fingerprint."""
    return hashlib.blake2b(fingerprint.encode(), digest_size=16).digest()


def block_keys(root: bytes, tokens: Ints, digests: Mapping[int, bytes]) -> Iterator[bytes]:
    """Yield the keys of the full blocks of a prompt: each a BLAKE2b hash of the key before, of the
    token ids and of the items, so equal keys mean equal prompts up to the end of the block.

    Args:
        root: Key of the empty prompt, for the model and the namespace.
        tokens: Token ids, int32[n].
        digests: Digests of the items of a block, by the number of the block.
    """
    key = root
    for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
        ids = tokens[begin : begin + BLOCK].astype("<i4", copy=False)
        items = digests.get(begin // BLOCK, b"")
        key = hashlib.blake2b(key + ids.tobytes() + items, digest_size=16).digest()
        yield key
