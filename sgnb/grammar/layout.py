"""Where the states of a graph are drawn: columns from left to right, rows from top to bottom.

Every edge that closes no cycle leads to the right. One that leads to the next column is drawn from
state to state; those that go further, or back, share a bus for each target, which runs below the
states. Takes time linear in states and edges, but for sorting. Knows no automaton.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

DIRECT = -1
MANY = 4


class Layout(NamedTuple):
    columns: list[int]  # of each state
    rows: list[int]
    tracks: list[int]  # of each edge: that of its bus, the upper one first, or DIRECT


def layout(states: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """edges: from state to state, `states` of them, all reached from state 0."""
    ways: list[list[int]] = [[] for _ in range(states)]
    for start, target in dict.fromkeys(edges):
        if start != target:
            ways[start].append(target)
    order, back = _order(ways)
    detours = _detours(ways)
    columns, left = [0] * states, [0] * states  # left: columns that follow
    for start in order:
        for target in ways[start]:
            if (start, target) not in back and start not in detours:
                columns[target] = max(columns[target], columns[start] + 1)
    for start in reversed(order):
        for target in ways[start]:
            if columns[target] > columns[start]:
                left[start] = max(left[start], left[target] + 1)
    tracks = _tracks(ways, columns)
    return Layout(columns, _rows(ways, columns, left), [tracks.get(edge, DIRECT) for edge in edges])


def _detours(ways: Sequence[Sequence[int]]) -> set[int]:
    """States between two that an edge joins too, as of an escaped character between two places of a
    string: where there are `MANY`, they move nothing to the right."""
    above: list[list[int]] = [[] for _ in ways]
    for start, targets in enumerate(ways):
        for target in targets:
            above[target].append(start)
    found = set()
    for state, targets in enumerate(ways):
        if len(targets) == len(above[state]) == 1 and ways[targets[0]]:
            joined = above[targets[0]]
            if len(joined) == 2 and above[state][0] in joined:
                found.add(state)
    return found if len(found) >= MANY else set()


def _order(ways: Sequence[Sequence[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """The states so that edges lead to later ones, but for those that close a cycle: these too."""
    done: list[int] = []
    back: set[tuple[int, int]] = set()
    open_, seen = {0}, {0}
    stack = [(0, iter(ways[0]))]
    while stack:
        start, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            open_.discard(start)
            done.append(start)
        elif target in open_:
            back.add((start, target))
        elif target not in seen:
            seen.add(target)
            open_.add(target)
            stack.append((target, iter(ways[target])))
    return done[::-1], back


def _rows(ways: Sequence[Sequence[int]], columns: Sequence[int], left: Sequence[int]) -> list[int]:
    """A state goes beside the first one that leads to it from the column before, or below where
    that place is taken; of several the one that most can follow goes beside it."""
    wanted = [0] * len(ways)
    led: set[int] = set()
    members: dict[int, list[int]] = defaultdict(list)
    for state, column in enumerate(columns):
        members[column].append(state)
    rows = [0] * len(ways)
    for column in sorted(members):
        free = 0
        members[column].sort(key=lambda state: (wanted[state], -left[state]))
        for state in members[column]:
            rows[state] = max(free, wanted[state])
            free = rows[state] + 1
        for state in members[column]:
            for target in ways[state]:
                if columns[target] == column + 1 and target not in led:
                    led.add(target)
                    wanted[target] = rows[state]
    return rows


def _tracks(ways: Sequence[Sequence[int]], columns: Sequence[int]) -> dict[tuple[int, int], int]:
    """The track of each edge that has a bus: one for all that go to a state from one side."""
    members: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for start, targets in enumerate(ways):
        for target in targets:
            if columns[target] != columns[start] + 1:
                members[target, columns[target] > columns[start]].append(start)
    spans = []
    for (target, _), starts in members.items():
        ends = [columns[target], *(columns[start] for start in starts)]
        spans.append((min(ends), max(ends), target, starts))
    tracks: dict[tuple[int, int], int] = {}
    busy: list[tuple[int, int]] = []  # (last column, track)
    free: list[int] = []
    for first, last, target, starts in sorted(spans):
        while busy and busy[0][0] < first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        track = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, track))
        tracks |= {(start, target): track for start in starts}
    return tracks
