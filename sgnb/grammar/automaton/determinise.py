"""Byte NFA to DFA by the subset construction. Knows no syntax tree; the result is not minimal.

Most states are a single position, or several positions with disjoint bytes; both reuse the NFA's
edges.
"""

from __future__ import annotations

import functools
from collections import Counter
from itertools import pairwise

from .build_limits import Budget
from .dfa import Dfa
from .nfa import FINAL, Edge, Follow, LabelSets, Nfa

_SPARE = 32  # set members and edges per state in the memory bound
_OFTEN = 4096  # set members between two checks


def determinise(nfa: Nfa, start: Follow, budget: Budget) -> Dfa:
    """Return the DFA of the texts from `start` to FINAL.

    Args:
        nfa: byte NFA.
        start: start positions.
        budget: limits of the build.

    Raises:
        TooLarge: the DFA exceeds the limits.
    """
    dfa = Dfa()
    sets: list[Follow] = [()]
    numbers: dict[Follow, int] = {(): 0}
    num_members = check = 0

    def number(follow: Follow) -> int:
        nonlocal num_members
        members = nfa.closure(follow)
        state_id = numbers.get(members)
        if state_id is None:
            state_id = len(sets)
            sets.append(members)
            num_members += len(members)
            numbers[members] = state_id
        numbers[follow] = state_id
        return state_id

    number(start)

    low, high, target, label = dfa.low, dfa.high, dfa.target, dfa.label
    state = 0
    while (state := state + 1) < len(sets):
        members = sets[state]
        if num_members > check:
            check = num_members + _OFTEN
            _check(len(sets) - 1, num_members, dfa, nfa.labels, budget)
        budget.spend(1 + len(members))
        final = members[0] == FINAL
        positions = members[1:] if final else members
        edges = nfa.edges[positions[0]] if len(positions) == 1 else _merged(nfa, positions, budget)
        for first, last, follow, labels in edges:
            low.append(first)
            high.append(last)
            state_id = numbers.get(follow)
            target.append(number(follow) if state_id is None else state_id)
            label.append(labels)
        dfa.close_state(final)
    return dfa


def _check(states: int, num_members: int, dfa: Dfa, labels: LabelSets, budget: Budget) -> None:
    blame = functools.partial(_most_common, dfa.label, labels) if labels.names else None
    budget.check("building", states, "states before it is made minimal", blame)
    budget.check(
        "building", (num_members + len(dfa.low)) // _SPARE, "states' worth of memory", blame
    )


def _most_common(edges: list[int], labels: LabelSets) -> str:
    """Return up to three names of the most frequent label set among `edges`."""
    names = list(labels.names)
    most_frequent = max(Counter(edges).items(), key=lambda item: item[1], default=(0, 0))[0]
    return (
        " and ".join(names[part] for part in labels.sets[most_frequent][:3]) or "what has no label"
    )


def _merged(nfa: Nfa, positions: Follow, budget: Budget) -> list[Edge]:
    """Merge the edges of several positions; for overlapping bytes, take the union of the follow
    sets."""
    edges = sorted(edge for position in positions for edge in nfa.edges[position])
    budget.spend(len(edges))
    last = -1
    for edge in edges:
        if edge[0] <= last:
            return _swept(nfa, edges, budget)
        last = edge[1]
    return edges


def _swept(nfa: Nfa, edges: list[Edge], budget: Budget) -> list[Edge]:
    """Cut sorted, overlapping edges at every first and last byte."""
    cuts = sorted({edge[0] for edge in edges} | {edge[1] + 1 for edge in edges})
    result: list[Edge] = []
    active: list[Edge] = []
    upcoming = 0

    for low, following in pairwise(cuts):
        active = [edge for edge in active if edge[1] >= low]
        while upcoming < len(edges) and edges[upcoming][0] == low:
            active.append(edges[upcoming])
            upcoming += 1
        budget.spend(1 + sum(len(edge[2]) for edge in active))
        if not active:
            continue
        follow, label = active[0][2:]
        if len(active) > 1:
            follow = tuple(sorted({position for edge in active for position in edge[2]}))
            label = nfa.labels.union({edge[3] for edge in active})
        if result and result[-1][1] + 1 == low and result[-1][2:] == (follow, label):
            low = result.pop()[0]
        result.append((low, following - 1, follow, label))

    return result
