"""A minimal DFA over UTF-8 bytes, built from a syntax tree; requests with one grammar share it.

Knows no tokens and no requests: the caller keeps the state, a number.
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
from .determinise import determinise
from .dfa import START, Dfa
from .expand import expand
from .limits import Budget, Limits, Recursive, TooLarge
from .minimise import minimise
from .nfa import Nfa
from .sizes import Sizes

__all__ = ["DEAD", "FAR", "START", "Automaton", "Limits", "Recursive", "TooLarge", "build"]

DEAD = 0
FAR = int(np.iinfo(np.int32).max)
"""The distance of the dead state."""

_ARRAYS = {
    "table": np.int32,
    "classes": np.uint8,
    "final": np.bool_,
    "distance": np.int32,
    "pairs": np.int32,
}


Sources = dict[tuple[int, int], tuple[int, ...]]
"""(state, next state) -> labels, as indices, of the parts that lead from one to the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """State 0 is dead and START is 1. From every other state a final one can be reached, and no two
    are equivalent. All arrays are read-only."""

    table: NDArray[np.int32]  # [states, classes]: the next state
    classes: NDArray[np.uint8]  # [256]: the equivalence class of each byte
    final: NDArray[np.bool_]  # [states]
    distance: NDArray[np.int32]  # [states]: bytes to the nearest final state; FAR for the dead one
    labels: tuple[str, ...]  # names of the parts of the pattern or schema
    label_sets: tuple[tuple[int, ...], ...]
    pairs: NDArray[np.int32]  # [n, 3], sorted: state, next state, index into label_sets (labelled)
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
        """The number of states, the dead one included."""
        return len(self.table)

    @property
    def sources(self) -> Sources:
        """Only the pairs with labels. Made at the first use."""
        found = self._sources
        if found is None:
            found = {(state, to): self.label_sets[i] for state, to, i in self.pairs.tolist()}
            object.__setattr__(self, "_sources", found)
        return found

    def step(self, state: int, data: bytes) -> int:
        """The state after `data`; 0, the dead one, where no text continues with it."""
        flat, width = self._flat, self.table.shape[1]
        for kind in data.translate(self._translation):
            state = flat[state * width + kind]
            if not state:
                break
        return state

    def accepts(self, data: bytes) -> bool:
        """Return True if `data` is a whole text of the automaton."""
        return bool(self.final[self.step(START, data)])

    def next_bytes(self, state: int) -> bytes:
        """The bytes on which `state` has a transition to a live state, in rising order."""
        return np.flatnonzero(self.table[state][self.classes]).astype(np.uint8).tobytes()

    def completion(self, state: int) -> bytes:
        """A shortest path to a final state, the first in byte order. ValueError if dead."""
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
        """Bytes of the longest text; `most` for a longer one, and where there is none."""
        states = np.array([START])
        for length in range(most):
            states = np.unique(self.table[states])
            states = states[states != DEAD]
            if not len(states):
                return length
        return most

    def to_bytes(self) -> bytes:
        """Not as numpy's files: reading their heads takes Python's parser, which fails now and then
        when other threads parse at the same time (python/cpython#106905)."""
        names = json.dumps([self.labels, self.label_sets]).encode()
        parts = {name: getattr(self, name) for name in _ARRAYS}
        parts["names"] = np.frombuffer(names, np.uint8)
        return tensors.save({name: np.ascontiguousarray(part) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Automaton:
        """Return the automaton of which `to_bytes` returned `data`."""
        parts = tensors.load(data)
        labels, label_sets = json.loads(parts.pop("names").tobytes())
        return cls(labels=tuple(labels), label_sets=tuple(map(tuple, label_sets)), **parts)


def build(rules: Rules, limits: Limits | None = None) -> Automaton:
    """The minimal automaton of the texts that `rules` describe.

    Raises Recursive for recursive rules, TooLarge beyond `limits` (default: `Limits()`), and
    GrammarError where no text is left, a rule is undefined, or UTF-8 cannot write a text.
    """
    budget = Budget(limits or Limits())
    sizes = Sizes(rules, budget)
    budget.check("positions", sizes.needed, "byte positions")
    nfa = Nfa(budget)
    start = expand(rules, nfa, budget)
    if not start:
        hint = "look for an empty choice or for parts that contradict"
        raise GrammarError("no text at all fits the grammar", hint)
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
    """(table, classes): a column for each byte range that no edge cuts; equal columns merged."""
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

    known: dict[bytes, int] = {}
    class_of = np.array([known.setdefault(column.tobytes(), len(known)) for column in columns])
    first = np.unique(class_of, return_index=True)[1]
    return np.ascontiguousarray(columns[first].T), class_of[column_of].astype(np.uint8)
