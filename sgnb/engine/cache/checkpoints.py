"""Ownership of recurrent states: the last states of running requests, and checkpoints of the radix
tree. States are numbers here; the tensors are in `state_pool.py`.

A recurrent layer summarises a sequence in a state of fixed size. Each token replaces the state, and
a state cannot be truncated, unlike keys and values. Hence a running request keeps the last states,
and returns to an earlier state if the last tokens are rewritten. The tree keeps some states as
checkpoints, from which later requests continue: a cached prefix is usable up to the deepest
checkpoint. A step reads one state per request and writes different states, one at the end and one
per checkpoint before the end. A failed step therefore destroys no state.

Invariant: free + kept (by the tree) + in flight (owned by requests) = total.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...events import CheckpointDropped, CheckpointKept
from .radix import RadixNode, RadixTree
from .slot_allocator import SlotAllocator

LAST_STATES = 2
"""States of a request: the running step reads one and writes one."""

LAST_STATES_REWRITTEN = 3
"""States of a request with a grammar, whose jumps rewrite one or two tokens."""

FEWEST_STATES = LAST_STATES_REWRITTEN + 1
"""States needed for a single request: its own and the checkpoint to continue from."""

INSPECTED = 64
"""Number of least valuable checkpoints searched for one without a running user of its node. With
many running requests there may be none."""

GAP = 16
"""Minimum tokens between checkpoints: fewer tokens are recomputed as fast as a checkpoint is read
and written."""

LEAST_ALIGNED = 256
"""Smallest position of a checkpoint for stores of blocks."""


class StatePlan(NamedTuple):
    """States of one request in a step: the state to read and the states to write."""

    read: int
    written: tuple[tuple[int, int], ...]  # (position, state), ascending


class StateRef(NamedTuple):
    """A state from which a request may continue."""

    position: int  # number of tokens in the state
    state: int
    node: RadixNode | None  # owner of the checkpoint; None: the request owns the state


class RecurrentStates:
    """The last states of a running request, the oldest first. Each step adds a state.

    Args:
        owner: Pool of all states, with enough available states (`needed`).
        node: Start of the request, a checkpoint or the root.
        rewrites: The request may rewrite its last tokens.
        checkpoint_positions: Positions at which the request leaves checkpoints, ascending.
    """

    def __init__(
        self, owner: Checkpoints, node: RadixNode, rewrites: bool, checkpoint_positions: list[int]
    ) -> None:
        self._owner = owner
        self._refs: list[StateRef] = []
        if owner.has(node):
            self._borrow(node)
        self._spare = owner.allocate(_last_states(rewrites))
        self._checkpoint_positions = checkpoint_positions
        self._pending: list[tuple[int, int]] = []  # checkpoints of the last planned step

    def back_to(self, position: int) -> int:
        """Forget the states after `position`.

        Returns:
            The position of the last remaining state, or 0 without a state.
        """
        while self._refs and self._refs[-1].position > position:
            self._forget(-1)
        return self._refs[-1].position if self._refs else 0

    def plan(self, start: int, end: int) -> StatePlan:
        """Plan a step that computes the tokens start .. end.

        Without a spare state the step overwrites the oldest. A checkpoint on the way is omitted if
        no state is available.
        """
        if self._pending:  # of a failed step
            self._owner.free([state for _, state in self._pending])
            self._pending = []

        positions = self._checkpoint_positions
        for position in positions[bisect_right(positions, start) : bisect_left(positions, end)]:
            if self._owner.available:
                (state,) = self._owner.allocate(1)
                self._pending.append((position, state))

        while not self._spare:
            self._forget(0)
        read = self._refs[-1].state if self._refs else self._owner.zero_state
        return StatePlan(read, (*self._pending, (end, self._spare[-1])))

    def leave_checkpoints(self, insert: Callable[[int], RadixNode]) -> None:
        """Give the pending checkpoints of a launched step to the tree.

        Args:
            insert: Inserts the tokens up to a position into the tree and returns the node at the
                end.
        """
        pending, self._pending = self._pending, []
        for position, state in pending:
            node = insert(position)
            if self._owner.has(node):
                self._owner.free([state])
            else:
                self._owner.keep(node, state)
            if position == pending[-1][0]:
                self._borrow(node)

    def written(self, plan: StatePlan) -> None:
        """Take over the last state of `plan`, whose step was launched."""
        position, state = plan.written[-1]
        self._spare.remove(state)
        self._refs.append(StateRef(position, state, None))

    @property
    def can_share(self) -> bool:
        """True if a state is available as a replacement for a shared state."""
        return self._owner.available > 0

    def share(self, node: RadixNode) -> None:
        """Give the last state to `node`, its end, and continue from the node's checkpoint. Check
        `can_share` first."""
        last = self._refs.pop()
        if self._owner.has(node):
            self._spare.append(last.state)
        else:
            self._spare += self._owner.allocate(1)
            self._owner.keep(node, last.state)
        self._borrow(node)

    def end(self, node: RadixNode | None) -> None:
        """Give all states back. `node` at the end of the last state keeps that state, unless the
        node has a checkpoint already."""
        if node is not None and not self._owner.has(node):
            self._owner.keep(node, self._refs.pop().state)
        while self._refs:
            self._forget(-1)
        self._owner.free([*self._spare, *(state for _, state in self._pending)])
        self._spare, self._pending = [], []

    def _borrow(self, node: RadixNode) -> None:
        """Continue from the node's checkpoint."""
        self._refs.append(StateRef(node.end, self._owner.begin_reading(node), node))

    def _forget(self, index: int) -> None:
        ref = self._refs.pop(index)
        if ref.node is None:
            self._spare.append(ref.state)
        else:
            self._owner.end_reading(ref.node)


