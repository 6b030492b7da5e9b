"""Exact token bitmasks for the states of an automaton. Knows no tokenizer library and no request.

A mask is the result of a walk through the vocabulary's prefix tree, level by level. For a state
with few allowed tokens, the walk visits only live nodes. For a permissive state, as inside a
string, most of the mask depends only on the shape of the state's `Neighbourhood`. A single walk
over the whole tree computes this part for all states with the same shape, across automata. The
remaining nodes leave the neighbourhood, such as a closing quote, and are walked per state.
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
"""Minimum number of nodes below the allowed first bytes for the use of shared parts. Measured."""

BROAD_STATE = 16
"""Minimum number of outgoing bytes for a state in a neighbourhood. Narrower states are cheap to
walk and rarely alike."""

NEIGHBOURHOOD_DEPTH = 16  # in bytes from the first state
NEIGHBOURHOOD_STATES = 200  # upper limit; both values are measured

FEW_NODES = 12
"""Up to this number of nodes the walk avoids numpy. Measured."""

FEW_TOKENS = 512
"""Below this number bits are set individually. Measured."""

SPARSE = 16
"""Minimum ratio of the words of a mask to its nonzero words for the sparse form, which takes a
fraction of the memory, and a few microseconds until the mask is among the recent masks again."""

_OBJECTS = 400  # bytes of the Python objects of a sparse mask

RECENT_BYTES = 16 << 20  # memory limit for the recent masks of a vocabulary
MASK_BYTES = 64 << 20  # memory limit for its masks in compact form
SHARED_BYTES = 32 << 20  # memory limit for its shared parts


class TokenMasks:
    """Token masks of an automaton for a vocabulary, in an LRU cache shared by all automata of the
    vocabulary.

    Masks are computed on demand, by any thread.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self.vocabulary = vocabulary
        self._key = next(_keys)
        caches = _caches.setdefault(
            vocabulary,
            _VocabularyCaches(
                recent=LruCache(RECENT_BYTES),
                masks=LruCache(MASK_BYTES),
                shared=LruCache(SHARED_BYTES),
            ),
        )
        self._recent, self._masks, self._shared = caches

    def mask(self, state: int) -> Words:
        """Return the allowed tokens in `state`.

        Args:
            state: number of an automaton's state; the dead state allows no token.

        Returns:
            uint32[ceil(size / 32)], read-only: bit i % 32 of word i // 32 is token i. Special
            tokens are never set.
        """
        key = (self._key, state)
        words = self._recent.get(key)
        if words is None:
            words = self._find(key)
            self._recent.put(key, words, words.nbytes)
        return words

    def _find(self, key: tuple[int, int]) -> Words:
        stored = self._masks.get(key)
        if stored is not None:
            return stored.words() if isinstance(stored, SparseMask) else stored
        words = self._compute(key[1]).view(np.uint32)
        words.flags.writeable = False
        stored = _compact(words)
        self._masks.put(key, stored, stored.nbytes)
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
        """Set the bits of tokens at `nodes`, which are alive in `states`, and at live descendants
        in `allowed`."""
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
        """Walk like `_follow` without numpy, whose call overhead dominates for few nodes; append to
        `visited`.

        Returns the live nodes, with their states, of the first level with more than FEW_NODES
        nodes.
        """
        first_child, data = self.vocabulary.tree.first_child_view, self.vocabulary.tree.data
        table, classes = self._table_view, self._class_bytes
        followed: list[int] = []

        while nodes and len(nodes) <= FEW_NODES:
            followed += nodes
            below = [
                (child, target)
                for node, state in zip(nodes, states, strict=True)
                for child in range(first_child[node], first_child[node + 1])
                if (target := table[state, classes[data[child]]])
            ]
            nodes, states = [child for child, _ in below], [target for _, target in below]
        visited.append(np.array(followed, np.intp))
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
        """Transition table as row offsets, for `_walk_all`."""
        return (self.automaton.table.astype(np.intp) * self.automaton.table.shape[1]).ravel()


class SparseMask(NamedTuple):
    """A mask with few tokens, as its nonzero words."""

    places: Index
    values: Words
    size: int  # number of words of the mask

    @property
    def nbytes(self) -> int:
        return self.places.nbytes + self.values.nbytes + _OBJECTS

    def words(self) -> Words:
        """Return the mask as a new read-only array."""
        words = np.zeros(self.size, np.uint32)
        words[self.places] = self.values
        words.flags.writeable = False
        return words


def _compact(words: Words) -> Words | SparseMask:
    places = words.nonzero()[0]
    if SPARSE * len(places) > len(words):
        return words
    return SparseMask(places, words.take(places), len(words))


class Neighbourhood(NamedTuple):
    """A state and the surrounding broad states, nearest first."""

    states: Index  # intp[K], state numbers of the automaton
    # uint8[K, 256], transitions: 0 is dead, i is states[i - 1], K + 1 is outside. The only input of
    # `walk_neighbourhood`.
    shape: bytes


