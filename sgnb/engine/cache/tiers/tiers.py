"""Cache tiers: loads of stored blocks before a request starts, and copies of computed blocks.

The radix tree stays the only index of KV slots. Stores know blocks of 64 tokens by key. Only the
default namespace is stored: requests with a private namespace, such as those of benchmarks, find
nothing and leave nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ....events import PrefixLoaded
from ..manager import CacheManager, Longs
from ..radix import Ints, Node
from ..sequence import SHARED, CachedSequence
from .block_transfer import BlockTransfer
from .blocks import BLOCK, Block, BlockStore, Bytes, block_keys
from .load import READERS, Load, StoredBlock
from .tier_costs import MIN_STEPS, TierCosts

T = TypeVar("T")

_log = logging.getLogger(__name__)

MIN_TOKENS = 256
"""Shortest prompt prefix that is stored."""

DISK_SECONDS = 0.5
"""Compute time of a prefix from which its first use goes to the disk; later uses always do."""

MARGIN = 0.8
"""A load runs if its estimated time is below this part of the time of computing."""

MAX_PENDING_BYTES = 256 * 2**20
"""Copies that wait for the writer. Further copies are dropped: an eviction never waits."""

IDLE_SECONDS = 0.5
"""Time without a request before the cache is copied to the disk."""


class CacheTiers:
    """Copies of the cache in host memory and on disk. On the engine's thread.

    Args:
        cache: The radix tree and the KV slots.
        transfer: Copies between slots and host memory.
        open_stores: Returns the key of the empty prompt for the current weights, and the stores:
            "host", "disk" or both, the fastest first.
        vocab_size: Tokens from this id on belong to images and end the stored prefix.
        is_finite: Returns whether all values of a content are finite; others are not stored.
        emit: Receives the events.
        executor: Creates threads for a number and a name.

    Attributes:
        run: Runs a function on the engine's thread soon.
    """

    def __init__(
        self,
        cache: CacheManager,
        transfer: BlockTransfer,
        open_stores: Callable[[], tuple[bytes, Sequence[BlockStore]]],
        *,
        vocab_size: int,
        is_finite: Callable[[Bytes], bool],
        emit: Callable[[Any], None] = lambda event: None,
        executor: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self.costs = TierCosts()
        self._cache, self._transfer, self._open_stores = cache, transfer, open_stores
        self._root, self._stores = open_stores()
        self._vocab_size, self._is_finite = vocab_size, is_finite
        self.run: Callable[[Callable[[], object]], None] = lambda work: None
        self._emit = emit
        self._readers = executor(READERS, "sgnb-cache-reader")
        self._writer = executor(1, "sgnb-cache-writer")
        self._loads: dict[bytes, Load] = {}  # by the key of each block
        self._asked: dict[int, Load | None] = {}  # by request
        self._pending_bytes = 0
        self._copied: set[int] = set()  # ids of nodes whose blocks are on the disk, or on the way
        self._due: float | None = None  # time of the next copy to the disk; None: nothing to do
        self._counts = {"loaded_tokens": 0, "loads": 0, "stored_blocks": 0, "dropped_blocks": 0}
        cache.on_eviction = lambda nodes: self._guarded(partial(self._keep, nodes))

    def ready(self, request: CachedSequence) -> bool:
        """Return whether a waiting request may start. False while blocks of its prompt are loaded;
        the first call starts the load if it saves time."""
        if request.id not in self._asked:
            self._asked[request.id] = self._guarded(partial(self._find_load, request))

        load = self._asked[request.id]
        return load is None or load.done

    def forget(self, request: CachedSequence) -> None:
        """Forget a request that started or ended."""
        self._asked.pop(request.id, None)

    def prefetch(self, tokens: Ints) -> int:
        """Load the stored blocks of a prompt. Returns the number of tokens on the way."""
        sequence = CachedSequence(tokens, len(tokens), SHARED)
        load = self._guarded(partial(self._find_load, sequence))
        return 0 if load is None else len(load.slots)

    @property
    def loading(self) -> bool:
        """True if blocks are on the way to slots."""
        return bool(self._loads)

    def cancel(self) -> bool:
        """End all loads and free their slots. Returns whether there were any."""
        loads = set(self._loads.values())
        self._loads.clear()
        for load in loads:
            load.done = True
            self._cache.slots.free(load.slots)
            self._cache.tree.unlock(load.node)

        return bool(loads)

    def observe(self, starts: Longs, lengths: Longs, seconds: float) -> None:
        """Learn from a step. starts: positions of the first tokens, per request."""
        self.note_change()
        if (lengths > 1).any():
            attended = float((lengths * (starts + lengths / 2)).sum())
            self.costs.observe_step(int(lengths.sum()), attended, seconds)

    def note_change(self) -> None:
        """Copy the cache to the disk at the next idle time: something was computed or pinned."""
        self._due = time.monotonic() + IDLE_SECONDS

    @property
    def patience(self) -> float | None:
        """Seconds without a request until `write_idle` has work; None: nothing to do."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def write_idle(self) -> None:
        """Copy prefixes to the disk that cost much or were used again, the most expensive first."""
        self._due = None
        tree = self._cache.tree
        self._copied &= {node.id for node in tree.nodes()}
        nodes = [node for node in tree.nodes() if self._is_for_disk(node)]
        nodes.sort(key=self._seconds, reverse=True)
        for node in nodes:
            if self._pending_bytes > MAX_PENDING_BYTES // 2:
                self.note_change()  # go on later
                break

            self._guarded(partial(self._copy_to_disk, node))

    def flush(self) -> None:
        """Empty host memory. Files stay."""
        for store in self._named("host"):
            store.flush()

    def adopt_weights(self) -> None:
        """End all loads and serve the blocks of the changed weights from now on."""
        self.cancel()
        self._copied.clear()
        self._close_stores()
        self._root, self._stores = self._open_stores()

    def close(self) -> None:
        """End all work and return the memory."""
        self.cancel()
        for executor in (self._readers, self._writer):
            executor.shutdown(wait=False, cancel_futures=True)

        self._close_stores()

    def _close_stores(self) -> None:
        for store in self._stores:
            store.close()

    def statistics(self) -> dict[str, int]:
        """Return counters since the start."""
        return dict(self._counts)

    # Loads

    def _find_load(self, request: CachedSequence) -> Load | None:
        """Return the load that a request waits for; starts one if it saves time."""
        if not self._serves(request):
            return None
        first = self._cache.look_up(request).length // BLOCK
        tokens = self._text(request.tokens[: request.reusable])
        if len(tokens) // BLOCK <= first:
            return None

        keys = [self._root, *block_keys(self._root, tokens)]
        if (load := self._loads.get(keys[first + 1])) is not None:
            return load

        blocks = []
        for parent, key in zip(keys[first:-1], keys[first + 1 :], strict=True):
            store = next((store for store in self._stores if store.holds(key)), None)
            if store is None:
                break
            blocks.append(StoredBlock(store, key, parent))

        count, seconds = self._best_length(blocks, first)
        return self._start_load(request.id, tokens, first, blocks[:count], seconds)

    def _best_length(self, blocks: Sequence[StoredBlock], first: int) -> tuple[int, float]:
        """Return the number of leading blocks whose load saves the most time, and the seconds of
        computing them."""
        best, most, seconds, stored, load = 0, 0.0, 0.0, 0.0, 0.0
        block_bytes = BLOCK * self._cache.slots.unit_bytes
        limit = self._cache.slots.total // (2 * BLOCK)
        for i, (store, key, _) in enumerate(blocks[:limit], 1):
            load += self.costs.load_seconds(store.name, block_bytes)
            compute = self.costs.compute_seconds(first * BLOCK, (first + i) * BLOCK)
            if self.costs.steps < MIN_STEPS and (known := store.seconds(key)):
                compute = stored = stored + known  # measured by the engine that computed the block

            if MARGIN * compute - load > most:
                best, most, seconds = i, MARGIN * compute - load, compute
        return best, seconds

    def _start_load(
        self,
        request: int,
        tokens: Ints,
        first: int,
        blocks: Sequence[StoredBlock],
        compute_seconds: float,
    ) -> Load | None:
        """Start a load; None without blocks or without memory."""
        if not blocks:
            return None

        tree, begin = self._cache.tree, first * BLOCK
        count = len(blocks) * BLOCK
        content = np.empty((count, self._cache.slots.unit_bytes), np.uint8)  # may fail
        node = tree.match(tokens[:begin])
        tree.lock(node)
        slots = self._cache.allocate(count)
        if slots is None:
            tree.unlock(node)
            return None

        end = begin + len(slots)
        load = Load(node, tokens[:end].copy(), slots, blocks, content, compute_seconds, request)
        self._loads |= {block.key: load for block in blocks}
        load.start(self._readers, self._deliver)
        return load

    def _deliver(self, load: Load) -> None:
        """Finish a load on the engine's thread."""
        self.run(lambda: self._guarded(partial(self._finish_load, load)))

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """Run `work`. An error is only logged: each prefix can be computed again."""
        try:
            return work()
        except Exception:
            _log.exception("a copy of the cache failed")
            return None

    def _finish_load(self, load: Load) -> None:
        """Give the tokens of a load to the tree."""
        if load.done:  # cancelled
            return

        load.done = True
        for block in load.blocks:
            del self._loads[block.key]

        cache, node, count, unused = self._cache, load.node, load.num_tokens, load.slots
        try:
            if count:
                self._transfer.write(load.slots[:count], load.content[:count])
                slots = np.concatenate([node.path_slots(), load.slots[:count]])
                inserted = cache.tree.insert(load.tokens[: len(slots)], slots, "", node)
                # Others may have computed the first tokens meanwhile.
                unused = np.concatenate([load.slots[: inserted.existing], load.slots[count:]])
        finally:
            cache.slots.free(unused)
            cache.tree.unlock(node)

        if count:
            self._learn(load, count, time.perf_counter() - load.began)

    def _learn(self, load: Load, count: int, seconds: float) -> None:
        """Record a finished load. A load of several stores counts for the slowest."""
        source = load.blocks[count // BLOCK - 1].store
        self.costs.observe_load(source.name, count * load.content.shape[1], seconds)
        self._counts["loads"] += 1
        self._counts["loaded_tokens"] += count
        compute = round(load.compute_seconds, 6)
        self._emit(PrefixLoaded(load.request, source.name, count, round(seconds, 6), compute))

    # Copies

    def _keep(self, nodes: Sequence[Node]) -> None:
        """Copy the blocks of evicted nodes before their slots are used again."""
        for node in nodes:
            if self._is_for_disk(node):
                self._copy_to_disk(node)
            self._copy(node, self._named("host"))

    def _copy_to_disk(self, node: Node) -> None:
        """Copy a prefix to the disk: without the first blocks, later blocks cannot be loaded."""
        for above in node.path():
            if above.id not in self._copied:
                self._copy(above, self._named("disk"))

    def _named(self, name: str) -> list[BlockStore]:
        return [store for store in self._stores if store.name == name]

    def _copy(self, node: Node, stores: Sequence[BlockStore]) -> None:
        """Copy the blocks that end in a node to the stores without them."""
        blocks = [
            (block, missing)
            for block in self._blocks(node)
            if (missing := [store for store in stores if not store.holds(block.key)])
        ]
        size = len(blocks) * BLOCK * self._cache.slots.unit_bytes
        if not blocks:
            return

        if self._pending_bytes + size > MAX_PENDING_BYTES:
            self._counts["dropped_blocks"] += len(blocks)
            return
        if any(store.name == "disk" for store in stores):
            self._copied.add(node.id)

        self._pending_bytes += size
        content = self._transfer.read(np.concatenate([block.slots for block, _ in blocks]))
        self._writer.submit(self._write, node.id, content, blocks, size)

    def _write(
        self,
        node: int,
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
                    written = [store.write(block) for store in stores]
                    stored += any(written)
        finally:
            self.run(partial(self._written, node, stored == len(blocks), stored, size))

    def _written(self, node: int, complete: bool, count: int, size: int) -> None:
        """Count copies. A node with a missing copy is offered again."""
        self._pending_bytes -= size
        self._counts["stored_blocks"] += count
        if not complete:
            self._copied.discard(node)

    def _blocks(self, node: Node) -> list[NodeBlock]:
        """Return the blocks that end in a node, without short prefixes."""
        path = node.path()
        begin, end = node.end - len(node.tokens), node.end
        if path[0].key[0] != "" or end < MIN_TOKENS or begin // BLOCK == end // BLOCK:
            return []

        tokens, slots = np.concatenate([above.tokens for above in path]), node.path_slots()
        tokens = self._text(tokens)
        keys = [self._root, *block_keys(self._root, tokens)]
        return [
            NodeBlock(
                keys[i + 1],
                keys[i],
                tokens[i * BLOCK : (i + 1) * BLOCK],
                slots[i * BLOCK : (i + 1) * BLOCK],
                self.costs.compute_seconds(i * BLOCK, (i + 1) * BLOCK),
            )
            for i in range(begin // BLOCK, len(keys) - 1)
        ]

    def _seconds(self, node: Node) -> float:
        return self.costs.compute_seconds(0, node.end)

    def _is_for_disk(self, node: Node) -> bool:
        """Return whether the blocks of a node belong on the disk and are not there yet."""
        if node.id in self._copied or node.end < MIN_TOKENS:
            return False
        used_again = node.hits > 0
        is_pinned = node.locks > 0 and any(
            node in pinned.path() for pinned in self._cache.tree.pins.values()
        )
        return used_again or is_pinned or self._seconds(node) >= DISK_SECONDS

    def _serves(self, request: CachedSequence) -> bool:
        return self._cache.shares(request) and request.cache_scope.namespace == ""

    def _text(self, tokens: Ints) -> Ints:
        """Return the tokens before the first token of an image."""
        items = np.flatnonzero(tokens >= self._vocab_size)
        return tokens[: items[0]] if len(items) else tokens


class NodeBlock(NamedTuple):
    """A computed block of the tree."""

    key: bytes
    parent: bytes
    tokens: Ints
    slots: Ints
    seconds: float
