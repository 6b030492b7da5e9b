"""Token bitmasks, exact for any state of an automaton. Knows no tokenizer library and no request.

A state is walked through the vocabulary's prefix tree, a level at a time. Where little is allowed,
the walk follows the few live nodes. Where much is allowed, as inside a string, most of the result
depends only on the shape of the state's `Neighbourhood`: that part is walked once over the whole
tree and shared by all states, of all automata, whose neighbourhood has the same shape. What is left
are the few nodes at which a token leaves the neighbourhood, such as those with a closing quote.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable
from functools import cached_property
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from .automaton.automaton import Automaton
from .vocabulary import Index, PrefixTree, Vocabulary

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]
Value = TypeVar("Value")

WIDE_WALK = 10_000
"""Nodes below the allowed first bytes from which shared parts are used. Measured."""

BROAD_STATE = 16
"""Outgoing bytes a state needs to be in a neighbourhood; others are cheap to walk, rarely alike."""

NEIGHBOURHOOD_DEPTH = 16  # bytes from its first state
NEIGHBOURHOOD_STATES = 200  # at most. Both measured.

FEW_NODES = 12
"""At most this many nodes are followed without numpy. Measured."""

FEW_TOKENS = 512
"""Fewer bits than these are set one by one. Measured."""

MASK_BYTES = 128 << 20  # memory for the masks of one vocabulary
SHARED_BYTES = 32 << 20  # and for its shared parts


class TokenMasks:
    """The masks of one automaton for one vocabulary, in an LRU cache that its automata share.

    Masks are computed on demand, by any thread.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self.vocabulary = vocabulary
        self._key = next(_keys)
        caches = _caches.setdefault(vocabulary, _Caches(Cache(MASK_BYTES), Cache(SHARED_BYTES)))
        self._masks, self._shared = caches

    def mask(self, state: int) -> Words:
        """The tokens allowed in `state`: uint32[ceil(size / 32)], read-only.

        Bit i % 32 of word i // 32 is token i. No special tokens; none at all in the dead state.
        """
        words = self._masks.get((self._key, state))
        if words is None:
            words = self._compute(state).view(np.uint32)
            words.flags.writeable = False
            self._masks.put((self._key, state), words, words.nbytes)
        return words

    def _compute(self, state: int) -> Bytes:
        automaton, tree = self.automaton, self.vocabulary.tree
        first = automaton.classes.take(tree.byte[1 : tree.first_child[1]])
        targets = automaton.table[state].take(first)
        alive = targets.nonzero()[0]
        if tree.nodes_below.take(alive).sum() < WIDE_WALK:
            return self._follow(_no_tokens(tree), alive + 1, targets.take(alive))

        near = self._neighbourhoods.find(state)
        if near is None:
            symbols = automaton.classes.astype(np.intp).take(tree.symbols)
            rows = _walk_all(tree, self._flat, state * automaton.table.shape[1], symbols)
            return _tokens_alive(rows, tree)

        shared = self._shared.get(near.shape)
        if shared is None:
            shared = walk_neighbourhood(tree, near)
            self._shared.put(near.shape, shared, shared.nbytes + len(near.shape))
        sources = near.states.take(shared.exit_rows)
        targets = automaton.table[sources, automaton.classes.take(tree.byte.take(shared.exits))]
        return self._follow(shared.allowed.copy(), shared.exits, targets)

    def _follow(self, allowed: Bytes, nodes: Index, states: NDArray[Any]) -> Bytes:
        """Add to `allowed` the tokens at `nodes`, alive in `states`, and at live nodes below."""
        tree, table, classes = self.vocabulary.tree, self.automaton.table, self.automaton.classes
        visited: list[Index] = []
        while len(nodes):
            if len(nodes) <= FEW_NODES:
                nodes, states = self._follow_few(nodes.tolist(), states.tolist(), visited)
                continue
            visited.append(nodes)
            first = tree.first_child.take(nodes)
            counts = tree.first_child.take(nodes + 1) - first
            children = _ranges(first, counts)
            states = table[states.repeat(counts), classes.take(tree.byte.take(children))]
            alive = states.nonzero()[0]
            nodes, states = children.take(alive), states.take(alive)
        return _add_tokens(allowed, np.concatenate(visited), tree) if visited else allowed

    def _follow_few(
        self, nodes: list[int], states: list[int], visited: list[Index]
    ) -> tuple[Index, NDArray[np.intp]]:
        """As `_follow` without numpy, whose calls cost more while nodes are few; adds to `visited`.

        Returns the live nodes, with their states, of the first level that has too many.
        """
        first_child, data = self.vocabulary.tree.first_child_view, self.vocabulary.tree.data
        table, classes = self._table_view, self._class_bytes
        seen: list[int] = []
        while nodes and len(nodes) <= FEW_NODES:
            seen += nodes
            below = [
                (child, target)
                for node, state in zip(nodes, states, strict=True)
                for child in range(first_child[node], first_child[node + 1])
                if (target := table[state, classes[data[child]]])
            ]
            nodes, states = [child for child, _ in below], [target for _, target in below]
        visited.append(np.array(seen, np.intp))
        return np.array(nodes, np.intp), np.array(states, np.intp)

    @cached_property
    def _table_view(self) -> memoryview:
        return self.automaton.table.data

    @cached_property
    def _class_bytes(self) -> bytes:
        return self.automaton.classes.tobytes()

    @cached_property
    def _neighbourhoods(self) -> Neighbourhoods:
        return Neighbourhoods(self.automaton)

    @cached_property
    def _flat(self) -> Index:
        """The table as `_walk_all` takes it."""
        return (self.automaton.table.astype(np.intp) * self.automaton.table.shape[1]).ravel()


