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
        self._place: dict[int, tuple[_Chain, int]] = {}
        for chain in self._chains():
            for offset, state in enumerate(chain.states):
                self._place[state] = chain, offset
        self.states = automaton.states - 1 - len(self._place) + bool(self.singular[START])

    def forced(self, state: int) -> bytes:
        """Return the jump-forward bytes: the common prefix of all continuations from `state`.
        Always finite.

        Args:
            state: state number of the automaton.
        """
        pieces: list[bytes] = []
        while state in self._place:
            chain, offset = self._place[state]
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

    def _chains(self) -> list[_Chain]:
        """Return the maximal chains; a chain ends at a state with several predecessors."""
        automaton, singular = self.automaton, self.singular
        states = np.flatnonzero(singular)
        kinds = (automaton.table[states] != 0).argmax(axis=1)
        byte_of = np.zeros(automaton.table.shape[1], np.intp)
        byte_of[automaton.classes] = np.arange(256)
        following = dict(zip(states.tolist(), automaton.table[states, kinds].tolist(), strict=True))
        byte = dict(zip(states.tolist(), byte_of[kinds].tolist(), strict=True))

        entries = np.bincount(list(following.values()), minlength=automaton.states)
        inner = set(np.flatnonzero(singular & (entries == 1)).tolist())
        chains: list[_Chain] = []
        for first in (state for state in following if state not in inner):
            chain = [first]
            while following[chain[-1]] in inner:
                chain.append(following[chain[-1]])
            data = bytes(byte[state] for state in chain)
            chains.append(_Chain(tuple(chain), data, following[chain[-1]]))
        return chains

    def _tail(self, state: int) -> tuple[bytes, int, tuple[int, ...]]:
        """Return the forced bytes from `state`, the state after the bytes, and the labels along the
        path."""
        labels: dict[int, None] = {}
        forced = self.forced(state)
        while state in self._place:
            chain, offset = self._place[state]
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
