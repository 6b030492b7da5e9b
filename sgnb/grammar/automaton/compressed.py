"""The compressed FSM of Zheng et al. (arXiv 2312.07104, section 4): forced bytes as single steps.

A state is singular when exactly one byte leads on from it and it is not final: that byte is forced.
Knows no tokens.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .automaton import Automaton
from .dfa import START

_CHUNK = 1024  # states whose 256 columns are looked at together


class Edge(NamedTuple):
    """One of the bytes of `data`, then all of `forced`, lead from `source` to `target`."""

    source: int
    target: int
    data: tuple[tuple[int, int], ...]  # byte ranges, inclusive; () where `source` is singular
    forced: bytes
    labels: tuple[str, ...]  # of the parts that the bytes come from, in order, each once


class _Chain(NamedTuple):
    """Successive singular states: `data` leads from the first of `states` to `end`."""

    states: tuple[int, ...]
    data: bytes
    end: int


class Compressed:
    """What `automaton` forces. `singular`: bool[states]; `states`: how many remain, with START."""

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
        """The jump-forward bytes of `state`: what every text continues with. Always finite."""
        pieces: list[bytes] = []
        while state in self._place:
            chain, offset = self._place[state]
            pieces.append(chain.data[offset:])
            state = chain.end
        return b"".join(pieces)

    def edges(self) -> list[Edge]:
        """The compressed graph by source and first byte; it covers every edge of the automaton."""
        tails: dict[int, tuple[bytes, int, tuple[int, ...]]] = {}
        result: list[Edge] = []
        if self.singular[START]:
            forced, end, labels = self._tail(START)
            result.append(Edge(START, end, (), forced, self._names(labels)))
        for (state, target), data in self._choices().items():
            if target not in tails:
                tails[target] = self._tail(target)
            forced, end, labels = tails[target]
            own = self.automaton.sources.get((state, target), ())
            result.append(Edge(state, end, tuple(data), forced, self._names((*own, *labels))))
        return result

    def _chains(self) -> list[_Chain]:
        """Every singular state is in one chain; a chain ends where another joins it."""
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
        """From `state`: the forced bytes, the state after them, and the labels on the way."""
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
        """(state that is not singular, next state) -> byte ranges, by state and first byte."""
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