class Neighbourhood(NamedTuple):
    """A state and the broad states around it, nearest first."""

    states: Index  # int[K], the automaton's numbers
    # uint8[K, 256], the transitions: 0 to the dead state, i to states[i - 1], K + 1 to the outside.
    # All that `walk_neighbourhood` uses.
    shape: bytes


class SharedPart(NamedTuple):
    """What a neighbourhood decides by its shape alone."""

    allowed: Bytes  # packed bits of the tokens that stay inside
    exits: Index  # intp[E], nodes whose last byte leads out of it
    exit_rows: Bytes  # uint8[E], the place in the neighbourhood from which it does

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


class Neighbourhoods:
    """Finds the neighbourhoods of an automaton's states."""

    def __init__(self, automaton: Automaton) -> None:
        table, classes = automaton.table, automaton.classes
        self._table, self._classes = table, classes
        # Ordered by their smallest byte, however the automaton numbers them.
        self._order = np.unique(classes, return_index=True)[1].argsort()
        sizes = np.bincount(classes, minlength=table.shape[1]).astype(np.float32)
        self._broad = (table != 0).astype(np.float32) @ sizes >= BROAD_STATE
        self._successors: dict[int, list[int]] = {}

    def find(self, state: int) -> Neighbourhood | None:
        """The neighbourhood of `state`, breadth first in byte order; None if it is too large."""
        found, level = {state: None}, [state]
        for _ in range(NEIGHBOURHOOD_DEPTH):
            after = dict.fromkeys(t for s in level for t in self._broad_after(s))
            level = [t for t in after if t not in found]
            found |= dict.fromkeys(level)
            if not level:
                break
            if len(found) > NEIGHBOURHOOD_STATES:
                return None
        states = np.fromiter(found, np.intp, len(found))
        place = np.full(len(self._table), len(states) + 1, np.uint8)
        place[0] = 0
        place[states] = np.arange(1, len(states) + 1)
        shape = place.take(self._table[states]).take(self._classes, axis=1)
        return Neighbourhood(states, shape.tobytes())

    def _broad_after(self, state: int) -> list[int]:
        """The broad states one byte after `state`, in the order of the bytes."""
        successors = self._successors.get(state)
        if successors is None:
            targets = self._table[state].take(self._order)
            successors = list(dict.fromkeys(targets[self._broad.take(targets)].tolist()))
            self._successors[state] = successors
        return successors


def walk_neighbourhood(tree: PrefixTree, near: Neighbourhood) -> SharedPart:
    """Walk the whole tree as far as it stays in the neighbourhood."""
    outside = len(near.states) + 1
    table = np.zeros((outside + 1, 256), np.intp)
    table[1:outside] = np.frombuffer(near.shape, np.uint8).reshape(-1, 256)
    rows = _walk_all(tree, (table * 256).ravel(), 256, tree.symbols)
    exits = (rows == outside * 256).nonzero()[0]
    exit_rows = rows.take(tree.parent.take(exits)) // 256 - 1
    rows[exits] = 0
    return SharedPart(_tokens_alive(rows, tree), exits, exit_rows.astype(np.uint8))


class Cache(Generic[Value]):
    """LRU cache whose sizes, as given to `put`, add up to at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._held: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: Value, nbytes: int) -> None:
        with self._lock:
            self.used += nbytes - self._held.pop(key, (value, 0))[1]
            self._held[key] = value, nbytes
            while self.used > self.limit:
                self.used -= self._held.popitem(last=False)[1][1]


class _Caches(NamedTuple):
    masks: Cache[Words]
    shared: Cache[SharedPart]


_caches: WeakKeyDictionary[Vocabulary, _Caches] = WeakKeyDictionary()
_keys = itertools.count()


def _walk_all(tree: PrefixTree, flat: Index, start: int, symbols: Index) -> Index:
    """intp[N], each node's row: `start` at the root, then flat[row + symbol]; 0 is dead."""
    rows = np.empty(len(tree), np.intp)
    rows[0] = start
    for first, last in itertools.pairwise(tree.depth_start[1:]):
        at = rows.take(tree.parent[first:last])
        at += symbols[first:last]
        # "clip" is only the fastest way to take into an array: nothing is out of bounds.
        flat.take(at, out=rows[first:last], mode="clip")
    return rows


def _ranges(first: Index, counts: Index) -> Index:
    """first[0] .. first[0] + counts[0], first[1] .., joined."""
    ends = counts.cumsum()
    return (first - ends + counts).repeat(counts) + np.arange(ends[-1])


def _no_tokens(tree: PrefixTree) -> Bytes:
    return np.zeros(-(-len(tree.node_of) // 32) * 4, np.uint8)


def _tokens_alive(rows: Index, tree: PrefixTree) -> Bytes:
    """Packed bits of the tokens at nodes whose row is not 0. Sets the root's row to 0."""
    rows[0] = 0
    bits = np.packbits(rows.take(tree.node_of) != 0, bitorder="little")
    allowed = _no_tokens(tree)
    allowed[: len(bits)] = bits
    return allowed


def _add_tokens(allowed: Bytes, nodes: Index, tree: PrefixTree) -> Bytes:
    """Set the bits of the tokens at `nodes` in `allowed`, and return it."""
    first = tree.first_token.take(nodes)
    tokens = tree.tokens.take(_ranges(first, tree.first_token.take(nodes + 1) - first))
    if len(tokens) < FEW_TOKENS:
        np.bitwise_or.at(allowed, tokens >> 3, _BIT.take(tokens & 7))
    else:
        chosen = np.zeros(len(allowed) * 8, np.bool_)
        chosen[tokens] = True
        allowed |= np.packbits(chosen, bitorder="little")
    return allowed


_BIT = np.left_shift(1, np.arange(8)).astype(np.uint8)
