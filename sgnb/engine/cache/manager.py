"""Cache manager: ownership of KV slots and of further payloads, by requests and by the radix tree.

No torch, no clock, no I/O. Invariant: free + cached (in the tree) + in flight (owned by requests) =
total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...events import Wait, WaitReason
from .checkpoints import GAP, Checkpoints, RecurrentStates, StatePlan
from .radix import EvictionPolicy, Ints, Prefix, RadixNode, RadixTree, common_length
from .sequence import SHARED, CachedSequence
from .slot_allocator import SlotAllocator
from .splice import Splice

Longs = NDArray[np.int64]

COMPARED = 16
"""Waiting requests whose prompts are compared with the prompt of a starting request."""


class Match(NamedTuple):
    """Cached prefix of a waiting request, and memory that the request needs to start."""

    node: RadixNode  # the request continues here
    length: int  # number of cached tokens; tokens after `node` are recomputed
    slots: int
    states: int


class CacheManager:
    """Owner of the radix tree and of all payloads.

    Args:
        slots: KV slots.
        states: States of recurrent layers. With states, a request continues from a cached prefix
            at a checkpoint only.
        checkpoint_every: Tokens between checkpoints of long prompts.
        splits_prompts: With states, a step ends at the last checkpoint of a prompt. The last token
            is then a decode step, which can run as a CUDA graph.
        prefix_cache: Requests find tokens in the tree and leave their tokens there.
        policy: Order of eviction.
        emit: Receives the events of the tree.
    """

    def __init__(
        self,
        slots: SlotAllocator,
        states: SlotAllocator | None = None,
        *,
        checkpoint_every: int = 1024,
        splits_prompts: bool = False,
        prefix_cache: bool = True,
        policy: EvictionPolicy = "lru",
        emit: Callable[[Any], None] = lambda event: None,
    ) -> None:
        self.slots = slots
        self.tree = RadixTree(emit, policy)
        self.checkpoints: Checkpoints | None = None
        if states is not None:
            self.checkpoints = Checkpoints(self.tree, states, checkpoint_every, emit)
        self.prefix_cache = prefix_cache
        # Receives nodes evicted for lack of memory, before the content is freed.
        self.on_eviction: Callable[[Sequence[RadixNode]], None] = lambda nodes: None
        self._splits_prompts = splits_prompts

    @property
    def in_flight(self) -> int:
        """Number of slots owned by requests."""
        return self.slots.total - self.slots.available - self.tree.size

    @property
    def reclaimable(self) -> int:
        """Number of slots that are free or hold evictable tokens."""
        return self.slots.available + self.tree.evictable

    @property
    def pinned_tokens(self) -> int:
        """Number of tokens protected by pins."""
        nodes = {above for pinned in self.tree.pins.values() for above in pinned.path()}
        return sum(len(node.tokens) for node in nodes)

    @property
    def min_prefix(self) -> int:
        """Minimum length of an uncomputed prefix that is shared between running requests."""
        return 1 if self.checkpoints is None else GAP

    def shares(self, request: CachedSequence) -> bool:
        """Return whether the request reads cached tokens and adds tokens to the tree."""
        scope = request.cache_scope
        return self.prefix_cache and scope.namespace is not None and request.splice is None

    def look_up(self, request: CachedSequence) -> Prefix:
        """Return the usable cached prefix of a request, without any change to the tree."""
        prefix, namespace = request.prefix_hint, request.cache_scope.namespace
        if namespace is None:
            return Prefix(self.tree.root, 0)
        if prefix is None or not prefix.holds:
            prefix = request.prefix_hint = self.tree.peek(request.tokens, namespace, prefix)
        if self.checkpoints is not None:
            node = self.checkpoints.deepest(prefix.node, request.reusable)
            return Prefix(node, node.end)
        return prefix

    def held_length(self, request: CachedSequence) -> int:
        """Return the number of leading tokens with keys and values in the tree. With recurrent
        layers, the tokens behind the deepest checkpoint are not usable."""
        self.look_up(request)
        return 0 if request.prefix_hint is None else request.prefix_hint.length

    def cached_length(self, tokens: Ints) -> int:
        """Return the number of leading tokens in the cache for a new request."""
        sequence = CachedSequence(tokens, len(tokens), SHARED)
        return min(self.look_up(sequence).length, sequence.reusable)

    def match(self, request: CachedSequence) -> Match:
        """Find and lock the cached prefix of a request. `start` or `unlock` must follow."""
        node = self.tree.root
        if self.prefix_cache and (namespace := request.cache_scope.namespace) is not None:
            tokens = request.tokens[: request.reusable]
            node = self.tree.match(tokens, namespace, request.prefix_hint)

        length, states = node.end, 0
        if self.checkpoints is not None:
            node = self.checkpoints.deepest(node, length)
            states = self.checkpoints.needed(node, request.rewrites)
        self.tree.lock(node)
        return Match(node, length, request.num_tokens - node.end, states)

    def unlock(self, match: Match) -> Match:
        """Undo a `match`. Returns the match with the slots needed without the lock: the prefix
        without users counts as available then."""
        locked = self.tree.locked
        self.tree.unlock(match.node)
        return match._replace(slots=match.slots + locked - self.tree.locked)

    def fits(self, match: Match, reserve: int) -> bool:
        """Return whether the memory for a match is available, in addition to `reserve` slots."""
        if self.checkpoints is not None and self.checkpoints.available < match.states:
            return False
        return self.reclaimable >= match.slots + reserve

    def shortage(self, match: Match, reserve: int) -> Wait:
        """Return the needed and the available memory of a match that does not fit."""
        if self.checkpoints is not None and self.checkpoints.available < match.states:
            return Wait(WaitReason.STATES, match.states, self.checkpoints.available)
        return Wait(WaitReason.MEMORY, match.slots + reserve, self.reclaimable)

    def start(
        self, request: CachedSequence, match: Match, waiting: Iterable[CachedSequence]
    ) -> tuple[int, int]:
        """Give a request its slots. The match must fit.

        Args:
            request: The request to start.
            match: Result of `match` for the request.
            waiting: Waiting requests, the oldest first.

        Returns:
            Given tokens taken from the cache, and further cached given tokens to recompute.
        """
        node, end = match.node, request.num_tokens
        if self.checkpoints is not None:
            positions = self._checkpoint_positions(self.checkpoints, request, match, waiting)
            request.states = RecurrentStates(self.checkpoints, node, request.rewrites, positions)
            request.split = positions[-1] if positions and self._splits_prompts else 0
        slots = self.allocate(match.slots)
        assert slots is not None
        request.slots[: node.end] = node.path_slots()
        request.slots[node.end : end] = slots
        request.node, request.num_computed, request.num_slots = node, node.end, end

        cached = min(node.end, request.num_given_tokens)
        return cached, min(match.length, request.num_given_tokens) - cached

    def allocate(self, count: int) -> Ints | None:
        """Take `count` slots; evicts nodes if needed. None if the slots are not available."""
        missing = count - self.slots.available
        if missing > 0:
            evicted = self.tree.evict(missing)
            self.on_eviction(evicted)
            self.free(evicted)
            if self.slots.available < count:
                return None
        return self.slots.allocate(count)

    def plan(
        self, requests: Sequence[CachedSequence], starts: Longs, ends: Longs
    ) -> list[StatePlan]:
        """Return the states that a step reads and writes, per request. Empty without recurrent
        layers.

        Args:
            requests: Requests of the step.
            starts: Position of each request's first token in the step.
            ends: Position after each request's last token in the step.
        """
        if self.checkpoints is None:
            return []
        rows = zip(requests, starts.tolist(), ends.tolist(), strict=True)
        return [_states(request).plan(start, end) for request, start, end in rows]

    def launched(self, requests: Sequence[CachedSequence], plans: list[StatePlan]) -> bool:
        """Record the states of a launched step, and share its checkpoints. Returns whether the tree
        may have changed. plans: result of `plan`."""
        if not plans:
            return False
        changed = False
        for request, plan in zip(requests, plans, strict=True):
            states = _states(request)
            if len(plan.written) > 1:
                states.leave_checkpoints(partial(self._share, request))
                changed = True
            states.written(plan)
        return changed

    def share(self, request: CachedSequence) -> bool:
        """Share the computed part of a running request's prompt: with recurrent layers as a
        checkpoint, if a state is available. Returns whether the tree may have changed."""
        if not self.shares(request):
            return False
        states = request.states
        if states is None:
            self._share(request, request.num_computed)
        elif request.num_computed < request.num_prompt_tokens and states.can_share:
            states.share(self._share(request, request.num_computed))
        else:
            return False
        return True

    def skip(self, request: CachedSequence, count: int) -> None:
        """Count the next tokens of a prompt as computed, and share them: their slots were filled
        by a load. Without recurrent layers only."""
        request.num_computed += count
        self.share(request)

    def start_splice(self, request: CachedSequence, splice: Splice) -> None:
        """Give a started request a splice: a step ends at its begin, and the request shares no
        further tokens. Locks the donor."""
        self.tree.lock(splice.donor)
        request.splice, request.split = splice, splice.begin

    def finish_splice(self, request: CachedSequence) -> None:
        """Count the tokens of a splice as computed, after the copy to the request's slots."""
        splice = request.splice
        assert splice is not None
        self.tree.unlock(splice.donor)
        splice.donor = self.tree.root  # which needs no lock
        request.num_computed, request.split = splice.end, 0

    def drop_splice(self, request: CachedSequence) -> None:
        """Undo `start_splice`: all tokens of the request are computed, and shared again."""
        assert request.splice is not None
        self.tree.unlock(request.splice.donor)
        request.splice, request.split = None, 0

    def release(self, request: CachedSequence, insert: bool = True) -> None:
        """Take all slots and states from a running request. A launched step may still write to the
        slots; the next user of the slots follows on the same stream.

        Args:
            request: The running request.
            insert: Give the slots of computed tokens to the tree, if the request shares.
        """
        node, states = request.node, request.states
        assert node is not None
        # A step in flight may have computed a token that nobody will read.
        computed, end = min(request.num_computed, request.num_tokens), None
        if states is not None:
            computed = states.back_to(computed)
        if insert and computed > node.end and self.shares(request):
            end = self._insert(request, computed)
        if states is not None:
            states.end(end)
            request.states = None

        first_private = node.end if end is None else computed
        self.slots.free(request.slots[first_private : request.num_slots])
        self.tree.unlock(node)
        if request.splice is not None:
            self.drop_splice(request)
        request.node = request.prefix_hint = None
        request.num_slots = request.num_computed = 0

    def free(self, nodes: Iterable[RadixNode]) -> int:
        """Free the content of removed nodes. Returns the number of tokens."""
        slots = self.slots
        num_available = slots.available
        for node in nodes:
            slots.free(node.slots)
            for payload, ids in node.attached.items():
                payload.free(ids)
        if self.checkpoints is not None:
            self.checkpoints.prune()
        return slots.available - num_available

    def flush(self, namespace: str | None = None) -> int:
        """Empty the cache, or one namespace, except nodes in use and pinned nodes. Returns the
        number of freed tokens."""
        return self.free(self.tree.flush(namespace))

    def drop(self, reason: str) -> tuple[int, int]:
        """Empty the cache, pins included, while no request runs. reason: of the `NodeEvicted`
        events. Returns the numbers of freed tokens and undone pins."""
        pins = len(self.tree.pins)
        while self.unpin_oldest():
            pass
        return self.free(self.tree.flush(reason=reason)), pins

    def discard(self, request: CachedSequence) -> None:
        """Remove the request's tokens from the tree, except tokens in use by other requests."""
        namespace = request.cache_scope.namespace
        if namespace is not None:
            self.free(self.tree.discard(request.tokens, namespace))

    def unpin_oldest(self) -> bool:
        """Undo the oldest pin. Returns False without a pin."""
        for (_, owner), node in self.tree.pins.items():
            self.tree.unpin(node, owner)
            return True
        return False

    def _checkpoint_positions(
        self,
        checkpoints: Checkpoints,
        request: CachedSequence,
        match: Match,
        waiting: Iterable[CachedSequence],
    ) -> list[int]:
        """Return the positions of a request's checkpoints: regular positions, the fork of the
        program, and the first differences from the tree and from waiting requests."""
        if not self.shares(request):
            return []
        tokens, namespace = request.tokens, request.cache_scope.namespace
        common = [
            min(common_length(tokens, other.tokens), other.reusable)
            for other in islice(waiting, COMPARED)
            if other is not request and other.cache_scope.namespace == namespace
        ]
        wanted = [request.cache_scope.forked, match.length]
        wanted += [min(common), max(common)] if common else []
        return checkpoints.positions(match.node.end, wanted, request.reusable)

    def _share(self, request: CachedSequence, end: int) -> RadixNode:
        """Insert the first `end` tokens of a running request, and move the request's lock to the
        new node."""
        old, request.node = request.node, self._insert(request, end)
        assert old is not None
        self.tree.lock(request.node)
        self.tree.unlock(old)
        return request.node

    def _insert(self, request: CachedSequence, end: int) -> RadixNode:
        """Insert the first `end` tokens, all computed. Slots of the tree replace the request's
        slots for tokens already in the tree; the replaced slots become free."""
        node, namespace = request.node, request.cache_scope.namespace
        assert node is not None and namespace is not None
        slots = request.slots[:end]
        inserted = self.tree.insert(request.tokens[:end], slots, namespace, node, request.id)
        if inserted.existing:
            duplicates = slice(node.end, node.end + inserted.existing)
            self.slots.free(slots[duplicates])
            slots[duplicates] = inserted.node.path_slots()[duplicates]
        return inserted.node


def _states(request: CachedSequence) -> RecurrentStates:
    assert request.states is not None
    return request.states
