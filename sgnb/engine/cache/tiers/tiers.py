"""Cache tiers: loads of stored blocks before a request starts, and copies of computed blocks.

The radix tree stays the only index of KV slots. Stores know blocks of 64 tokens by key. Only the
default namespace is stored: requests with a private namespace, such as requests of benchmarks, find
nothing and leave nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from ....errors import OptionError, SgnbWarning
from ....events import PrefixLoaded
from ..manager import CacheManager, Longs
from ..radix import Ints
from ..sequence import SHARED, CachedSequence
from .block_transfer import BlockTransfer
from .blocks import BLOCK, BlockStore, Bytes
from .copies import BlockCopies
from .load import READERS, Load, StoredBlock
from .stored_prefixes import StoredPrefixes, guarded
from .tier_costs import MIN_STEPS, TierCosts

MARGIN = 0.8
"""A load runs if its estimated time is below this part of the time of computing."""


class CacheTiers:
    """Copies of the cache in host memory and on disk. On the engine's thread.

    Args:
        cache: The radix tree and the KV slots.
        transfer: Copies between slots and host memory.
        open_stores: Returns the key of the empty prompt for the current weights, and the stores:
            "host", "disk" or both, the fastest first.
        vocab_size: Tokens from this id on belong to images and end the stored prefix.
        is_finite: Returns whether all values of a content are finite; others are not stored.
        is_current: Returns whether the model still computes what `open_stores` identified; with
            True, compares numbers too.
        emit: Receives the events.
        executor: Creates threads for a number and a name.

    Attributes:
        run: Runs a function on the engine's thread soon.
        copies: Copies from the tree to the stores.
    """

    def __init__(
        self,
        cache: CacheManager,
        transfer: BlockTransfer,
        open_stores: Callable[[], tuple[bytes, Sequence[BlockStore]]],
        *,
        vocab_size: int,
        is_finite: Callable[[Bytes], bool],
        is_current: Callable[[bool], bool] = lambda thorough: True,
        emit: Callable[[Any], None] = lambda event: None,
        executor: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self.costs = TierCosts()
        self._cache, self._transfer, self._open_stores = cache, transfer, open_stores
        self.prefixes = StoredPrefixes(vocab_size, *open_stores())
        self._is_current = is_current
        self.run: Callable[[Callable[[], object]], None] = lambda work: None
        self.copies = BlockCopies(
            cache,
            transfer,
            self.costs,
            self.prefixes,
            is_finite,
            is_current,
            lambda work: self.run(work),
            executor(1, "sgnb-cache-writer"),
        )
        self._emit = emit
        self._readers = executor(READERS, "sgnb-cache-reader")
        self._loads: dict[bytes, Load] = {}  # by the key of each block
        self._asked: dict[int, Load | None] = {}  # by request
        self._counts = {"loaded_tokens": 0, "loads": 0}
        cache.on_eviction = lambda nodes: guarded(partial(self.copies.keep, nodes))

    def ready(self, request: CachedSequence) -> bool:
        """Return whether a waiting request may start. False while blocks of its prompt are loaded;
        the first call starts the load if it saves time."""
        if request.id not in self._asked:
            self._asked[request.id] = guarded(partial(self._find_load, request))

        load = self._asked[request.id]
        return load is None or load.done

    def forget(self, request: CachedSequence) -> None:
        """Forget a request that started or ended."""
        self._asked.pop(request.id, None)

    def prefetch(self, tokens: Ints) -> int:
        """Load the stored blocks of a prompt. Returns the number of tokens on the way."""
        sequence = CachedSequence(tokens, len(tokens), SHARED)
        load = guarded(partial(self._find_load, sequence))
        return 0 if load is None else len(load.slots)

    @property
    def loading(self) -> bool:
        """True if blocks are on the way to slots."""
        return bool(self._loads)

    def cancel(self) -> bool:
        """End all loads and free their slots. Returns whether there were any."""
        loads = set(self._loads.values())
        for load in loads:
            self._end_load(load, load.slots)
        return bool(loads)

    def observe(self, starts: Longs, lengths: Longs, seconds: float) -> None:
        """Learn from a step. starts: positions of the first tokens, per request."""
        self.copies.note_change()
        if (lengths > 1).any():
            attended = float((lengths * (starts + lengths / 2)).sum())
            self.costs.observe_step(int(lengths.sum()), attended, seconds)

    def flush(self) -> None:
        """Empty host memory, and end all loads. Files stay."""
        self.cancel()
        self.copies.flush()

    def adopt_weights(self) -> None:
        """End all loads and serve the blocks of the changed weights from now on."""
        self.cancel()
        self.copies.forget()
        self.prefixes.close()
        try:
            self.prefixes.root, self.prefixes.stores = self._open_stores()
        except OptionError as error:
            self.prefixes.stores = ()
            warnings.warn(f"no more copies of the cache: {error}", SgnbWarning, stacklevel=2)

    def close(self) -> None:
        """End all work and return the memory."""
        self.cancel()
        self._readers.shutdown(wait=False, cancel_futures=True)
        self.copies.close()
        self.prefixes.close()

    def statistics(self) -> dict[str, int]:
        """Return counters since the start."""
        return self._counts | self.copies.counts

    def _find_load(self, request: CachedSequence) -> Load | None:
        """Return the load for a request's prompt: a running load, a new load if the load saves
        time, or None."""
        if not self._serves(request):
            return None
        first = self._cache.look_up(request).length // BLOCK
        tokens = self.prefixes.text(request.tokens[: request.reusable])
        if len(tokens) // BLOCK <= first:
            return None

        keys = self.prefixes.keys(tokens)
        if (load := self._loads.get(keys[first + 1])) is not None:
            return load

        blocks = []
        for parent, key in zip(keys[first:-1], keys[first + 1 :], strict=True):
            store = next((store for store in self.prefixes.stores if store.holds(key)), None)
            if store is None:
                break
            blocks.append(StoredBlock(store, key, parent))

        if not blocks or not self._is_current(False):
            return None
        count, seconds = self._best_length(blocks, first)
        return self._start_load(request.id, tokens, first, blocks[:count], seconds)

    def _best_length(self, blocks: Sequence[StoredBlock], first: int) -> tuple[int, float]:
        """Return the number of leading blocks whose load saves the most time, and the seconds of
        computing them."""
        best, most, seconds, stored, load = 0, 0.0, 0.0, 0.0, 0.0
        block_bytes = BLOCK * self._cache.slots.unit_bytes
        blocks = blocks[: self._cache.slots.total // (2 * BLOCK)]
        if blocks and self.costs.steps < MIN_STEPS:
            # The engine that computed the blocks knew the costs better.
            stored = blocks[-1].store.seconds(blocks[-1].key)

        for i, (store, _, _) in enumerate(blocks, 1):
            load += self.costs.load_seconds(store.name, block_bytes)
            compute = self.costs.compute_seconds(first * BLOCK, (first + i) * BLOCK)
            compute = i * stored or compute
            if MARGIN * compute - load > most:
                best, most, seconds = i, MARGIN * compute - load, compute

        if blocks and not best:
            self.costs.doubt_load(blocks[0].store.name)
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
        try:
            load.start(self._readers, self._deliver)
        except BaseException:  # no thread can start
            self._end_load(load, load.slots)
            raise
        return load

    def _end_load(self, load: Load, unused: Ints) -> None:
        """Let the waiting requests go on. unused: slots that the tree did not take."""
        load.done = True
        for block in load.blocks:
            del self._loads[block.key]

        self._cache.slots.free(unused)
        self._cache.tree.unlock(load.node)

    def _deliver(self, load: Load) -> None:
        """Finish a load on the engine's thread."""
        self.run(lambda: guarded(partial(self._finish_load, load)))

    def _finish_load(self, load: Load) -> None:
        """Give the tokens of a load to the tree."""
        if load.done:  # cancelled
            return

        cache, node, count, unused = self._cache, load.node, load.num_tokens, load.slots
        try:
            if count:
                self._transfer.write(load.slots[:count], load.content[:count])
                slots = np.concatenate([node.path_slots(), load.slots[:count]])
                inserted = cache.tree.insert(load.tokens[: len(slots)], slots, "", node)
                # Others may have computed the first tokens meanwhile.
                unused = np.concatenate([load.slots[: inserted.existing], load.slots[count:]])
        finally:
            self._end_load(load, unused)

        if count:
            self._learn(load, count, load.ended - load.began)

    def _learn(self, load: Load, count: int, seconds: float) -> None:
        """Record a finished load. A load of several stores counts for the slowest."""
        source = load.blocks[count // BLOCK - 1].store
        self.costs.observe_load(source.name, count * load.content.shape[1], seconds)
        self._counts["loads"] += 1
        self._counts["loaded_tokens"] += count
        compute = round(load.compute_seconds, 6)
        self._emit(PrefixLoaded(load.request, source.name, count, round(seconds, 6), compute))

    def _serves(self, request: CachedSequence) -> bool:
        return self._cache.shares(request) and request.cache_scope.namespace == ""