class SharedPart(NamedTuple):
    """The part of a mask that depends only on the shape of a neighbourhood."""

    allowed: Bytes  # packed bits of tokens that stay inside
    exits: Index  # intp[E], nodes whose last byte leads outside
    exit_rows: Bytes  # uint8[E], index in the neighbourhood of the last state inside

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


class Neighbourhoods:
    """Computes the neighbourhoods of an automaton's states."""

    def __init__(self, automaton: Automaton) -> None:
        table, classes = automaton.table, automaton.classes
        self._table, self._classes = table, classes
        # Order of the classes by smallest byte, independent of the automaton's class numbers.
        self._order = np.unique(classes, return_index=True)[1].argsort()
        sizes = np.bincount(classes, minlength=table.shape[1]).astype(np.float32)
        self._broad = (table != 0).astype(np.float32) @ sizes >= BROAD_STATE
        self._successors: dict[int, list[int]] = {}

    def find(self, state: int) -> Neighbourhood | None:
        """Return the neighbourhood of `state`, breadth first in byte order; None if too large.

        Args:
            state: number of an automaton's state.
        """
        members, level = {state: None}, [state]
        for _ in range(NEIGHBOURHOOD_DEPTH):
            after = dict.fromkeys(t for s in level for t in self._broad_after(s))
            level = [t for t in after if t not in members]
            members |= dict.fromkeys(level)
            if not level:
                break
            if len(members) > NEIGHBOURHOOD_STATES:
                return None

        states = np.fromiter(members, np.intp, len(members))
        index_of = np.full(len(self._table), len(states) + 1, np.uint8)
        index_of[0] = 0
        index_of[states] = np.arange(1, len(states) + 1)
        shape = index_of.take(self._table[states]).take(self._classes, axis=1)
        return Neighbourhood(states, shape.tobytes())

    def _broad_after(self, state: int) -> list[int]:
        """Return the broad successors of `state` in byte order."""
        successors = self._successors.get(state)
        if successors is None:
            targets = self._table[state].take(self._order)
            successors = list(dict.fromkeys(targets[self._broad.take(targets)].tolist()))
            self._successors[state] = successors
        return successors


def walk_neighbourhood(tree: PrefixTree, near: Neighbourhood) -> SharedPart:
    """Walk the whole prefix tree within the neighbourhood.

    Args:
        tree: prefix tree of the vocabulary.
        near: neighbourhood, of which only `shape` is used.
    """
    outside = len(near.states) + 1
    table = np.zeros((outside + 1, 256), np.intp)
    table[1:outside] = np.frombuffer(near.shape, np.uint8).reshape(-1, 256)
    rows = _walk_all(tree, (table * 256).ravel(), 256, tree.symbols)
    exits = (rows == outside * 256).nonzero()[0]
    exit_rows = rows.take(tree.parent.take(exits)) // 256 - 1
    rows[exits] = 0
    return SharedPart(_tokens_alive(rows, tree), exits, exit_rows.astype(np.uint8))


class LruCache(Generic[Value]):
    """LRU cache with a limit on the total size of the values.

    Args:
        limit: maximum sum of the sizes passed to `put`, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, nbytes: int) -> None:
        with self._lock:
            self.used += nbytes - self._entries.pop(key, (value, 0))[1]
            self._entries[key] = value, nbytes
            while self.used > self.limit:
                self.used -= self._entries.popitem(last=False)[1][1]


class _VocabularyCaches(NamedTuple):
    recent: LruCache[Words]  # for use without a copy
    masks: LruCache[Words | SparseMask]
    shared: LruCache[SharedPart]


_caches: WeakKeyDictionary[Vocabulary, _VocabularyCaches] = WeakKeyDictionary()
_keys = itertools.count()


def _walk_all(tree: PrefixTree, flat: Index, start: int, symbols: Index) -> Index:
    """Return intp[N], the row of each node: `start` at the root, then flat[row + symbol]; 0 is
    dead."""
    rows = np.empty(len(tree), np.intp)
    rows[0] = start
    for first, last in itertools.pairwise(tree.depth_start[1:]):
        at = rows.take(tree.parent[first:last])
        at += symbols[first:last]
        # mode="clip" is the fastest way to take into an array; no index is out of bounds.
        flat.take(at, out=rows[first:last], mode="clip")
    return rows


def _ranges(first: Index, counts: Index) -> Index:
    """Concatenate the ranges first[i] .. first[i] + counts[i]."""
    ends = counts.cumsum()
    return (first - ends + counts).repeat(counts) + np.arange(ends[-1])


def _no_tokens(tree: PrefixTree) -> Bytes:
    return np.zeros(-(-len(tree.node_of) // 32) * 4, np.uint8)


def _tokens_alive(rows: Index, tree: PrefixTree) -> Bytes:
    """Return packed bits of the tokens at nodes with a non-zero row. Sets the root's row to 0."""
    rows[0] = 0
    bits = np.packbits(rows.take(tree.node_of) != 0, bitorder="little")
    allowed = _no_tokens(tree)
    allowed[: len(bits)] = bits
    return allowed


def _add_tokens(allowed: Bytes, nodes: Index, tree: PrefixTree) -> Bytes:
    """Set the bits of the tokens at `nodes` in `allowed` and return `allowed`."""
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
