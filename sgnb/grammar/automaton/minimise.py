"""DFA minimisation, exact: no hash stands for a state. Knows bytes and label sets only.

States with finitely many texts are matched from the end, each visited once (Revuz, "Minimisation of
acyclic deterministic automata in linear time", 1992). The others are partitioned by their distance
to a final state, then refined by what their edges lead to; of a block that splits the largest piece
keeps its number, and only predecessors of the others are visited again (Hopcroft's rule, on
signatures as in Deifel, Milius and Wissmann, "Efficient coalgebraic partition refinement"). That is
O(edges * log(states)), and a few visits of each state for chains of any length.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .dfa import START, Dfa
from .limits import Budget
from .nfa import LabelSets

_OFTEN = 4096  # states between two looks at the clock

_Signature = tuple[int, ...]


def minimise(dfa: Dfa, labels: LabelSets, budget: Budget) -> Dfa:
    """The minimal DFA, a new one; edges between the same two states have the same label set.

    In `dfa` only the dead state has no text. Raises TooLarge when the time is up.
    """
    return _quotient(dfa, _Refinement(dfa, budget).blocks, labels)


class _Refinement:
    """`blocks[state]`: equal for equivalent states, and only for those."""

    def __init__(self, dfa: Dfa, budget: Budget) -> None:
        self._dfa = dfa
        self._budget = budget
        self._before = dfa.predecessors()
        self.blocks = [-1] * dfa.size
        self._count = self._match_finite()
        looping = [state for state in range(START, dfa.size) if self.blocks[state] < 0]
        if looping:
            self._refine(looping)

    def _signature(self, state: int) -> _Signature:
        """Byte ranges and the blocks they lead to; adjacent ranges to one block are joined."""
        dfa, blocks = self._dfa, self.blocks
        begin, end = dfa.offsets[state], dfa.offsets[state + 1]
        low, high, target = dfa.low, dfa.high, dfa.target
        if end - begin == 1:
            return low[begin], high[begin], blocks[target[begin]]
        parts: list[int] = []
        for edge in range(begin, end):
            block = blocks[target[edge]]
            if parts and parts[-1] == block and parts[-2] + 1 == low[edge]:
                parts[-2] = high[edge]
            else:
                parts += (low[edge], high[edge], block)
        return tuple(parts)

    def _match_finite(self) -> int:
        """Number the blocks of states that reach no cycle, from the end; returns their number."""
        offsets, before = self._before
        edges = self._dfa.offsets
        open_edges = [after - at for at, after in pairwise(edges)]
        ready = [state for state in range(START, self._dfa.size) if not open_edges[state]]
        known: dict[tuple[bool, _Signature], int] = {}
        final, blocks = self._dfa.final, self.blocks
        for state in ready:
            if not len(known) % _OFTEN:
                self._budget.check_time()
            blocks[state] = known.setdefault((final[state], self._signature(state)), len(known))
            for source in before[offsets[state] : offsets[state + 1]]:
                open_edges[source] -= 1
                if not open_edges[source]:
                    ready.append(source)
        return len(known)

    def _refine(self, states: list[int]) -> None:
        distance = self._dfa.distances(*self._before)
        members: dict[int, set[int]] = {}
        for state in states:
            block = self._count + distance[state]
            self.blocks[state] = block
            members.setdefault(block, set()).add(state)
        self._count += max(distance) + 1

        offsets, before = self._before
        touched = set(states)
        while touched:
            self._budget.check_time()
            changed = self._split(touched, members)
            touched = set()
            for state in changed:
                touched.update(before[offsets[state] : offsets[state + 1]])

    def _split(self, touched: set[int], members: dict[int, set[int]]) -> list[int]:
        """Split the blocks of the touched states by signature; returns the states with new blocks.

        The untouched states of a block still share one signature, which no touched state has.
        """
        groups: dict[int, dict[_Signature, list[int]]] = {}
        for state in touched:
            block = self.blocks[state]
            if len(members[block]) > 1:
                groups.setdefault(block, {}).setdefault(self._signature(state), []).append(state)
        changed: list[int] = []
        for block, by_signature in groups.items():
            pieces = [set(piece) for piece in by_signature.values()]
            rest = members[block]
            for piece in pieces:
                rest.difference_update(piece)
            pieces.append(rest)
            pieces.sort(key=len)
            members[block] = pieces.pop()
            for piece in pieces:
                members[self._count] = piece
                for state in piece:
                    self.blocks[state] = self._count
                changed += piece
                self._count += 1
        return changed


def _quotient(dfa: Dfa, blocks: list[int], labels: LabelSets) -> Dfa:
    """One state per block, in the order of their first states, with the edges of those."""
    _, first, block_of = np.unique(blocks, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    state_of = number[block_of]

    widths = np.diff(dfa.offsets)
    source = np.repeat(np.arange(dfa.size), widths)
    target = state_of[np.array(dfa.target, np.intp)]
    label = _joined(state_of[source] * len(first) + target, np.array(dfa.label, np.int64), labels)
    first.sort()
    kept = np.flatnonzero(np.isin(source, first))
    return Dfa(
        offsets=[0, *np.cumsum(widths[first]).tolist()],
        low=[dfa.low[edge] for edge in kept],
        high=[dfa.high[edge] for edge in kept],
        target=target[kept].tolist(),
        label=label[kept].tolist(),
        final=[dfa.final[state] for state in first],
    )


def _joined(
    pair: NDArray[np.int64], label: NDArray[np.int64], labels: LabelSets
) -> NDArray[np.int64]:
    """For each edge, the union of the label sets of all edges with the same number in `pair`."""
    if not label.any():
        return label
    known = len(labels.sets)
    pairs, sets = np.divmod(np.unique(pair * known + label), known)
    distinct, begin, counts = np.unique(pairs, return_index=True, return_counts=True)
    joined = sets[begin]
    for index in np.flatnonzero(counts > 1).tolist():
        joined[index] = labels.union(sets[begin[index] : begin[index] + counts[index]].tolist())
    return joined[np.searchsorted(distinct, pair)]
