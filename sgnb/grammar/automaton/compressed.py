"""The compressed FSM of Zheng et al. (arXiv 2312.07104, section 4): runs of forced bytes as single
edges.

A non-final state with exactly one outgoing byte is singular: the byte is forced. Knows no tokens.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .automaton import Automaton
from .dfa import START

_CHUNK = 1024  # states whose 256 columns are processed together


class Edge(NamedTuple):
    """Edge from `source` to `target`: any byte of `data`, then all bytes of `forced`."""

    source: int
    target: int
    data: tuple[tuple[int, int], ...]  # inclusive byte ranges; () if `source` is singular
    forced: bytes
    labels: tuple[str, ...]  # labels of the bytes, in order, without duplicates


class _Chain(NamedTuple):
    """Consecutive singular states: `data` leads from the first of `states` to `end`."""

    states: tuple[int, ...]
    data: bytes
    end: int


class CompressedAutomaton:
    """Forced bytes of an automaton.

    `singular` is bool[states]; `states` is the number of remaining states, including START.

    Args:
        automaton: minimal automaton.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        widths = np.bincount(automaton.classes, minlength=automaton.table.shape[1])
        ways = (automaton.table != 0) @ widths
        self.singular = (ways == 1) & ~automaton.final
        num_singular = int(np.count_nonzero(self.singular))
        self.states = automaton.states - 1 - num_singular + bool(self.singular[START])
        self._place: dict[int, tuple[_Chain, int]] = {}  # of the singular states visited so far

    def forced(self, state: int) -> bytes:
        """Return the jump-forward bytes: the common prefix of all continuations from `state`.
        Always finite.

        Args:
            state: state number of the automaton.
        """
        pieces: list[bytes] = []
        while self.singular[state]:
            chain, offset = self._find(state)
            pieces.append(chain.data[offset:])
            state = chain.end
        return b"".join(pieces)

    def edges(self) -> list[Edge]:
        """Return the edges of the compressed graph by source and first byte. They cover every edge
        of the automaton."""
        tails: dict[int, tuple[bytes, int, tuple[int, ...]]] = {}
        result: list[Edge] = []
        if self.singular[START]:
            forced, end, labels = self._tail(START)
            edge = Edge(
                source=START, target=end, data=(), forced=forced, labels=self._names(labels)
            )
            result.append(edge)

        for (state, target), data in self._choices().items():
            if target not in tails:
                tails[target] = self._tail(target)
            forced, end, labels = tails[target]
            edge_labels = self.automaton.sources.get((state, target), ())
            edge = Edge(
                source=state,
                target=end,
                data=tuple(data),
                forced=forced,
                labels=self._names((*edge_labels, *labels)),
            )
            result.append(edge)

        return result

    def _find(self, state: int) -> tuple[_Chain, int]:
        """Return the chain of a singular state, and the state's offset in the chain. A new chain
        ends at the first state that is not singular or has a chain."""
        if state not in self._place:
            table, classes = self.automaton.table, self.automaton.classes.tobytes()
            states, data, end = list[int](), bytearray(), state
            while self.singular[end] and end not in self._place:
                states.append(end)
                kind = int(table[end].argmax())  # the only transition
                data.append(classes.index(kind))
                end = int(table[end, kind])

            chain = _Chain(tuple(states), bytes(data), end)
            for offset, member in enumerate(states):
                self._place[member] = chain, offset
        return self._place[state]

    def _tail(self, state: int) -> tuple[bytes, int, tuple[int, ...]]:
        """Return the forced bytes from `state`, the state after the bytes, and the labels along the
        path."""
        labels: dict[int, None] = {}
        forced = self.forced(state)
        while self.singular[state]:
            chain, offset = self._find(state)
            path = (*chain.states[offset:], chain.end)
            for pair in pairwise(path):
                labels.update(dict.fromkeys(self.automaton.sources.get(pair, ())))
            state = chain.end
        return forced, state, tuple(labels)

    def _choices(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Return (non-singular state, next state) -> byte ranges, by state and first byte."""
        automaton = self.automaton
        remaining = np.flatnonzero(~self.singular)
        result: dict[tuple[int, int], list[tuple[int, int]]] = {}

        for begin in range(0, len(remaining), _CHUNK):
            states = remaining[begin : begin + _CHUNK]
            rows = automaton.table[states][:, automaton.classes]
            first = np.diff(rows, axis=1, prepend=-1) != 0
            last = np.diff(rows, axis=1, append=-1) != 0
            places, low = np.nonzero(first & (rows != 0))
            high = np.nonzero(last & (rows != 0))[1]
            runs = np.stack([states[places], rows[places, low], low, high], axis=1)
            for state, target, lowest, highest in runs.tolist():
                result.setdefault((state, target), []).append((lowest, highest))
        return result

    def _names(self, labels: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.automaton.labels[label] for label in dict.fromkeys(labels))
