"""A DFA over bytes as plain lists, between the steps of a build. Knows nothing of trees or NFAs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

START = 1


@dataclass(slots=True)
class Dfa:
    """State 0 is dead and has no edges; every other leads to a final state."""

    offsets: list[int] = field(default_factory=lambda: [0, 0])  # CSR: edges of s from offsets[s] on
    low: list[int] = field(default_factory=list)  # first byte of each edge, rising in each state
    high: list[int] = field(default_factory=list)  # last byte, inclusive; edges are disjoint
    target: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)  # id of a label set
    final: list[bool] = field(default_factory=lambda: [False])

    @property
    def size(self) -> int:
        """The number of states, the dead one included."""
        return len(self.final)

    def edges(self, state: int) -> Iterator[tuple[int, int, int, int]]:
        """(low, high, target, label), rising."""
        cut = slice(self.offsets[state], self.offsets[state + 1])
        return zip(self.low[cut], self.high[cut], self.target[cut], self.label[cut], strict=True)

    def close_state(self, final: bool) -> None:
        """The edges added since the last call are those of the next state."""
        self.offsets.append(len(self.low))
        self.final.append(final)

    def add_edge(self, low: int, high: int, target: int, label: int) -> None:
        self.low.append(low)
        self.high.append(high)
        self.target.append(target)
        self.label.append(label)

    def predecessors(self) -> tuple[list[int], list[int]]:
        """CSR (offsets, states): states[offsets[t] : offsets[t + 1]] have an edge to t."""
        targets = np.array(self.target, np.int64)
        sources = np.repeat(np.arange(self.size), np.diff(self.offsets))
        counts = np.bincount(targets, minlength=self.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return offsets.tolist(), sources[np.argsort(targets, kind="stable")].tolist()

    def distances(self, offsets: list[int], states: list[int]) -> list[int]:
        """Bytes to the nearest final state, -1 for none. Takes what `predecessors` returns."""
        distance = [0 if final else -1 for final in self.final]
        queue = [state for state, final in enumerate(self.final) if final]
        for state in queue:
            further = distance[state] + 1
            for before in states[offsets[state] : offsets[state + 1]]:
                if distance[before] < 0:
                    distance[before] = further
                    queue.append(before)
        return distance
