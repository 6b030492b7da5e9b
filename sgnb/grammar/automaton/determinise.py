"""Byte NFA to DFA: the subset construction. Knows no syntax tree; the result is not minimal.

Most states are one position, or several with disjoint bytes; both take the edges as they are.
"""

from __future__ import annotations

import functools
from collections import Counter
from itertools import pairwise

from .dfa import Dfa
from .limits import Budget
from .nfa import FINAL, Edge, Follow, LabelSets, Nfa

_SPARE = 32  # members of sets and edges per state that memory is bounded for
_OFTEN = 4096  # members between two looks at the clock


def determinise(nfa: Nfa, start: Follow, budget: Budget) -> Dfa:
    """The DFA of the texts from `start` to FINAL. Raises TooLarge."""
    dfa = Dfa()
    sets: list[Follow] = [()]
    numbers: dict[Follow, int] = {(): 0}
    held = check = 0

    def number(follow: Follow) -> int:
        nonlocal held
        members = nfa.closure(follow)
        found = numbers.get(members)
        if found is None:
            found = len(sets)
            sets.append(members)
            held += len(members)
            numbers[members] = found
        numbers[follow] = found
        return found

    number(start)

    low, high, target, label = dfa.low, dfa.high, dfa.target, dfa.label
    state = 0
    while (state := state + 1) < len(sets):
        members = sets[state]
        if held > check:
            check = held + _OFTEN
            _check(len(sets) - 1, held, dfa, nfa.labels, budget)
        final = members[0] == FINAL
        positions = members[1:] if final else members
        edges = nfa.edges[positions[0]] if len(positions) == 1 else _merged(nfa, positions)
        for first, last, follow, labels in edges:
            low.append(first)
            high.append(last)
            found = numbers.get(follow)
            target.append(number(follow) if found is None else found)
            label.append(labels)
        dfa.close_state(final)
    return dfa


def _check(states: int, held: int, dfa: Dfa, labels: LabelSets, budget: Budget) -> None:
    blame = functools.partial(_most_common, dfa.label, labels) if labels.names else None
    budget.check_time(blame)
    budget.check("building", states, "states before it is made minimal", blame)
    budget.check("building", (held + len(dfa.low)) // _SPARE, "states' worth of memory", blame)


def _most_common(edges: list[int], labels: LabelSets) -> str:
    """The names, at most three, of the label set that most of the edges have."""
    names = list(labels.names)
    most = max(Counter(edges).items(), key=lambda item: item[1], default=(0, 0))[0]
    return " and ".join(names[part] for part in labels.sets[most][:3]) or "what has no label"


def _merged(nfa: Nfa, positions: Follow) -> list[Edge]:
    """The edges of several positions; where bytes meet, the union of what they lead to."""
    edges = sorted(edge for position in positions for edge in nfa.edges[position])
    last = -1
    for edge in edges:
        if edge[0] <= last:
            return _swept(nfa, edges)
        last = edge[1]
    return edges


def _swept(nfa: Nfa, edges: list[Edge]) -> list[Edge]:
    """Sorted edges that overlap, cut at every first and last byte."""
    cuts = sorted({edge[0] for edge in edges} | {edge[1] + 1 for edge in edges})
    result: list[Edge] = []
    active: list[Edge] = []
    upcoming = 0
    for low, following in pairwise(cuts):
        active = [edge for edge in active if edge[1] >= low]
        while upcoming < len(edges) and edges[upcoming][0] == low:
            active.append(edges[upcoming])
            upcoming += 1
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
