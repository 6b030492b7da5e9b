"""Exact DFA minimisation: states are never compared by hash alone. Knows bytes and label sets only.

States with finitely many texts are merged from the end, each visited once (Revuz, "Minimisation of
acyclic deterministic automata in linear time", 1992). The other states are partitioned by distance
to a final state, then refined by the blocks of their successors. After a split the largest piece
keeps the block number, and only predecessors of the other pieces are visited again. This is
Hopcroft's rule on signatures (Deifel, Milius and Wissmann, "Efficient coalgebraic partition
refinement"). The cost is O(edges * log(states)), and a few visits per state for chains of any
length.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .build_limits import Budget
from .dfa import START, Dfa
from .nfa import LabelSets

_Signature = tuple[int, ...]


def minimise(dfa: Dfa, labels: LabelSets, budget: Budget) -> Dfa:
    """Return the minimal DFA as a new object. Edges between the same two states share a label set.

    Args:
        dfa: DFA in which only the dead state has no text.
        labels: label sets of the edges; unions are added.
        budget: limits of the build.

    Raises:
        TooLarge: the work limit is exceeded.
    """
    return _quotient(dfa, _Refinement(dfa, budget).blocks, labels)


class _Refinement:
    """Partition of the states: `blocks[state]` are equal exactly for equivalent states."""

    def __init__(self, dfa: Dfa, budget: Budget) -> None:
        self._dfa = dfa
        self._budget = budget
        self._predecessors = dfa.predecessors()
        self.blocks = [-1] * dfa.size
        self._count = self._match_finite()
        looping = [state for state in range(START, dfa.size) if self.blocks[state] < 0]
        if looping:
            self._refine(looping)

    def _signature(self, state: int) -> _Signature:
        """Return byte ranges and the blocks of their targets; adjacent ranges to the same block are
        joined."""
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
        """Number the blocks of states that reach no cycle, from the end. Returns the number of
        blocks."""
        offsets, predecessors = self._predecessors
        edges = self._dfa.offsets
        open_edges = [after - at for at, after in pairwise(edges)]
        ready = [state for state in range(START, self._dfa.size) if not open_edges[state]]
        block_ids: dict[tuple[bool, _Signature], int] = {}
        final, blocks = self._dfa.final, self.blocks

        self._budget.spend(3 * self._dfa.size)
        for state in ready:
            blocks[state] = block_ids.setdefault(
                (final[state], self._signature(state)), len(block_ids)
            )
            for source in predecessors[offsets[state] : offsets[state + 1]]:
                open_edges[source] -= 1
                if not open_edges[source]:
                    ready.append(source)
        return len(block_ids)

    def _refine(self, states: list[int]) -> None:
        distance = self._dfa.distances(*self._predecessors)
        members: dict[int, set[int]] = {}
        for state in states:
            block = self._count + distance[state]
            self.blocks[state] = block
            members.setdefault(block, set()).add(state)
        self._count += max(distance) + 1

        offsets, predecessors = self._predecessors
        touched = set(states)
        while touched:
            self._budget.spend(3 * len(touched))
            changed = self._split(touched, members)
            touched = set()
            for state in changed:
                touched.update(predecessors[offsets[state] : offsets[state + 1]])

    def _split(self, touched: set[int], members: dict[int, set[int]]) -> list[int]:
        """Split the blocks of the touched states by signature. Returns the states with new blocks.

        The untouched states of a block still share a signature, distinct from the touched states'
        signatures.
        """
        groups: dict[int, dict[_Signature, list[int]]] = {}
        for state in touched:
            block = self.blocks[state]
            if len(members[block]) > 1:
                groups.setdefault(block, {}).setdefault(self._signature(state), []).append(state)
        changed: list[int] = []

        for block, by_signature in groups.items():
            pieces = [set(piece) for piece in by_signature.values()]
            untouched = members[block]
            for piece in pieces:
                untouched.difference_update(piece)
            pieces.append(untouched)
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
    """Return a DFA with a state per block, ordered by first member, with the edges of the first
    member."""
    _, first, block_of = np.unique(blocks, return_index=True, return_inverse=True)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    state_of = number[block_of]

    widths = np.diff(dfa.offsets)
    source = np.repeat(np.arange(dfa.size), widths)
    target = state_of[np.array(dfa.target, np.intp)]
    label = _joined(state_of[source] * len(first) + target, np.array(dfa.label, np.int64), labels)
    first.sort()
    chosen_edges = np.flatnonzero(np.isin(source, first))
    return Dfa(
        offsets=[0, *np.cumsum(widths[first]).tolist()],
        low=[dfa.low[edge] for edge in chosen_edges],
        high=[dfa.high[edge] for edge in chosen_edges],
        target=target[chosen_edges].tolist(),
        label=label[chosen_edges].tolist(),
        final=[dfa.final[state] for state in first],
    )


def _joined(
    pair: NDArray[np.int64], label: NDArray[np.int64], labels: LabelSets
) -> NDArray[np.int64]:
    """Return, per edge, the union of the label sets of all edges with the same number in `pair`."""
    if not label.any():
        return label
    num_sets = len(labels.sets)
    pairs, sets = np.divmod(np.unique(pair * num_sets + label), num_sets)
    distinct, begin, counts = np.unique(pairs, return_index=True, return_counts=True)
    joined = sets[begin]
    for index in np.flatnonzero(counts > 1).tolist():
        joined[index] = labels.union(sets[begin[index] : begin[index] + counts[index]].tolist())
    return joined[np.searchsorted(distinct, pair)]
