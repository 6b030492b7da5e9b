"""Choice of the next step: the requests and tokens that go through the model. No torch, no clock,
no I/O.

Continuous batching with chunked prefill, mixed with decode. The cache manager owns the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..events import RequestAdmitted, RequestRetracted, Wait, WaitReason
from .cache.manager import CacheManager, Match
from .cache.prefix_loads import NoLoads, PrefixLoads
from .cache.radix import Prefix
from .request.batch import NO_ROW, Batch
from .request.batch_builder import BatchBuilder
from .request.held_requests import HeldRequests
from .request.plain_decode import PlainDecode, complete_decode
from .request.request import Request, RequestFault
from .request.step_limits import GrowthReserve, StepSize, preemption_key
from .request.wait_log import WaitLog
from .request.waiting_queue import SchedulePolicy, WaitingQueue

NextTokens = tuple[str | None, int, int, bytes]
"""Key of tokens to compute: equal keys mean equal cached prefixes and equal next tokens."""


class Scheduler:
    """Waiting and running requests, and the choice of each step.

    Args:
        cache: Owner of the memory.
        context_length: Maximum tokens of a request.
        max_step_tokens: Maximum tokens of a step.
        max_running: Maximum requests of a step.
        policy: "lpm" (longest prefix match, aged) or "fcfs".
        max_overtaking: A request is overtaken only by requests that arrive at most this number of
            steps later, regardless of their cached prefix.
        shared_prefix: A waiting request waits for another step if a running request is about to
            compute at least this number of its tokens.
        emit: Receives the events of requests.
    """

    def __init__(
        self,
        cache: CacheManager,
        *,
        context_length: int,
        max_step_tokens: int = 2048,
        max_running: int = 256,
        policy: SchedulePolicy = "lpm",
        max_overtaking: int = 1024,
        shared_prefix: int = 1,
        emit: Callable[[Any], None] = lambda event: None,
    ) -> None:
        self.cache = cache
        ageing = context_length / max_overtaking
        self.waiting = WaitingQueue(cache, policy, ageing=ageing)
        self.running: list[Request] = []
        self._num_synchronous = 0  # running requests that are not `runs_ahead`
        self.step = 0
        self._step_size = StepSize(max_step_tokens)
        self.max_running = max_running
        self.shared_prefix = max(shared_prefix, cache.min_prefix)
        self._emit = emit
        # Whether rows of the items from a position on are in memory; queues missing ones.
        self.items_ready: Callable[[Any, int], bool] = lambda items, start: True
        self.loads: PrefixLoads = NoLoads()
        # Gives a started request approximate keys and values if useful.
        self.begin_splice: Callable[[Request], None] = lambda request: None
        self._reserve = GrowthReserve()
        # Match and remaining tokens of the first request that did not fit. No request starts
        # until this request fits.
        self._blocked: tuple[Match, int] | None = None

        self._waits = WaitLog(emit)
        self._held = HeldRequests(self._waits)
        self._decode = PlainDecode()

    @property
    def has_work(self) -> bool:
        """True if a request waits or runs and is not held."""
        return len(self.waiting) + len(self.running) > len(self._held)

    def add(self, request: Request) -> None:
        """Queue a request."""
        request.arrival = self.step
        self.waiting.append(request)
        self._blocked = None

    def why_waiting(self, request: Request) -> Wait | None:
        """Return the reason why a request is not running. None for a running request, and for a
        request before `add` or after `finish`."""
        if request.id in self._held:
            return Wait(WaitReason.MASK)
        return self._waits.reason(request) if request.id in self.waiting else None

    def hold(self, request: Request) -> None:
        """Leave a started request out of all steps until `resume`, for a mask of the grammar."""
        self._held.add(request.id)
        self._decode.clear()

    def resume(self, request: Request) -> None:
        """Let a held request take part in steps again; queue a request that never started."""
        if not self._held.release(request):
            self.add(request)

    def schedule(self) -> Batch:
        """Choose the next step and its memory: decode, then running prefills, then new requests.

        Returns:
            The batch, without requests if all running requests only wait for their last result.
        """
        batch = self._choose()
        batch.cache_plans = self.cache.plan(batch.requests, batch.starts, batch.ends)
        return batch

    def _choose(self) -> Batch:
        self.step += 1
        self._step_size.recover(self.step)
        self._skip_loaded()
        max_tokens = 0 if self.waiting else self._step_size.tokens
        decode = self._decode.next_batch(self.cache, max_tokens)
        if decode is not None:
            return decode

        builder = BatchBuilder(self._step_size.tokens)
        prefills = self._make_room_to_grow(builder)
        for request in sorted(prefills, key=lambda r: r.num_uncomputed):
            builder.add(request)
        if self.waiting:
            self._admit(builder)
        return builder.batch()

    def complete(self, batch: Batch) -> list[Request]:
        """Record a launched step: later steps find its keys and values, and a placeholder for each
        sampled token. Shares the computed parts of prompts.

        Returns:
            The requests whose last token the step samples.
        """
        if self.cache.launched(batch.requests, batch.cache_plans):
            self._blocked = None
        if batch.series is not None:
            last = complete_decode(batch, batch.series)
        else:
            last = self._complete_rows(batch)
        if not self.waiting:  # otherwise the next step may start requests
            self._decode.record(batch, last, len(self.running))
        return last

    def _complete_rows(self, batch: Batch) -> list[Request]:
        """See `complete`, for any batch."""
        last = []
        rows = zip(batch.requests, batch.ends.tolist(), batch.sample_rows, strict=True)
        for request, end, row in rows:
            start, request.num_computed = request.num_computed, end
            if row != NO_ROW:
                request.sample_row = row
                request.num_tokens_with_placeholders = end = end + 1
                if end == request.max_len:
                    last.append(request)
            if start < request.num_prompt_tokens and self.cache.share(request):
                self._blocked = None
        return last

    def finish(self, request: Request, non_finite: bool = False) -> None:
        """End a request. Computed tokens stay in the cache, other slots become free. Harmless for
        an unknown request.

        Args:
            request: The request.
            non_finite: The logits were not finite, so keys and values may be wrong. The cache
                discards the request's tokens, except tokens in use; `isolate` handles their users.
        """
        self._waits.forget(request)
        self.loads.forget(request)
        self._held.release(request)
        if request.node is not None:
            self._release(request, insert=not non_finite)
        elif self.waiting.remove(request.id):
            self._blocked = None
        if non_finite:
            self.cache.discard(request)

    def isolate(self, request: Request) -> None:
        """Restart a request with non-finite logits at the head of the queue, without shared keys
        and values: the cause may be a wrong prefix of another request. The output stays."""
        if request.node is not None:
            self._release(request, insert=False)
            self._emit(RequestRetracted(request.id))
        self.cache.discard(request)
        request.isolate()
        self.waiting.put_first(request)
        self._blocked = None

    @property
    def runs_ahead(self) -> bool:
        """True if the next step may be launched before the last tokens are read."""
        if self._held and self._num_synchronous:
            return all(r.runs_ahead or r.id in self._held for r in self.running)
        return not self._num_synchronous

    def free_early(self, requests: Iterable[Request]) -> None:
        """End running requests by their length while the device samples their last tokens. A later
        `finish` has no effect. Requests without a node ended with the previous token."""
        for request in requests:
            if request.node is not None and request.wants_only_tokens:
                self._release(request)

    def requeue_rewritten(self, request: Request) -> None:
        """Move a running request with rewritten last tokens to the head of the queue, if the cache
        holds some of the replaced tokens. Unchanged tokens come from the cache."""
        self._decode.clear()
        if request.node is not None and request.num_computed < request.node.end:
            self._release(request)
            self.waiting.put_first(request)

    def recount_synchronous(self) -> None:
        """Count the running requests again after a change of `runs_ahead` of a request."""
        self._decode.clear()
        self._num_synchronous = sum(not running.runs_ahead for running in self.running)

    def retry_blocked(self) -> None:
        """Retry the first request that did not fit, after a change of the cache."""
        self._blocked = None

    def _skip_loaded(self) -> None:
        """Let running requests skip tokens loaded during the prefill."""
        loaded = self.loads.meet()
        for request in self.running if loaded else ():
            if request.id in loaded and request.cached_tokens is not None:
                request.cached_tokens += loaded[request.id]
                self._blocked = None

    def shrink(self, batch: Batch) -> bool:
        """Halve the step size after an out-of-memory step; see `StepSize.shrink`."""
        return self._step_size.shrink(batch.num_tokens, self.step)

    def drop_cache(self) -> tuple[int, int, int]:
        """Empty the cache, pins included, because all keys and values are wrong. Running requests
        wait again, keep their output and recompute their keys and values.

        Returns:
            Numbers of removed tokens, of restarted requests and of undone pins.
        """
        running = self.running[::-1]
        for request in running:
            self._release(request, insert=False)
            self.waiting.put_first(request)
            self._emit(RequestRetracted(request.id))

        tokens, pins = self.cache.drop("weights")
        return tokens, len(running), pins

    def _make_room_to_grow(self, builder: BatchBuilder) -> list[Request]:
        """Allocate slots for the appended tokens of all running requests. Retracts requests until
        the slots suffice.

        Returns:
            The requests with several tokens to compute. The others are in the builder.
        """
        while True:
            growth = builder.collect(self._held.without(self.running))
            slots = self.cache.allocate(growth.num_slots)
            if slots is not None:
                break
            if self.loads.cancel():
                continue
            if len(self.running) > 1 or not self.cache.unpin_oldest():
                self._retract(min(self.running, key=preemption_key))

        growth.take(slots)
        builder.begin()
        return growth.prefills

    def _key_of_next(self, request: Request, prefix: Prefix) -> NextTokens:
        """Return the key of the next `shared_prefix` tokens of a request to be computed."""
        upcoming = request.tokens[prefix.length : prefix.length + self.shared_prefix]
        return request.cache_scope.namespace, prefix.node.id, prefix.length, upcoming.tobytes()

    def _admit(self, builder: BatchBuilder) -> None:
        """Start waiting requests, best first, within the step budget, `max_running` and memory.

        A request waits despite free slots in four cases: an earlier request does not fit
        (`_blocked`); the last token is not read yet (`WaitingQueue.ranked`); the grammar computes a
        mask (`hold`); `_reason_to_wait` returns a reason. A request with a compiling grammar is not
        in the queue yet.
        """
        waits = self._waits
        waits.front = self._full(builder)
        if waits.front is not None:
            waits.report(next(iter(self.waiting.values())), waits.front)
            return
        growth = sum([r.remaining for r in self.running])
        if self._blocked is not None and not self._fits(*self._blocked, growth):
            waits.front = self._shortage(*self._blocked, growth)
            return

        being_computed = {
            self._key_of_next(r, Prefix(r.node, r.num_computed))
            for r in self.running
            if r.node and r.num_uncomputed > 1 and self.cache.shares(r)
        }
        admitted = []
        try:
            for request, prefix in self.waiting.ranked():
                if request.id in self._held:
                    continue
                waits.front = self._full(builder)
                if waits.front is not None:
                    waits.report(request, waits.front)
                    break
                reason = self._reason_to_wait(request, prefix, being_computed, growth)
                if reason is not None:
                    waits.report(request, Wait(reason))
                    continue
                try:
                    started = self._start(request, growth)
                except Exception as error:
                    raise RequestFault(request, error) from error
                if not started:
                    break
                waits.forget(request)
                growth += request.remaining
                admitted.append(request)
                if request.node is not None and self.cache.shares(request):
                    computed = Prefix(request.node, request.num_computed)
                    being_computed.add(self._key_of_next(request, computed))
                builder.add(request)
        finally:  # also after a fault of one request
            for request in admitted:
                self.waiting.admit(request)

    def _reason_to_wait(
        self, request: Request, prefix: Prefix, being_computed: set[NextTokens], growth: int
    ) -> WaitReason | None:
        """Return the reason of a wait despite free slots; None if the request can start now.

        A wait for a running request with the same next tokens costs a step per point of divergence
        of prompts, and each prefix is computed once.
        """
        if (
            being_computed
            and prefix.length + self.shared_prefix <= request.reusable
            and self.cache.shares(request)
            and self._key_of_next(request, prefix) in being_computed
        ):
            return WaitReason.SAME_PREFIX
        room = self.cache.reclaimable - self._spare(request.remaining, growth)
        if not self.loads.ready(request, may_compute=request.cached_tokens is None, room=room):
            return WaitReason.LOAD
        if request.items is not None:
            cached = self.cache.look_up(request).length
            if not self.items_ready(request.items, min(cached, request.reusable)):
                return WaitReason.ENCODER
        return None

    def _start(self, request: Request, growth: int) -> bool:
        """Start a request if the memory suffices. Undoes pins if no request runs or loads."""
        match, remaining = self.cache.match(request), request.remaining
        can_wait = self.running or self.loads.loading
        while not self._fits(match, remaining, growth):
            if can_wait or not (self.loads.cancel() or self.cache.unpin_oldest()):
                match = self.cache.unlock(match)
                self._waits.front = self._shortage(match, remaining, growth)
                self._waits.report(request, self._waits.front)
                # The first in line stays first until a request ends or arrives.
                if not self.waiting.reads_late:
                    self._blocked = match, remaining
                return False

        cached, recomputed = self.cache.start(request, match, self.waiting.values())
        if request.cached_tokens is None:
            request.cached_tokens, request.recomputed_tokens = cached, recomputed
        self.running.append(request)
        self._num_synchronous += not request.runs_ahead
        if request.params.approximate:
            self.begin_splice(request)
        self.loads.started(request)
        self._emit(RequestAdmitted(request.id, cached, recomputed))
        return True

    def _fits(self, match: Match, remaining: int, growth: int) -> bool:
        """Return whether the memory suffices for `match` and for later tokens: at most `remaining`
        of the request, and `growth` of the running requests."""
        return self.cache.fits(match, self._spare(remaining, growth))

    def _shortage(self, match: Match, remaining: int, growth: int) -> Wait:
        """Return the memory needed by a request; see `_fits`."""
        return self.cache.shortage(match, self._spare(remaining, growth))

    def _spare(self, remaining: int, growth: int) -> int:
        """Return the number of slots kept free for growth when a request starts."""
        return self._reserve.slots(growth + remaining, self.step) if self.running else 0

    def _full(self, builder: BatchBuilder) -> Wait | None:
        """Return the limit exceeded by a further request; None if no limit is exceeded."""
        if len(self.running) >= self.max_running:
            return Wait(WaitReason.RUNNING_LIMIT, len(self.running) + 1, self.max_running)
        if builder.budget <= 0:
            return Wait(WaitReason.STEP_BUDGET, 1, self._step_size.tokens)
        return None

    def _release(self, request: Request, insert: bool = True) -> None:
        """Remove a running request and its memory; see `CacheManager.release`."""
        self._decode.clear()
        self._blocked = None
        self.loads.forget(request)
        self.cache.release(request, insert)
        self.running.remove(request)
        self._num_synchronous -= not request.runs_ahead

    def _retract(self, request: Request) -> None:
        """Move a running request, with its output, to the head of the queue."""
        self._release(request)
        self.waiting.put_first(request)
        self._reserve.fill(self.step)
        self._emit(RequestRetracted(request.id))
