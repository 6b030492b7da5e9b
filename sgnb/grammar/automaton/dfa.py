"""A DFA over bytes as plain lists, between the steps of a build. Knows nothing of trees or NFAs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

START = 1


@dataclass(slots=True)
class Dfa:
    """State 0 is dead and has no edges; every other leads to a final state.

    Edges of state s are offsets[s] : offsets[s + 1] of `low`, `high` (bytes, inclusive; rising and
    disjoint), `target` and `label` (id of a label set).
    """

    offsets: list[int] = field(default_factory=lambda: [0, 0])
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    final: list[bool] = field(default_factory=lambda: [False])

    @property
    def size(self) -> int:
        """States, the dead one included."""
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
        """(offsets, states): states[offsets[t] : offsets[t + 1]] have an edge to t, once for each
        such edge."""
        targets = np.array(self.target, np.int64)
        sources = np.repeat(np.arange(self.size), np.diff(self.offsets))
        counts = np.bincount(targets, minlength=self.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return offsets.tolist(), sources[np.argsort(targets, kind="stable")].tolist()

    def distances(self, offsets: list[int], states: list[int]) -> list[int]:
        """Bytes from each state to the nearest final one, -1 for none; the arguments are the
        predecessors."""
        distance = [0 if final else -1 for final in self.final]
        queue = [state for state, final in enumerate(self.final) if final]
        for state in queue:
            further = distance[state] + 1
            for before in states[offsets[state] : offsets[state + 1]]:
                if distance[before] < 0:
                    distance[before] = further
                    queue.append(before)
        return distance