class Checkpoints:
    """Recurrent states of all requests and of the tree's nodes. A node with a state is a
    checkpoint.

    Args:
        tree: Radix tree whose nodes keep states.
        pool: Payload of the states.
        every: Tokens between checkpoints of long prompts, at least `GAP`.
        emit: Receives an event per checkpoint.

    Attributes:
        zero_state: Row of the state before the first token; no request owns this state.
        alignment: Prompts have further checkpoints at multiples of this number, because tiers store
            whole blocks; 1 for no further checkpoints. A checkpoint costs one more call per layer,
            so only expensive prompts and continuations of a cached prefix have aligned checkpoints.
        is_expensive: Returns whether a tier stores a prompt with the given number of tokens at the
            first use.
        on_drop: Receives a node before its checkpoint is dropped.
    """

    def __init__(
        self, tree: RadixTree, pool: SlotAllocator, every: int, emit: Callable[[Any], None]
    ) -> None:
        self.pool = pool
        self.zero_state = pool.total
        self._every = max(every, GAP)
        self.alignment = 1
        self.is_expensive: Callable[[int], bool] = lambda num_tokens: False
        self.on_drop: Callable[[RadixNode], object] = lambda node: None
        self._tree = tree
        self._emit = emit
        self._readers: dict[RadixNode, int] = {}  # requests per node that continue from there
        self._oldest: list[tuple[Any, int, RadixNode]] = []
        self._numbers = itertools.count()

    @property
    def kept(self) -> int:
        """Number of checkpoints."""
        return self._tree.attached[self.pool]

    @property
    def available(self) -> int:
        """Number of states available to `allocate`: free states, and checkpoints without
        readers."""
        return self.pool.available + self.kept - len(self._readers)

    def has(self, node: RadixNode) -> bool:
        """Return whether the node is a checkpoint."""
        return self.pool in node.attached

    def deepest(self, node: RadixNode, end: int) -> RadixNode:
        """Return the deepest checkpoint with at most `end` tokens on the path to `node`, or the
        root."""
        while node.parent is not None and (self.pool not in node.attached or node.end > end):
            node = node.parent
        return node

    def needed(self, node: RadixNode, rewrites: bool) -> int:
        """Return the number of available states for a request to continue from a node.

        Args:
            node: A checkpoint or the root.
            rewrites: The request may rewrite its last tokens.
        """
        return _last_states(rewrites) + (self.has(node) and node not in self._readers)

    def positions(self, begin: int, wanted: Sequence[int], last: int) -> list[int]:
        """Return the positions of a request's checkpoints, ascending, at least `GAP` apart.

        Args:
            begin: Position of the start; all checkpoints are at least `GAP` later.
            wanted: Preferred positions.
            last: Last position. Positions of long prompts are added last.
        """
        preferred = [stop for stop in (*wanted, last) if begin + GAP <= stop <= last]
        if self.alignment > 1 and (
            max(begin, *wanted, 0) >= LEAST_ALIGNED or self.is_expensive(last)
        ):
            aligned = [self._align(stop) for stop in preferred]
            preferred += [stop for stop in aligned if max(begin + GAP, LEAST_ALIGNED) <= stop]
        stops: list[int] = []
        for stop in preferred:
            if all(abs(stop - other) >= GAP for other in stops):
                stops.append(stop)

        near = begin, *stops
        regular = range(begin - begin % self._every + self._every, last, self._every)
        stops += [stop for stop in regular if all(abs(stop - other) >= GAP for other in near)]
        return sorted(stops)

    def _align(self, stop: int) -> int:
        """Return the last multiple of `alignment` at `stop`, or at least `GAP` before `stop`."""
        return (
            stop if stop % self.alignment == 0 else (stop - GAP) // self.alignment * self.alignment
        )

    def allocate(self, count: int) -> list[int]:
        """Take `count` states (check `available` first). Evicts the least valuable checkpoints."""
        while self.pool.available < count:
            node = self._pop()
            self.on_drop(node)
            self.pool.free(self._tree.detach(node, self.pool))
            self._emit(CheckpointDropped(node.id))
        return self.pool.allocate(count).tolist()

    def free(self, states: list[int]) -> None:
        """Give states of a request back."""
        self.pool.free(np.array(states, np.int32))

    def keep(self, node: RadixNode, state: int) -> None:
        """Make the node a checkpoint. The tree becomes the owner of the state."""
        self._tree.attach(node, self.pool, np.array([state], np.int32))
        self._emit(CheckpointKept(node.id))
        self._queue(node)

    def begin_reading(self, node: RadixNode) -> int:
        """Protect the node's checkpoint until `end_reading`. Returns the state."""
        self._readers[node] = self._readers.get(node, 0) + 1
        return node.attached[self.pool].item()

    def end_reading(self, node: RadixNode) -> None:
        """Undo a `begin_reading`."""
        self._readers[node] -= 1
        if not self._readers[node]:
            del self._readers[node]

    def prune(self) -> None:
        """Remove dead nodes from the eviction queue. `_pop` removes dead nodes only during
        evictions."""
        if len(self._oldest) > 2 * self.kept:
            self._oldest = [entry for entry in self._oldest if self._is_current(entry[-1])]
            heapq.heapify(self._oldest)

    def _pop(self) -> RadixNode:
        """Return the least valuable checkpoint without readers. Among the `INSPECTED` least
        valuable checkpoints, a node without locks goes first."""
        locked: list[RadixNode] = []
        read: list[RadixNode] = []
        victim: RadixNode | None = None
        while self._oldest and victim is None:
            if locked and len(locked + read) >= INSPECTED:
                break
            key, _, node = heapq.heappop(self._oldest)
            if not self._is_current(node):
                continue
            if key != self._eviction_key(node):
                self._queue(node)
            elif node in self._readers:
                read.append(node)
            elif node.locks:
                locked.append(node)
            else:
                victim = node

        if victim is None:
            victim = locked.pop(0)
        for node in locked + read:
            self._queue(node)
        return victim

    def _is_current(self, node: RadixNode) -> bool:
        return node.alive and self.pool in node.attached

    def _queue(self, node: RadixNode) -> None:
        heapq.heappush(self._oldest, (self._eviction_key(node), next(self._numbers), node))

    def _eviction_key(self, node: RadixNode) -> Any:
        """Order of eviction: policy of the tree, then nodes with a single child first."""
        return self._tree.eviction_key(node), len(node.children) != 1


def _last_states(rewrites: bool) -> int:
    return LAST_STATES_REWRITTEN if rewrites else LAST_STATES
