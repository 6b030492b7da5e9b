"""Copies of computed blocks from the radix tree to the stores: at evictions and in idle time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import numpy as np

from ..manager import CacheManager
from ..radix import Ints, Node
from .block_transfer import PART_BYTES, BlockTransfer
from .blocks import BLOCK, Block, BlockStore, Bytes
from .stored_prefixes import StoredPrefixes, guarded
from .tier_costs import TierCosts

MIN_TOKENS = 256
"""Shortest prompt prefix that is stored."""

DISK_SECONDS = 0.5
"""Compute time of a prefix from which its first use goes to the disk; later uses always do."""

MAX_PENDING_BYTES = 256 * 2**20
"""Copies that wait for the writer. Further copies are dropped: an eviction never waits."""

IDLE_WORK_SECONDS = 0.01
"""Longest time without a look at the queue of commands."""

IDLE_SECONDS = 0.5
"""Time without a request before the cache is copied to the disk."""


class NodeBlock(NamedTuple):
    """A computed block of the tree."""

    key: bytes
    parent: bytes
    tokens: Ints
    slots: Ints
    seconds: float


class BlockCopies:
    """Copies to the stores. On the engine's thread, except `_write`.

    Args:
        cache: The radix tree and the KV slots.
        transfer: Copies between slots and host memory.
        costs: Estimated times.
        prefixes: The stores.
        is_finite: See `CacheTiers`.
        is_current: See `CacheTiers`.
        run: Runs a function on the engine's thread soon.
        writer: Thread that writes to the stores.

    Attributes:
        counts: Counters since the start.
    """

    def __init__(
        self,
        cache: CacheManager,
        transfer: BlockTransfer,
        costs: TierCosts,
        prefixes: StoredPrefixes,
        is_finite: Callable[[Bytes], bool],
        is_current: Callable[[bool], bool],
        run: Callable[[Callable[[], object]], None],
        writer: Executor,
    ) -> None:
        self._cache, self._transfer, self._costs = cache, transfer, costs
        self._prefixes, self._is_finite, self._is_current = prefixes, is_finite, is_current
        self._run, self._writer = run, writer
        self._pending_bytes = self._flushes = 0
        self._copied: set[int] = set()  # ids of nodes whose blocks are on the disk, or on the way
        self._due: float | None = None  # time of the next copy to the disk; None: nothing to do
        self.counts = {"stored_blocks": 0, "dropped_blocks": 0}

    def note_change(self) -> None:
        """Copy the cache to the disk at the next idle time: something was computed or pinned."""
        self._due = time.monotonic() + IDLE_SECONDS

    @property
    def patience(self) -> float | None:
        """Seconds without a request until `write_idle` has work; None: nothing to do."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def flush(self) -> None:
        """Empty host memory. Copies on the way there are dropped."""
        self._flushes += 1
        for store in self._prefixes.named("host"):
            store.flush()

    def forget(self) -> None:
        """Forget which nodes are copied: the stores change."""
        self._copied.clear()

    def close(self) -> None:
        """End the writer."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    def write_idle(self) -> None:
        """Copy prefixes to the disk that cost much or were used again, the most expensive first."""
        self._due = None
        if not self._prefixes.named("disk") or not self._is_current(True):
            return

        tree, end = self._cache.tree, time.monotonic() + IDLE_WORK_SECONDS
        self._copied &= {node.id for node in tree.nodes()}
        nodes = [node for node in tree.nodes() if self._is_for_disk(node)]
        nodes.sort(key=self._seconds, reverse=True)
        for node in nodes:
            if self._pending_bytes > MAX_PENDING_BYTES // 2:
                self.note_change()
                break
            if time.monotonic() > end:  # go on after the next command
                self._due = end
                break
            guarded(partial(self._copy_to_disk, node))

    def keep(self, nodes: Sequence[Node]) -> None:
        """Copy the blocks of evicted nodes before their slots are used again."""
        if not self._is_current(False):
            return
        for node in nodes:
            if self._is_for_disk(node):
                guarded(partial(self._copy_to_disk, node))
            guarded(partial(self._copy, node, self._prefixes.named("host")))

    def _copy_to_disk(self, node: Node) -> None:
        """Copy a prefix to the disk: without the first blocks, later blocks cannot be loaded."""
        for above in node.path():
            if above.id not in self._copied:
                self._copy(above, self._prefixes.named("disk"))

    def _copy(self, node: Node, stores: Sequence[BlockStore]) -> None:
        """Copy the blocks that end in a node to the stores without them, the first blocks first."""
        blocks = [
            (block, missing)
            for block in (self._blocks(node) if stores else ())
            if (missing := [store for store in stores if not store.holds(block.key)])
        ]
        block_bytes = BLOCK * self._cache.slots.unit_bytes
        size = max(1, PART_BYTES // block_bytes)
        for begin in range(0, len(blocks), size):
            part = blocks[begin : begin + size]
            if self._pending_bytes + len(part) * block_bytes > MAX_PENDING_BYTES:
                self.counts["dropped_blocks"] += len(blocks) - begin
                self.note_change()
                return
            if not self._submit(node.id, part, len(part) * block_bytes):
                return

        if any(store.name == "disk" for store in stores):
            self._copied.add(node.id)

    def _submit(
        self, node: int, blocks: Sequence[tuple[NodeBlock, Sequence[BlockStore]]], size: int
    ) -> bool:
        """Read the content of blocks, and let the writer store the content. Returns False if no
        thread can start."""
        content = self._transfer.read(np.concatenate([block.slots for block, _ in blocks]))
        self._pending_bytes += size
        try:
            self._writer.submit(self._write, node, self._flushes, content, blocks, size)
        except RuntimeError:  # also if the interpreter ends
            self._pending_bytes -= size
            return False

        return True

    def _write(
        self,
        node: int,
        flushes: int,
        content: Callable[[], Bytes],
        blocks: Sequence[tuple[NodeBlock, Sequence[BlockStore]]],
        size: int,
    ) -> None:
        """Write copies to their stores, on the writer's thread."""
        stored = 0
        try:
            rows = content().reshape(len(blocks), BLOCK, -1)
            for ((key, parent, tokens, _, seconds), stores), data in zip(blocks, rows, strict=True):
                if self._is_finite(data):
                    block = Block(key, parent, tokens, seconds, data)
                    written = [
                        store.write(block)
                        for store in stores
                        if store.name != "host" or flushes == self._flushes
                    ]
                    stored += any(written)
        finally:
            self._run(partial(self._written, node, stored == len(blocks), stored, size))

    def _written(self, node: int, complete: bool, count: int, size: int) -> None:
        """Count copies. A node with a missing copy is offered again."""
        self._pending_bytes -= size
        self.counts["stored_blocks"] += count
        if not complete:
            self._copied.discard(node)

    def _blocks(self, node: Node) -> list[NodeBlock]:
        """Return the blocks that end in a node, without short prefixes."""
        path = node.path()
        begin, end = node.end - len(node.tokens), node.end
        if path[0].key[0] != "" or end < MIN_TOKENS or begin // BLOCK == end // BLOCK:
            return []

        tokens, slots = np.concatenate([above.tokens for above in path]), node.path_slots()
        tokens = self._prefixes.text(tokens)
        keys = self._prefixes.keys(tokens)
        return [
            NodeBlock(
                keys[i + 1],
                keys[i],
                tokens[i * BLOCK : (i + 1) * BLOCK],
                slots[i * BLOCK : (i + 1) * BLOCK],
                self._costs.compute_seconds(i * BLOCK, (i + 1) * BLOCK),
            )
            for i in range(begin // BLOCK, len(keys) - 1)
        ]

    def _seconds(self, node: Node) -> float:
        return self._costs.compute_seconds(0, node.end)

    def _is_for_disk(self, node: Node) -> bool:
        """Return whether the blocks of a node belong on the disk and are not there yet."""
        if node.id in self._copied or node.end < MIN_TOKENS:
            return False
        used_again = node.hits > 0
        is_pinned = node.locks > 0 and any(
            node in pinned.path() for pinned in self._cache.tree.pins.values()
        )
        return used_again or is_pinned or self._seconds(node) >= DISK_SECONDS
