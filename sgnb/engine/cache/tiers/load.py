"""A load: blocks on the way from stores to KV slots, read by threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..radix import Ints, Node
from .blocks import BLOCK, BlockStore, Bytes

READERS = 4
"""Threads that read blocks."""


class StoredBlock(NamedTuple):
    """A block of a prompt that a store holds."""

    store: BlockStore
    key: bytes
    parent: bytes


@dataclass(eq=False)
class Load:
    """Blocks of a prompt after a cached prefix. Owns the slots, and a lock of `node`.

    Attributes:
        node: End of the cached prefix.
        tokens: Prompt up to the end of the last block, int32[node.end + len(slots)].
        slots: KV slots of the blocks.
        blocks: The blocks in order.
        content: uint8[len(slots), unit_bytes].
        compute_seconds: Estimated time to compute the blocks instead.
        request: Id of the first request that waits; 0 for a prefetch.
        done: The load has ended: requests go on.
    """

    node: Node
    tokens: Ints
    slots: Ints
    blocks: Sequence[StoredBlock]
    content: Bytes
    compute_seconds: float
    request: int
    done: bool = False
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0  # of the reads
    read: list[bool] = field(default_factory=list)  # by block; False until read without fault

    def start(self, readers: Executor, finished: Callable[[Load], None]) -> None:
        """Read all blocks on the threads of `readers`; the last thread calls `finished`."""
        self.read = [False] * len(self.blocks)
        parts = min(READERS, len(self.blocks))
        left, lock = [parts], threading.Lock()

        def work(part: int) -> None:
            try:
                for i in range(part, len(self.blocks), parts):
                    if not self.done:  # otherwise cancelled
                        self.read[i] = self._read(i)
            finally:
                with lock:
                    left[0] -= 1
                    is_last = not left[0]

                if is_last:
                    self.ended = time.perf_counter()
                    finished(self)

        for part in range(parts):
            readers.submit(work, part)

    def _read(self, i: int) -> bool:
        store, key, parent = self.blocks[i]
        rows = slice(i * BLOCK, (i + 1) * BLOCK)
        first = self.node.end
        tokens = self.tokens[first + rows.start : first + rows.stop]
        return store.read(key, parent, tokens, self.content[rows])

    @property
    def num_tokens(self) -> int:
        """Tokens of the leading blocks that were read without fault."""
        return BLOCK * int(np.argmin([*self.read, False]))

    def bytes_of(self, store: BlockStore) -> int:
        """Bytes that a store contributes."""
        count = sum(block.store is store for block in self.blocks)
        return count * BLOCK * self.content.shape[1]
