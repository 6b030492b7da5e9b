"""Who has which state of a model's recurrent layers, and which the radix tree keeps as checkpoints.
Knows numbers only: the tensors are in `state_pool.py`.

What a recurrent layer knows of a text is a state of fixed size after each token, which the next
token replaces: unlike keys and values it cannot be cut back. So a request keeps its last states, to
go back to one where its last tokens are rewritten; and the tree keeps some, where other requests
may go on: at most as far as to the deepest of them is a cached prefix worth anything. A step reads
one state of a request and writes others, one at its end and one at each checkpoint on the way, so
that a step that fails has spoilt nothing.

At every moment: free + kept (by the tree) + in flight (owned by requests) = total.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .radix import NO_STATE, Node, RadixTree
from .slot_allocator import SlotAllocator

LAST_STATES = 2
"""That a request has: what the running step reads and what it writes."""

LAST_STATES_REWRITTEN = 3
"""Of a request with a grammar, whose jumps rewrite a token or two."""

FEWEST_STATES = LAST_STATES_REWRITTEN + 1
"""For one request alone, which reads a checkpoint beside its own."""

LOOKED_AT = 64
"""Of the least used checkpoints, how many are looked at for one whose node no one uses: with many
requests running there may be none."""

GAP = 16
"""Tokens between checkpoints, at least: fewer are computed again as fast as a checkpoint is read
and written."""


class StatePath(NamedTuple):
    """What a step does with a request's states: from the one that it reads to those that it leaves
    at these positions, ascending."""

    read: int
    written: tuple[tuple[int, int], ...]  # (position, state)


class Held(NamedTuple):
    """A state that a request may go on from."""

    position: int  # tokens that it knows
    state: int
    node: Node | None  # whose checkpoint it is; None: the request's own


class RequestStates:
    """The last states of a running request, the oldest first; each step adds one."""

    def __init__(self, owner: Checkpoints, node: Node, count: int, stops: list[int]) -> None:
        """Go on from `node`, a checkpoint or the root, with `count` states of its own."""
        self._owner = owner
        self._held: list[Held] = []
        if node.state != NO_STATE:
            self._lend(node)
        self._spare = owner.take(count)  # its own, of no position
        self._stops = stops  # where it leaves checkpoints, ascending
        self._cuts: list[tuple[int, int]] = []  # those of the step that was planned last

    def back_to(self, position: int) -> int:
        """Forget the states after `position`. Returns the position of the last one that is left: 0
        where none is."""
        while self._held and self._held[-1].position > position:
            self._forget(-1)
        return self._held[-1].position if self._held else 0

    def plan(self, start: int, end: int) -> StatePath:
        """A step that computes the tokens start .. end. The oldest state gives way where none is
        spare; a checkpoint on the way is left out where no state is available."""
        if self._cuts:  # of a step that failed
            self._owner.release([state for _, state in self._cuts])
            self._cuts = []
        first, last = bisect_right(self._stops, start), bisect_left(self._stops, end)
        for stop in self._stops[first:last]:
            if self._owner.available:
                (state,) = self._owner.take(1)
                self._cuts.append((stop, state))
        while not self._spare:
            self._forget(0)
        read = self._held[-1].state if self._held else self._owner.nothing
        return StatePath(read, (*self._cuts, (end, self._spare[-1])))

    def leave_checkpoints(self, insert: Callable[[int], Node]) -> None:
        """The step was launched: its checkpoints on the way become the tree's. insert: puts the
        tokens up to a position into the tree, and gives the node at which they end."""
        cuts, self._cuts = self._cuts, []
        for position, state in cuts:
            node = insert(position)
            if node.state == NO_STATE:
                self._owner.keep(node, state)
            else:
                self._owner.release([state])
            if position == cuts[-1][0]:
                self._lend(node)

    def written(self, path: StatePath) -> None:
        """The step was launched that leaves the last state of `path`."""
        position, state = path.written[-1]
        self._spare.remove(state)
        self._held.append(Held(position, state, None))

    @property
    def can_share(self) -> bool:
        """Whether there is a state to take in the place of one that is given to the tree."""
        return self._owner.available > 0

    def share(self, node: Node) -> None:
        """Make the last state the checkpoint of `node`, which ends there, and go on from it; where
        it has one already, from that. Only if it `can_share`."""
        last = self._held.pop()
        if node.state == NO_STATE:
            self._spare += self._owner.take(1)
            self._owner.keep(node, last.state)
        else:
            self._spare.append(last.state)
        self._lend(node)

    def end(self, node: Node | None) -> None:
        """Give all back; the last state to `node`, which ends there, if it has none."""
        if node is not None and node.state == NO_STATE:
            self._owner.keep(node, self._held.pop().state)
        while self._held:
            self._forget(-1)
        self._owner.release([*self._spare, *(state for _, state in self._cuts)])
        self._spare, self._cuts = [], []

    def _lend(self, node: Node) -> None:
        """Go on from the node's checkpoint."""
        self._owner.begin_reading(node)
        self._held.append(Held(node.end, node.state, node))

    def _forget(self, index: int) -> None:
        held = self._held.pop(index)
        if held.node is None:
            self._spare.append(held.state)
        else:
            self._owner.end_reading(held.node)


