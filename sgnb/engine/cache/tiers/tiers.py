"""Cache tiers: loads of stored blocks before a request starts, and copies of computed blocks.

The radix tree stays the only index of KV slots. Stores know blocks of 64 tokens by key. Only the
default namespace is stored: requests with a private namespace, such as requests of benchmarks, find
nothing and leave nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from ....errors import OptionError, SgnbWarning
from ....events import PrefixLoaded
from ..manager import CacheManager
from ..radix import Ints, RadixNode
from ..sequence import SHARED, CachedSequence
from .blocks import BLOCK, BlockStore, Bytes
from .copies import MIN_TOKENS, BlockCopies
from .copy_journal import CopyJournal
from .load import READERS, Load
from .load_decisions import Decision, LoadDecisions
from .load_plan import LoadPlan, LoadPlanner
from .load_report import LoadReport
from .stored_prefixes import StoredPrefixes, Stores, guarded
from .stored_prompt import ItemSpan, StoredPrompt
from .tail_loads import TailLoad, TailLoads
from .tier_costs import TierCosts
from .transfers import Transfer


class CacheTiers:
    """Copies of the cache in host memory and on disk. On the engine's thread.

    Args:
        cache: The radix tree and the KV slots.
        transfer: Copies between slots and host memory.
        open_stores: Returns the stores for the current weights.
        states: Copies between states of recurrent layers and host memory; None without such
            layers.
        find_items: Returns the images, videos and sounds of a prompt.
        is_current: Returns whether the model still computes what `open_stores` identified; with
            True, compares numbers too.
        find_other_weights: Returns the fingerprint of different weights with files of a prompt,
            and the number of stored tokens.
        emit: Receives the events.
        executor: Creates threads for a number and a name.

    Attributes:
        costs: Estimated times; the owner reports the steps.
        run: Runs a function on the engine's thread soon.
        copies: Copies from the tree to the stores.
    """

    def __init__(
        self,
        cache: CacheManager,
        transfer: Transfer,
        open_stores: Callable[[], Stores],
        *,
        states: Transfer | None = None,
        find_items: Callable[[Ints], Sequence[ItemSpan]] = lambda tokens: (),
        is_current: Callable[[bool], bool] = lambda thorough: True,
        find_other_weights: Callable[[StoredPrompt], tuple[str, int]] = lambda prompt: ("", 0),
        emit: Callable[[Any], None] = lambda event: None,
        executor: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self.costs = TierCosts()
        self._cache, self._transfer, self._states = cache, transfer, states
        self._open_stores = open_stores
        self.prefixes = StoredPrefixes(find_items, open_stores())
        self._planner = LoadPlanner(
            self.prefixes,
            self.costs,
            transfer.block_bytes,
            None if states is None else states.block_bytes,
            cache.slots.total // (2 * BLOCK),
        )
        self._is_current, self._find_other_weights = is_current, find_other_weights
        self.run: Callable[[Callable[[], object]], None] = lambda work: None
        self._journal = CopyJournal(emit)
        self.copies = BlockCopies(
            cache,
            transfer,
            states,
            self.costs,
            self.prefixes,
            is_current,
            lambda work: self.run(work),
            executor(1, "sgnb-cache-writer"),
            executor(1, "sgnb-cache-memory"),
            self._journal,
        )
        self._emit = emit
        self._readers = executor(READERS, "sgnb-cache-reader")
        self._loads: dict[bytes, Load] = {}  # by the key of each block, with states of the last one
        self._tails = TailLoads(cache, transfer, self._planner, self._readers)
        self._decisions = LoadDecisions(cache, self.copies.pending)
        self._counts = {"loaded_tokens": 0, "loads": 0}
        cache.on_eviction = lambda nodes: guarded(partial(self.copies.keep, nodes))
        if cache.checkpoints is not None:
            cache.checkpoints.alignment = BLOCK
            cache.checkpoints.is_expensive = self.copies.is_expensive
            cache.checkpoints.on_drop = lambda node: guarded(partial(self.copies.keep, [node]))

    def ready(self, request: CachedSequence, may_compute: bool, room: int) -> bool:
        """Return whether a waiting request may start. False while blocks of its prompt are loaded,
        or while evicted blocks are on the way to host memory; the first call starts the load if it
        saves time.

        Args:
            request: The request.
            may_compute: The request may start and compute the first blocks during the load.
            room: Free and evictable slots for the request. A load that needs more does not start:
                the request does not fit either, and the next call asks again.
        """
        decision = self._decisions.current(request)
        if decision is None:
            decision = guarded(partial(self._find_load, request, may_compute, room)) or 0
            self._decisions.note(request, decision)
        if isinstance(decision, Load):
            return decision.done
        return not isinstance(decision, bytes)

    def started(self, request: CachedSequence) -> None:
        """Load the last blocks of a started request, if planned."""
        plan = self._decisions.forget(request)
        if isinstance(plan, LoadPlan) and not plan.meeting:
            self._report(request.id).not_loaded(plan.store.name, "memory", plan.saved_tokens)
        elif isinstance(plan, LoadPlan) and self._serves(request):
            guarded(partial(self._start_tail, request, plan))

    def meet(self) -> dict[int, int]:
        """Let running requests skip loaded tokens. Returns the numbers of tokens by request. Call
        before a step is chosen."""
        met = self._tails.meet() if self._tails else ()
        return {tail.request.id: self._finish_tail(tail) for tail in met}

    def forget(self, request: CachedSequence) -> None:
        """Forget a request that loses its slots or ended."""
        self._decisions.forget(request)
        self._tails.end(request)

    def prefetch(self, tokens: Ints) -> int:
        """Load the stored blocks of a prompt. Returns the number of tokens on the way."""
        sequence = CachedSequence(tokens, len(tokens), SHARED)
        load = guarded(partial(self._find_load, sequence, False, self._cache.reclaimable))
        return load.plan.saved_tokens if isinstance(load, Load) else 0

    @property
    def loading(self) -> bool:
        """True if requests wait for blocks on the way to slots or to host memory."""
        return bool(self._loads) or self._decisions.awaits_copies

    def cancel(self, reason: str = "cancelled") -> bool:
        """End all loads with slots, and free the slots; loaded prefixes of waiting requests may be
        evicted. Returns False without loads. reason: see `PrefixNotLoaded`."""
        loads = set(self._loads.values())
        for load in loads:
            self._end_load(load, load.slots)
            self._report_end(load, reason)
        return self._decisions.cancel(loads) or bool(loads)

    def _cancel_all(self, reason: str) -> None:
        """End also the loads into slots of requests."""
        self.cancel(reason)
        for tail in self._tails.end_all():
            self._report_end(tail.load, reason)
        self._decisions.clear()

    def _report_end(self, load: Load, reason: str) -> None:
        """Report a load without loaded tokens."""
        plan, computing = load.plan, round(load.plan.compute_seconds, 6)
        report = self._report(load.request)
        report.not_loaded(plan.store.name, reason, plan.saved_tokens, computing=computing)

    def stepped(self) -> None:
        """Note the end of a step."""
        self.copies.note_change()
        self._journal.collect(self.prefixes.stores)
        self.copies.grow_ahead()

    def flush(self) -> None:
        """Empty host memory, and end all loads. Files stay."""
        self._cancel_all("flush")
        self.copies.flush()

    def adopt_weights(self) -> None:
        """End all loads and serve the blocks of the changed weights from now on."""
        self._cancel_all("weights")
        self.copies.forget()
        self.prefixes.close()
        try:
            self.prefixes.stores = self._open_stores()
        except OptionError as error:
            self.prefixes.stores = Stores(b"", ())
            warnings.warn(f"no more copies of the cache: {error}", SgnbWarning, stacklevel=2)

    def close(self) -> None:
        """End all work and return the memory."""
        self._cancel_all("closed")
        self._readers.shutdown(wait=False, cancel_futures=True)
        # Before the queued copies are dropped: their places may be the last references to an arena.
        for transfer in filter(None, (self._transfer, self._states)):
            transfer.close()
        self.copies.close()
        self.prefixes.close()

    def statistics(self) -> dict[str, int]:
        """Return counters since the start."""
        return self._counts | self.copies.counts

    def _find_load(self, request: CachedSequence, may_compute: bool, room: int) -> Decision:
        """Return the load for a request's prompt, running or new, if a load saves time; otherwise
        see `Decision`."""
        if not self._serves(request):
            return 0
        usable = self._cache.look_up(request).length
        held = usable if self._states is None else self._cache.held_length(request)
        tokens = request.tokens[: request.reusable]
        if len(tokens) // BLOCK <= usable // BLOCK:
            return usable

        prompt = self.prefixes.read(tokens)
        if self._states is None:
            running = self._loads.get(prompt.keys[usable // BLOCK + 1])
            if running is not None:
                return running

        pending, first = self.copies.pending, usable // BLOCK
        key, end = pending.find(prompt, first, self.prefixes.stores.blocks)
        if key is not None and self._planner.saves_time(first, end, pending.num_bytes):
            return key

        self._journal.collect(self.prefixes.stores)
        report = self._report(request.id)
        plan = self._planner.plan(prompt, usable, held, report, may_compute)
        # Only for uncached prompts: the search computes keys from the first block on.
        if not report.num_found and usable < BLOCK and len(tokens) >= MIN_TOKENS:
            fingerprint, count = self._find_other_weights(prompt)
            if count:
                report.other_weights(fingerprint, count)

        if plan is None or not self._is_current(False):
            return usable
        if plan.meeting:
            return plan

        running = self._loads.get(prompt.keys[plan.end])
        if running is None and len(request.tokens) - held > room:
            return plan
        return running or self._start_load(request.id, tokens, plan) or plan

    def _report(self, request: int) -> LoadReport:
        return LoadReport(self._journal, self._emit, request)

    def _start_load(self, request: int, tokens: Ints, plan: LoadPlan) -> Load | None:
        """Start a load; None without memory."""
        count, end = len(plan.blocks) * BLOCK, plan.end * BLOCK
        state = None if self._states is None else self._states.spare(1)[0]
        tree = self._cache.tree
        node = tree.match(tokens[: end - count])
        tree.lock(node)
        slots = self._cache.allocate(count)
        if slots is None:
            tree.unlock(node)
            return None

        self._transfer.begin_writes()
        load = Load(plan, node, tokens[:end].copy(), slots, self._transfer, state, request)
        keys = plan.prompt.keys[plan.first + 1 : plan.end + 1] if state is None else ()
        self._loads |= dict.fromkeys((*keys, plan.prompt.keys[plan.end]), load)
        try:
            load.start(self._readers, self._deliver)
        except BaseException:  # no thread can start
            self._end_load(load, load.slots)
            raise
        return load

    def _start_tail(self, request: CachedSequence, plan: LoadPlan) -> None:
        """Load the last blocks of a request. The request computes the first blocks meanwhile."""
        begin = request.num_computed // BLOCK * BLOCK
        if self._is_current(False) and self._tails.start(request, plan):
            head = max(plan.meeting * BLOCK, request.split) - begin
            self._report(request.id).not_loaded(plan.store.name, "head", head)

    def _finish_tail(self, tail: TailLoad) -> int:
        """Let a request skip the loaded tail of its prompt. Returns the number of tokens."""
        load, begin, now = tail.load, tail.request.num_computed, time.perf_counter()
        store, tokens = load.plan.blocks[-1].store, self._tails.finish(tail)
        size = max(1, sum(load.read)) * self._transfer.block_bytes
        if load.read_from:  # the time in the queue is no cost
            self.costs.observe_load(store.name, size, load.read_seconds)

        if tokens:
            met = begin // BLOCK - load.plan.first
            self.prefixes.mark_cached([block.key for block in load.plan.blocks[met:]])
            computing = self.costs.compute_seconds(begin, begin + tokens)
            self._count(load.request, store, tokens, now - load.began, computing, begin)
        else:
            self._report_end(load, "compute")
        return tokens

    def _end_load(self, load: Load, unused: Ints, written: bool = False) -> None:
        """Let the waiting requests go on.

        Args:
            load: The load.
            unused: Slots that the tree did not take.
            written: All writes have ended: later work need not wait for writes of other loads.
        """
        with load.lock:
            load.done = True
            if not written:
                self._transfer.end_writes()
        self._loads = {key: other for key, other in self._loads.items() if other is not load}
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
        useful = count > 0 if load.state is None else load.complete
        try:
            if useful:
                slots = np.concatenate([node.path_slots(), load.slots[:count]])
                inserted = cache.tree.insert(load.tokens[: len(slots)], slots, "", node)
                self._decisions.keep(load, inserted.node)
                # Others may have computed the first tokens meanwhile.
                unused = np.concatenate([load.slots[: inserted.existing], load.slots[count:]])
                if load.state is not None:
                    self._restore_states(inserted.node, load.state)
        finally:
            self._end_load(load, unused, written=load.complete)

        self._journal.collect(self.prefixes.stores)
        if useful:
            tokens = count if load.state is None else load.plan.saved_tokens
            self._learn(load, count, tokens, time.perf_counter() - load.began)

    def _restore_states(self, node: RadixNode, content: Bytes) -> None:
        """Make a node a checkpoint with the loaded states, if a state is available."""
        checkpoints = self._cache.checkpoints
        assert checkpoints is not None and self._states is not None
        if checkpoints.has(node) or not checkpoints.available:
            return
        ids = checkpoints.allocate(1)
        try:
            self._states.begin_writes()
            self._states.write(np.array(ids, np.int32), [content])()
            self._states.end_writes()
        except BaseException:
            checkpoints.free(ids)
            raise
        checkpoints.keep(node, ids[0])

    def _learn(self, load: Load, count: int, tokens: int, seconds: float) -> None:
        """Record a finished load. A load of several stores counts for the slowest.

        Args:
            load: The load.
            count: Number of slots filled.
            tokens: Number of tokens that need not be computed.
            seconds: Time until the tree had the tokens.
        """
        plan, size = load.plan, count * self._transfer.unit_bytes
        source = plan.state or plan.blocks[count // BLOCK - 1]
        size += 0 if load.state is None else load.state.nbytes
        self.costs.observe_load(source.store.name, size, load.read_seconds)
        self.prefixes.mark_cached([block.key for block in plan.blocks[: count // BLOCK]])
        self._count(load.request, source.store, tokens, seconds, plan.compute_seconds)

    def _count(
        self,
        request: int,
        store: BlockStore,
        tokens: int,
        seconds: float,
        computing: float,
        begin: int = 0,
    ) -> None:
        """Count and report loaded tokens; see `PrefixLoaded`."""
        self._counts["loads"] += 1
        self._counts["loaded_tokens"] += tokens
        self._emit(
            PrefixLoaded(
                request=request,
                store=store.name,
                tokens=tokens,
                seconds=round(seconds, 6),
                compute_seconds=round(computing, 6),
                begin=begin,
            )
        )

    def _serves(self, request: CachedSequence) -> bool:
        return self._cache.shares(request) and request.cache_scope.namespace == ""
