"""A minimal DFA over UTF-8 bytes, built from a syntax tree and shared by requests with equal
grammars.

Knows no tokens and no requests: the caller keeps the state number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as tensors

from ...errors import GrammarError
from ..syntax import Rules
from .build_limits import Budget, BuildLimits, Recursive, TooLarge
from .determinise import determinise
from .dfa import START, Dfa
from .expand import expand
from .minimise import minimise
from .nfa import Nfa
from .sizes import Sizes

__all__ = ["DEAD", "FAR", "START", "Automaton", "BuildLimits", "Recursive", "TooLarge", "build"]

DEAD = 0
FAR = int(np.iinfo(np.int32).max)
"""Distance of the dead state."""

_ARRAYS = {
    "table": np.int32,
    "classes": np.uint8,
    "final": np.bool_,
    "distance": np.int32,
    "pairs": np.int32,
}


Sources = dict[tuple[int, int], tuple[int, ...]]
"""(state, next state) -> indices of the labels of the edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """Minimal DFA: state 0 is dead, state 1 is START.

    Every other state reaches a final state, and no two states are equivalent. All arrays are
    read-only.
    """

    table: NDArray[np.int32]  # [states, classes]: next state
    classes: NDArray[np.uint8]  # [256]: equivalence class of each byte
    final: NDArray[np.bool_]  # [states]
    distance: NDArray[np.int32]  # [states]: bytes to the nearest final state; FAR if dead
    labels: tuple[str, ...]  # names of the parts of the pattern or schema
    label_sets: tuple[tuple[int, ...], ...]
    pairs: NDArray[np.int32]  # [n, 3], sorted: state, next state, index into label_sets
    _flat: memoryview = field(init=False, repr=False)
    _translation: bytes = field(init=False, repr=False)
    _sources: Sources | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        for name, kind in _ARRAYS.items():
            array: NDArray[Any] = np.ascontiguousarray(getattr(self, name), kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "_flat", self.table.reshape(-1).data)
        object.__setattr__(self, "_translation", self.classes.tobytes())

    @property
    def states(self) -> int:
        """Number of states, including the dead state."""
        return len(self.table)

    @property
    def sources(self) -> Sources:
        """Labels of each labelled (state, next state) pair, computed at first use."""
        sources = self._sources
        if sources is None:
            sources = {(state, to): self.label_sets[i] for state, to, i in self.pairs.tolist()}
            object.__setattr__(self, "_sources", sources)
        return sources

    def step(self, state: int, data: bytes) -> int:
        """Return the state after `data`, or 0 (dead) if no text continues with `data`.

        Args:
            state: state number.
            data: bytes to follow.
        """
        flat, width = self._flat, self.table.shape[1]
        for kind in data.translate(self._translation):
            state = flat[state * width + kind]
            if not state:
                break
        return state

    def accepts(self, data: bytes) -> bool:
        """Return True if `data` is a complete text of the automaton.

        Args:
            data: bytes of the whole text.
        """
        return bool(self.final[self.step(START, data)])

    def next_bytes(self, state: int) -> bytes:
        """Return the bytes with a transition from `state` to a live state, ascending.

        Args:
            state: state number.
        """
        return np.flatnonzero(self.table[state][self.classes]).astype(np.uint8).tobytes()

    def completion(self, state: int) -> bytes:
        """Return a shortest path from `state` to a final state, the first in byte order.

        Args:
            state: state number.

        Raises:
            ValueError: `state` is dead.
        """
        if state == DEAD:
            raise ValueError("no text leads on from the dead state")
        result = bytearray()
        while not self.final[state]:
            nearer = self.distance[self.table[state]] == self.distance[state] - 1
            byte = int(nearer[self.classes].argmax())
            result.append(byte)
            state = int(self.table[state, self.classes[byte]])
        return bytes(result)

    def longest(self, most: int) -> int:
        """Return the length of the longest text in bytes, at most `most`.

        Args:
            most: result for longer or unbounded texts.
        """
        states = np.array([START])
        for length in range(most):
            states = np.unique(self.table[states])
            states = states[states != DEAD]
            if not len(states):
                return length
        return most

    def to_bytes(self) -> bytes:
        """Serialize as safetensors.

        numpy's file format is unsuitable: reading a header runs Python's parser, which fails
        occasionally when other threads parse at the same time (python/cpython#106905).
        """
        names = json.dumps([self.labels, self.label_sets]).encode()
        parts = {name: getattr(self, name) for name in _ARRAYS}
        parts["names"] = np.frombuffer(names, np.uint8)
        return tensors.save({name: np.ascontiguousarray(part) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Automaton:
        """Return the automaton from the output of `to_bytes`.

        Args:
            data: output of `to_bytes`.
        """
        parts = tensors.load(data)
        labels, label_sets = json.loads(parts.pop("names").tobytes())
        return cls(labels=tuple(labels), label_sets=tuple(map(tuple, label_sets)), **parts)


def build(rules: Rules, limits: BuildLimits | None = None) -> Automaton:
    """Build the minimal automaton of the texts that `rules` describe.

    Args:
        rules: syntax tree with rules.
        limits: bounds of the build; None for `BuildLimits()`.

    Raises:
        Recursive: a rule is recursive.
        TooLarge: the build exceeds `limits`.
        GrammarError: no text fits, a rule is undefined, or a text is not valid UTF-8.
    """
    budget = Budget(limits or BuildLimits())
    sizes = Sizes(rules, budget)
    budget.check("positions", sizes.needed, "byte positions")
    nfa = Nfa(budget)
    start = expand(rules, nfa, budget)
    if not start:
        hint = "remove empty choices and contradictory parts"
        raise GrammarError("no text matches the grammar", hint)
    dfa = minimise(determinise(nfa, start, budget), nfa.labels, budget)
    budget.check("states", dfa.size, "states")
    return _packed(dfa, tuple(nfa.labels.names), tuple(nfa.labels.sets))


def _packed(
    dfa: Dfa, labels: tuple[str, ...], label_sets: tuple[tuple[int, ...], ...]
) -> Automaton:
    table, classes = _table(dfa)
    sources = np.repeat(np.arange(dfa.size), np.diff(dfa.offsets))
    triples = np.stack([sources, dfa.target, dfa.label], axis=1).astype(np.int32)
    distance = np.array(dfa.distances(*dfa.predecessors()), np.int32)
    return Automaton(
        table=table,
        classes=classes,
        final=np.array(dfa.final),
        distance=np.where(distance < 0, FAR, distance),
        labels=labels,
        label_sets=label_sets,
        pairs=np.unique(triples[triples[:, 2] > 0], axis=0),
    )


def _table(dfa: Dfa) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return (table, classes): a column per uncut byte range, with equal columns merged."""
    low, high = np.array(dfa.low, np.intp), np.array(dfa.high, np.intp)
    cuts = np.zeros(257, np.intp)
    cuts[low] = cuts[high + 1] = 1
    cuts[0] = 0
    column_of = np.cumsum(cuts[:256])
    columns = np.zeros((column_of[-1] + 1, dfa.size), np.int32)

    begin = column_of[low]
    widths = column_of[high] - begin + 1
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    sources = np.repeat(np.arange(dfa.size), np.diff(dfa.offsets))
    rows = np.repeat(begin, widths) + within
    columns[rows, np.repeat(sources, widths)] = np.repeat(dfa.target, widths)

    class_ids: dict[bytes, int] = {}
    class_of = np.array(
        [class_ids.setdefault(column.tobytes(), len(class_ids)) for column in columns]
    )
    first = np.unique(class_of, return_index=True)[1]
    return np.ascontiguousarray(columns[first].T), class_of[column_of].astype(np.uint8)