class Checkpoints:
    """The pool's states and the tree's nodes that have one.

    every: tokens between checkpoints of long prompts; at least `GAP`.
    """

    def __init__(self, tree: RadixTree, total: int, every: int) -> None:
        self.total = self.nothing = total  # `nothing`: the state before the first token, of no one
        self.kept = 0  # checkpoints
        self._every = max(every, GAP)
        self._tree = tree
        tree.on_remove = self._removed
        self._slots = SlotAllocator(total)
        self._readers: dict[Node, int] = {}  # requests that go on from the node's checkpoint
        self._oldest: list[tuple[Any, int, Node]] = []
        self._numbers = itertools.count()

    @property
    def free(self) -> int:
        return self._slots.free

    @property
    def available(self) -> int:
        """How many may be taken: all but those that requests own or read."""
        return self.free + self.kept - len(self._readers)

    def needed(self, node: Node, rewrites: bool) -> int:
        """How many must be `available` for a request to go on from `node`, a checkpoint or the
        root. rewrites: whether its tokens may be rewritten."""
        read = node.state != NO_STATE and node not in self._readers
        return _last_states(rewrites) + read

    def start(
        self, node: Node, rewrites: bool, stops: Iterable[int], last_stop: int
    ) -> RequestStates:
        """The states of a request that goes on from `node`; they are there, see `needed`.

        stops: where checkpoints are wanted, beside those at `last_stop` and at every so many
        tokens.
        """
        count = _last_states(rewrites)
        return RequestStates(self, node, count, self._stops(node.end, stops, last_stop))

    def take(self, count: int) -> list[int]:
        """So many states, of which `available` has told that they are there; checkpoints of least
        value give way."""
        while self.free < count:
            self._slots.release(np.array([self._tree.drop_state(self._pop())], np.int32))
            self.kept -= 1
        return self._slots.allocate(count).tolist()

    def release(self, states: list[int]) -> None:
        self._slots.release(np.array(states, np.int32))

    def keep(self, node: Node, state: int) -> None:
        """Make the node a checkpoint; the state is the tree's from now on."""
        self._tree.keep_state(node, state)
        self.kept += 1
        self._queue(node)

    def begin_reading(self, node: Node) -> None:
        """Keep the node's checkpoint until `end_reading`."""
        self._readers[node] = self._readers.get(node, 0) + 1

    def end_reading(self, node: Node) -> None:
        self._readers[node] -= 1
        if not self._readers[node]:
            del self._readers[node]

    def _stops(self, begin: int, wanted: Iterable[int], last: int) -> list[int]:
        """Ascending, each at least `GAP` behind the one before and behind `begin`: those wanted,
        the last, and the others, in this order."""
        every = range(begin - begin % self._every + self._every, last, self._every)
        first = [stop for stop in (*wanted, last) if begin + GAP <= stop <= last]
        stops: list[int] = []
        for stop in first:
            if all(abs(stop - other) >= GAP for other in stops):
                stops.append(stop)
        near = begin, *stops
        further = [stop for stop in every if all(abs(stop - other) >= GAP for other in near)]
        return sorted(stops + further)

    def _pop(self) -> Node:
        """The checkpoint to drop: no one goes on from it, and, if there is such a one among the
        least used, no one uses its node."""
        used: list[Node] = []
        read: list[Node] = []
        found: Node | None = None
        while self._oldest and found is None and not (used and len(used + read) >= LOOKED_AT):
            value, _, node = heapq.heappop(self._oldest)
            if node.state == NO_STATE:
                continue
            if value != self._value(node):
                self._queue(node)
            elif node in self._readers:
                read.append(node)
            elif node.locks:
                used.append(node)
            else:
                found = node
        if found is None:
            found = used.pop(0)
        for node in used + read:
            self._queue(node)
        return found

    def _queue(self, node: Node) -> None:
        heapq.heappush(self._oldest, (self._value(node), next(self._numbers), node))

    def _value(self, node: Node) -> Any:
        """What is worth least has the smallest: of nodes used together those first that only lie on
        the way to another."""
        return self._tree.value(node), len(node.children) != 1

    def _removed(self, node: Node) -> None:
        if node.state != NO_STATE:
            self.release([node.state])
            self.kept -= 1
            node.state = NO_STATE
            # While states are free nothing is popped, and nodes that are gone would stay.
            if len(self._oldest) > 2 * self.kept:
                self._oldest = [each for each in self._oldest if each[-1].state != NO_STATE]
                heapq.heapify(self._oldest)


def _last_states(rewrites: bool) -> int:
    return LAST_STATES_REWRITTEN if rewrites else LAST_STATES
