"""Which tokens of which requests go through the model next, and who owns which KV slot. No torch,
no clock, no I/O.

Continuous batching with chunked prefill mixed into decode steps. At every moment: free + cached (in
the tree) + in flight (owned by requests) = the pool's total.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events import RequestAdmitted, RequestRetracted
from ..reservation import Reservation
from .cache import hand
from .cache.checkpoints import GAP, Checkpoints, RequestStates
from .cache.radix import Ints, Node, Prefix, RadixTree
from .cache.slot_allocator import SlotAllocator
from .request.batch import NO_ROW, Batch
from .request.draft import Draft
from .request.gate import ProgramGate
from .request.request import Request
from .request.waiting import SchedulePolicy, WaitingQueue

RECOVERY = 64
"""Steps to wait after an out-of-memory step before doubling the step size."""


class Scheduler:
    """Owns the waiting and the running requests, the pool and the tree.

    max_step_tokens: tokens of one forward pass. max_running: requests in one forward pass.
    policy: "lpm" (longest prefix match, aged) or "fcfs".
    max_overtaking: a request is overtaken only by requests that arrive at most this many steps
    after it, however long their cached prefix.
    shared_prefix: a waiting request waits one more step when another is about to compute at least
    so many of its tokens.
    window: of the waiting requests, how many of the oldest are ranked.
    checkpoints: of a model with recurrent layers, whose states a request needs beside slots, and
    which goes on from a cached prefix at a checkpoint only.
    """

    def __init__(
        self,
        tree: RadixTree,
        pool: SlotAllocator,
        *,
        context_length: int,
        max_step_tokens: int = 2048,
        max_running: int = 256,
        policy: SchedulePolicy = "lpm",
        max_overtaking: int = 1024,
        prefix_cache: bool = True,
        shared_prefix: int = 1,
        window: int = 2048,
        checkpoints: Checkpoints | None = None,
        emit: Callable[[Any], None] = lambda event: None,
    ) -> None:
        self.tree = tree
        self.pool = pool
        self.waiting = WaitingQueue(
            tree,
            policy,
            ageing=context_length / max_overtaking,
            window=window,
            prefix_cache=prefix_cache,
            by_checkpoint=checkpoints is not None,
        )
        self.gate = ProgramGate(lambda: pool.total - hand.pinned_tokens(tree), self.waiting.rank)
        self.running: list[Request] = []
        self.step = 0
        self._max_step_tokens = self._step_tokens = max_step_tokens
        self._shrunk_at = 0
        self.max_running = max_running
        self._prefix_cache = prefix_cache
        # For a checkpoint that another leaves: for fewer tokens there is none.
        self.shared_prefix = shared_prefix if checkpoints is None else max(shared_prefix, GAP)
        self.checkpoints = checkpoints
        self._emit = emit
        # Of the tokens that running requests may still add, the share that is kept free: 1 after a
        # retraction, falling to 0.3.
        self._reserve = 0.5
        # Slots, states and further tokens of the first request that did not fit: until it does,
        # none starts.
        self._blocked: tuple[int, int, int] | None = None
        self._decode: _Decode | None = None  # see `_continue_decode`
        self._decoding: list[Request] | None = None  # the requests that `_goes_on` found to do so

    @property
    def num_waiting(self) -> int:
        """Requests that have no slots, those of programs that are not admitted among them."""
        return len(self.waiting) + len(self.gate)

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def in_flight(self) -> int:
        """Slots owned by requests and not by the tree."""
        return self.pool.total - self.pool.free - self.tree.size

    def add(self, request: Request) -> None:
        request.arrival = self.step
        if request.sharing.reservation is None:
            self._wait(request)
        else:
            self._wait(*self.gate.enter(request))

    def release(self, reservation: Reservation, made: int | None = None) -> None:
        """A program is over that had reserved its slots: see `ProgramGate.release`."""
        self._wait(*self.gate.release(reservation, made))

    def _wait(self, *requests: Request) -> None:
        for request in requests:
            self.waiting[request.id] = request
            self._blocked = None

    def schedule(self) -> Batch:
        """Choose the next step's work, its slots and its states: decode, then running prefills,
        then new requests.

        A request whose last step is still to be read may have none.
        """
        batch = self._choose()
        if self.checkpoints is not None:
            rows = zip(batch.requests, batch.starts.tolist(), batch.ends.tolist(), strict=True)
            batch.states = [r.owned_states.plan(start, end) for r, start, end in rows]
        return batch

    def _choose(self) -> Batch:
        """`schedule`, but for states."""
        self.step += 1
        if self._step_tokens < self._max_step_tokens and self.step >= self._shrunk_at + RECOVERY:
            self._step_tokens = min(2 * self._step_tokens, self._max_step_tokens)
            self._shrunk_at = self.step

        decode, self._decode = self._decode, None
        if decode is not None and not self.waiting and len(decode.requests) <= self._step_tokens:
            batch = self._continue_decode(decode)
            if batch is not None:
                return batch

        draft = Draft(self._step_tokens)
        prefills = self._make_room_to_grow(draft)
        for request in sorted(prefills, key=lambda r: r.num_uncomputed):
            draft.add(request)
        if self.waiting and draft.budget > 0:
            self._admit(draft)
        return draft.batch()

    def complete(self, batch: Batch) -> list[Request]:
        """The step was launched: whatever is launched after it finds its tokens' keys and values,
        and a placeholder for each that it samples. Prompts are shared as far as they are computed.

        Returns the requests whose last token it samples.
        """
        last = []
        if self.checkpoints is not None:
            for request, path in zip(batch.requests, batch.states, strict=True):
                states = request.owned_states
                if len(path.written) > 1:
                    states.leave_checkpoints(partial(self._share, request))
                states.written(path)
        rows = zip(batch.requests, batch.ends.tolist(), batch.sample_rows, strict=True)
        for request, end, row in rows:
            start, request.num_computed = request.num_computed, end
            if row != NO_ROW:
                request.sample_row = row
                request.num_tokens_with_placeholders = end = end + 1
                if end == request.max_len:
                    last.append(request)
            if start < request.num_prompt_tokens and self._caches(request):
                self._share_prompt(request)
        if self._goes_on(batch, last):
            self._decode = _Decode(batch.requests, batch.ends)
        return last

    def finish(self, request: Request, spoilt: bool = False) -> None:
        """The request ends, for whatever reason: what it computed stays in the cache, the rest
        becomes free.

        Harmless for one that was never added. spoilt: its logits were no numbers, nor may be its
        keys and values. The cache forgets all of its tokens but those that others use: see
        `isolate`, after which nobody else finds them.
        """
        if request.node is not None:
            if spoilt:
                request.num_computed = request.node.end
            self._release(request)
        elif self.waiting.pop(request.id, None) is not None:
            self._blocked = None
        else:
            self._wait(*self.gate.drop(request))
        if spoilt:
            self._discard(request)

    def isolate(self, request: Request) -> None:
        """The request's logits were no numbers, perhaps by keys and values that it shares with a
        spoilt one: it begins once more, at the head of the queue, and shares none. Its output
        stays."""
        if request.node is not None:
            request.num_computed = request.node.end
            self._release(request)
            self._emit(RequestRetracted(request.id))
        self._discard(request)
        request.isolate()
        self.waiting.put_first(request)
        self._blocked = None

    def free_early(self, request: Request) -> None:
        """The running request ends by its length, with the token that is being sampled: it needs
        nothing more of what is scheduled or cached.

        As `finish`, while the device still works; a later `finish` finds nothing left to do.
        """
        self._release(request)

    def requeue_rewritten(self, request: Request) -> None:
        """The running request rewrote its last tokens. If the tree holds some of them for it, it
        begins once more, at the head of the queue: what stays of them it will find in the cache."""
        self._decode = self._decoding = None
        if request.node is not None and request.num_computed < request.node.end:
            self._release(request)
            self.waiting.put_first(request)

    def shrink(self, batch: Batch) -> bool:
        """The step did not fit into memory, and none of it was computed: the next steps are at most
        half as long, and after `RECOVERY` steps twice as long again. False when it cannot be
        shorter."""
        self._step_tokens = max(1, batch.num_tokens // 2)
        self._shrunk_at = self.step
        return batch.num_tokens > 1

    def cached_length(self, tokens: Ints) -> int:
        """How many leading tokens a new request would take from the cache. Changes nothing."""
        prefix, most = self.tree.peek(tokens), len(tokens) - 1
        if self.checkpoints is not None:
            return prefix.node.checkpoint(most).end
        return min(prefix.length, most)

    def flush(self, namespace: str | None = None) -> int:
        """Empty the cache, or what one namespace has of it, but for what running requests use and
        what is pinned. Returns the tokens freed."""
        before = self.pool.free
        for slots in self.tree.flush(namespace):
            self.pool.release(slots)
        return self.pool.free - before

    def _continue_decode(self, decode: _Decode) -> Batch | None:
        """The fast way through `schedule`, with the same result: all running requests decode once
        more. None without memory for that."""
        requests, starts = decode
        if not self._make_free(len(requests)):
            return None
        self._reserve = max(0.3, self._reserve * 0.99)
        slots = self.pool.allocate(len(requests)).tolist()
        for request, start, slot in zip(requests, starts.tolist(), slots, strict=True):
            request.slots[start] = slot
            request.num_slots = start + 1
        return Batch(requests, starts, np.ones(len(requests), np.int64))

    def _goes_on(self, batch: Batch, last: list[Request]) -> bool:
        """Whether the next step decodes the same requests, if nothing happens to them: one more
        token and slot each, none of it prompt or to be scored."""
        if last or not batch.is_decode or len(batch) != len(self.running):
            return False
        if batch.requests is self._decoding:  # as in the step before
            return True
        rows = zip(batch.requests, batch.starts.tolist(), batch.samples, strict=True)
        plain = all(
            samples
            and request.num_prompt_tokens <= start == request.num_slots - 1
            and not request.params.return_logprob
            for request, start, samples in rows
        )
        self._decoding = batch.requests if plain else None
        return plain

    def _make_room_to_grow(self, draft: Draft) -> list[Request]:
        """Give every running request slots for the tokens it appended; retract requests until that
        is possible. Those with one token to compute go into the draft, those with more are
        returned.
        """
        self._reserve = max(0.3, self._reserve * 0.99)
        while True:
            draft.clear()
            prefills: list[Request] = []
            growing: list[Request] = []
            need = 0
            for request in self.running:
                size, computed = request.num_tokens_with_placeholders, request.num_computed
                if size == computed or (size == request.max_len and request.idle):
                    continue
                if size == computed + 1:
                    draft.requests.append(request)
                    draft.starts.append(computed)
                    draft.samples.append(size < request.max_len and not request.closed)
                else:
                    prefills.append(request)
                if request.num_slots < size:
                    growing.append(request)
                    need += size - request.num_slots
            if self._make_free(need):
                break
            if len(self.running) == 1 and self._undo_pin():
                continue
            self._retract(min(self.running, key=_loss))

        _grow(growing, self.pool.allocate(need))
        draft.begin()
        return prefills

    def _caches(self, request: Request) -> bool:
        """Whether the request finds tokens in the tree, and leaves its own there."""
        return self._prefix_cache and not request.isolated

    def _next_tokens(self, request: Request, prefix: Prefix) -> tuple[str | None, int, int, bytes]:
        """Equal for requests that will compute the same tokens after the same cached prefix."""
        upcoming = request.tokens[prefix.length : prefix.length + self.shared_prefix]
        return request.sharing.namespace, prefix.node.id, prefix.length, upcoming.tobytes()

    def _admit(self, draft: Draft) -> None:
        """Start waiting requests, best first, while the step's tokens, `max_running` and memory
        allow (`_fits`).

        A request waits on beside free slots when the first in line does not fit (`_blocked`), when
        it is not among the `window` oldest, when its last token is not read yet, or when another is
        about to compute its next `shared_prefix` tokens: so that no prefix of as many is computed
        twice. That takes a step for each place where prompts begin to differ, once. One whose
        grammar compiles is not here yet.
        """
        if len(self.running) >= self.max_running:
            return
        growth = sum([r.remaining for r in self.running])
        if self._blocked is not None and not self._fits(*self._blocked, growth):
            return

        being_computed = {
            self._next_tokens(r, Prefix(r.node, r.num_computed))
            for r in self.running
            if r.node and r.num_uncomputed > 1
        }
        admitted = set()
        for request, prefix in self.waiting.ranked():
            if draft.budget <= 0 or len(self.running) >= self.max_running:
                break
            upcoming = self._next_tokens(request, prefix)
            shares = prefix.length + self.shared_prefix <= request.reusable
            if shares and self._caches(request) and upcoming in being_computed:
                continue
            if not self._start(request, growth):
                break
            growth += request.remaining
            admitted.add(request.id)
            being_computed.add(upcoming)
            draft.add(request)
        for id in admitted:
            del self.waiting[id]

    def _start(self, request: Request, growth: int) -> bool:
        """Lock the cached prefix and allocate the rest. False, and nothing changed hands, without
        enough memory.

        growth: tokens that the running requests may still add.
        """
        node, namespace = self.tree.root, request.sharing.namespace
        if self._prefix_cache and namespace is not None:
            found = request.tokens[: request.reusable]
            node = self.tree.match(found, namespace, request.prefix_hint)
        matched, states = node.end, 0
        if self.checkpoints is not None:
            node = node.checkpoint(matched)
            states = self.checkpoints.needed(node, request.rewrites)
        need = request.num_tokens - node.end
        locked = self.tree.locked
        self.tree.lock(node)
        while not (self.running or self._fits(need, states, request.remaining, growth)):
            if not self._undo_pin():
                break
        if not self._fits(need, states, request.remaining, growth):
            # Until something ends or begins to wait, the same request is the first in question, and
            # needs the same.
            if not self.waiting.reads_late:
                self._blocked = need + self.tree.locked - locked, states, request.remaining
            self.tree.unlock(node)
            return False
        if self.checkpoints is not None:
            request.states = self._start_states(self.checkpoints, request, node, matched)
        self._make_free(need)
        request.slots[: node.end] = node.path_slots()
        request.slots[node.end : request.num_tokens] = self.pool.allocate(need)
        request.node, request.num_computed, request.num_slots = node, node.end, request.num_tokens
        cached = min(node.end, request.num_prompt_tokens)
        again = min(matched, request.num_prompt_tokens) - cached
        if request.cached_tokens is None:
            request.cached_tokens, request.again_tokens = cached, again
        self.running.append(request)
        self._emit(RequestAdmitted(request.id, cached, again))
        return True

    def _start_states(
        self, checkpoints: Checkpoints, request: Request, node: Node, matched: int
    ) -> RequestStates:
        """The states of a request that goes on from `node`. It leaves checkpoints where a program
        forked, and where its tokens part from those of the tree and of others that wait."""
        if not self._caches(request):
            return checkpoints.start(node, request.rewrites, (), 0)
        common = self.waiting.begin_alike(request)
        stops = [request.sharing.forked, matched]
        stops += [min(common), max(common)] if common else []
        return checkpoints.start(node, request.rewrites, stops, request.reusable)

    def _fits(self, need: int, states: int, remaining: int, growth: int) -> bool:
        """Whether a request that needs `need` slots and `states` now, and may add `remaining`
        tokens, can start."""
        if self.checkpoints is not None and self.checkpoints.available < states:
            return False
        reserve = int((growth + remaining) * self._reserve) if self.running else 0
        return self.pool.free + self.tree.evictable >= need + reserve

    def _release(self, request: Request) -> None:
        """Take a running request out, the one way: slots of computed tokens go to the tree, the
        others to the pool. A launched step may still write to them; what uses them next follows it
        on the same stream."""
        node = request.node
        assert node is not None
        self._decode = self._decoding = None
        # A step in flight may have computed a token that will not be read.
        request.num_computed = min(request.num_computed, request.num_tokens)
        if request.states is not None:
            request.num_computed = request.states.back_to(request.num_computed)
        caches, inserted = self._caches(request), None
        if caches and request.num_computed > node.end:
            inserted = self._insert(request, request.num_computed)
        if request.states is not None:
            request.states.end(inserted)
            request.states = None
        if caches:
            self.pool.release(
                request.slots[max(request.num_computed, node.end) : request.num_slots]
            )
        else:
            self.pool.release(request.slots[: request.num_slots])
        self.tree.unlock(node)
        self.running.remove(request)
        request.node = request.prefix_hint = self._blocked = None
        request.num_slots = request.num_computed = 0

    def _retract(self, request: Request) -> None:
        """Back to the head of the queue, with its output, to make room for the others."""
        self._release(request)
        self.waiting.put_first(request)
        self._reserve = 1.0
        self._emit(RequestRetracted(request.id))

    def _discard(self, request: Request) -> None:
        """Forget what the cache has of the request's tokens, but for what others use."""
        if request.sharing.namespace is None:
            return
        for slots in self.tree.discard(request.tokens, request.sharing.namespace):
            self.pool.release(slots)

    def _share_prompt(self, request: Request) -> None:
        """Share the computed part of a running request's prompt; with states as a checkpoint, or
        not at all."""
        if request.states is None:
            self._share(request, request.num_computed)
        elif request.num_computed < request.num_prompt_tokens and request.states.can_share:
            request.states.share(self._share(request, request.num_computed))

    def _share(self, request: Request, end: int) -> Node:
        """Put the first `end` tokens of a running request into the tree, and lock them there."""
        old, request.node = request.node, self._insert(request, end)
        assert old is not None
        self.tree.lock(request.node)
        self.tree.unlock(old)
        return request.node

    def _insert(self, request: Request, end: int) -> Node:
        """Put the first `end` tokens, which are computed, into the tree. What it had already
        replaces the request's own copy, now free."""
        namespace = request.sharing.namespace
        assert request.node is not None and namespace is not None
        self._blocked = None
        begin = request.node.end
        tokens, slots = request.tokens[:end], request.slots[:end]
        inserted = self.tree.insert(tokens, slots, namespace, request.node)
        if inserted.existing:
            duplicates = slice(begin, begin + inserted.existing)
            self.pool.release(slots[duplicates])
            request.slots[duplicates] = inserted.node.path_slots()[duplicates]
        return inserted.node

    def _undo_pin(self) -> bool:
        """Let go of the oldest pin, beside which a request cannot run alone; whether there was
        one."""
        for (_, owner), node in self.tree.pins.items():
            self.tree.unpin(node, owner)
            return True
        return False

    def _make_free(self, count: int) -> bool:
        """Evict until `count` slots are free; whether that was possible."""
        if self.pool.free < count:
            for slots in self.tree.evict(count - self.pool.free):
                self.pool.release(slots)
        return self.pool.free >= count


class _Decode(NamedTuple):
    """A decode step of all running requests that may follow the last one."""

    requests: list[Request]
    starts: NDArray[np.int64]


def _loss(request: Request) -> tuple[bool, int, int]:
    """What is retracted first has the smallest: of what nobody has reserved, the shortest output,
    and of these the longest prompt."""
    reserved = request.sharing.reservation is not None
    return reserved, request.num_output_tokens, -request.num_prompt_tokens


def _grow(requests: list[Request], slots: Ints) -> None:
    """Give each request slots for the tokens that have none; `slots` are those of all requests,
    in turn."""
    new, first = slots.tolist(), 0
    for request in requests:
        begin, end = request.num_slots, request.num_tokens_with_placeholders
        last = first + end - begin
        if last == first + 1:  # as in every decode step: a slice costs several times more
            request.slots[begin] = new[first]
        else:
            request.slots[begin:end] = slots[first:last]
        request.num_slots, first = end, last
