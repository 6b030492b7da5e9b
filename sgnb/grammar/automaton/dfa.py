"""A DFA over bytes as plain lists, between the stages of a build. Knows neither trees nor NFAs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

START = 1


@dataclass(slots=True)
class Dfa:
    """Mutable DFA. State 0 is dead and has no edges; every other state leads to a final state."""

    offsets: list[int] = field(default_factory=lambda: [0, 0])  # CSR: first edge of each state
    low: list[int] = field(default_factory=list)  # first byte of each edge, ascending per state
    high: list[int] = field(default_factory=list)  # last byte, inclusive; edges are disjoint
    target: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)  # id of a label set
    final: list[bool] = field(default_factory=lambda: [False])

    @property
    def size(self) -> int:
        """Number of states, including the dead state."""
        return len(self.final)

    def num_edges(self, state: int) -> int:
        """Return the number of edges of a state.

        Args:
            state: state number.
        """
        return self.offsets[state + 1] - self.offsets[state]

    def edges(self, state: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (low, high, target, label) of each edge of `state`, ascending.

        Args:
            state: state number.
        """
        cut = slice(self.offsets[state], self.offsets[state + 1])
        return zip(self.low[cut], self.high[cut], self.target[cut], self.label[cut], strict=True)

    def close_state(self, final: bool) -> None:
        """Complete the next state with the edges added since the previous call.

        Args:
            final: True if a text may end in the state.
        """
        self.offsets.append(len(self.low))
        self.final.append(final)

    def add_edge(self, low: int, high: int, target: int, label: int) -> None:
        self.low.append(low)
        self.high.append(high)
        self.target.append(target)
        self.label.append(label)

    def predecessors(self) -> tuple[list[int], list[int]]:
        """Return CSR (offsets, states): states[offsets[t] : offsets[t + 1]] have an edge to t."""
        targets = np.array(self.target, np.int64)
        sources = np.repeat(np.arange(self.size), np.diff(self.offsets))
        counts = np.bincount(targets, minlength=self.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return offsets.tolist(), sources[np.argsort(targets, kind="stable")].tolist()

    def distances(self, offsets: list[int], states: list[int]) -> list[int]:
        """Return the number of bytes from each state to the nearest final state, -1 if unreachable.

        Args:
            offsets: CSR offsets of `predecessors`.
            states: CSR states of `predecessors`.
        """
        distance = [0 if final else -1 for final in self.final]
        queue = [state for state, final in enumerate(self.final) if final]
        for state in queue:
            further = distance[state] + 1
            for predecessor in states[offsets[state] : offsets[state + 1]]:
                if distance[predecessor] < 0:
                    distance[predecessor] = further
                    queue.append(predecessor)
        return distance
