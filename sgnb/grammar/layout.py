"""Layered graph layout: columns from left to right, rows from top to bottom. Knows no automaton.

Every edge outside of a cycle points to the right. An edge to the next column is a direct line.
Longer and backward edges share a bus per target below the states. The run time is linear in states
and edges, apart from sorting.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

DIRECT = -1
MANY = 4


class GraphLayout(NamedTuple):
    columns: list[int]  # column of each state
    rows: list[int]
    tracks: list[int]  # bus of each edge, counted from the top; DIRECT for a direct line


def layout(states: int, edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Compute the layout of a directed graph.

    Args:
        states: number of states; all are reachable from state 0.
        edges: (state, next state) pairs.

    Returns:
        Columns and rows per state, tracks per edge.
    """
    ways: list[list[int]] = [[] for _ in range(states)]
    for start, target in dict.fromkeys(edges):
        if start != target:
            ways[start].append(target)
    order, back = _order(ways)
    detours = _detours(ways)
    columns = [0] * states
    remaining = [0] * states  # longest path to the right, in columns

    for start in order:
        for target in ways[start]:
            if (start, target) not in back and start not in detours:
                columns[target] = max(columns[target], columns[start] + 1)

    for start in reversed(order):
        for target in ways[start]:
            if columns[target] > columns[start]:
                remaining[start] = max(remaining[start], remaining[target] + 1)
    tracks = _tracks(ways, columns)
    return GraphLayout(
        columns, _rows(ways, columns, remaining), [tracks.get(edge, DIRECT) for edge in edges]
    )


def _detours(ways: Sequence[Sequence[int]]) -> set[int]:
    """Return intermediate states of two-edge paths that parallel a direct edge, if there are at
    least `MANY`.

    An escaped character inside a string is an example. Many detours would stretch the drawing, so
    they do not move their targets to the right.
    """
    above: list[list[int]] = [[] for _ in ways]
    for start, targets in enumerate(ways):
        for target in targets:
            above[target].append(start)
    detours = set()
    for state, targets in enumerate(ways):
        if len(targets) == len(above[state]) == 1 and ways[targets[0]]:
            joined = above[targets[0]]
            if len(joined) == 2 and above[state][0] in joined:
                detours.add(state)
    return detours if len(detours) >= MANY else set()


def _order(ways: Sequence[Sequence[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """Return a topological order of the states without back edges, and the set of back edges."""
    done: list[int] = []
    back: set[tuple[int, int]] = set()
    open_, visited = {0}, {0}
    stack = [(0, iter(ways[0]))]
    while stack:
        start, successors = stack[-1]
        target = next(successors, None)
        if target is None:
            stack.pop()
            open_.discard(start)
            done.append(start)
        elif target in open_:
            back.add((start, target))
        elif target not in visited:
            visited.add(target)
            open_.add(target)
            stack.append((target, iter(ways[target])))

    return done[::-1], back


def _rows(
    ways: Sequence[Sequence[int]], columns: Sequence[int], remaining: Sequence[int]
) -> list[int]:
    """Place each state in the row of its first predecessor in the previous column, or the next free
    row.

    Among candidates for the same row, the state with the longest path to the right comes first.
    """
    wanted = [0] * len(ways)
    led: set[int] = set()
    members: dict[int, list[int]] = defaultdict(list)
    for state, column in enumerate(columns):
        members[column].append(state)
    rows = [0] * len(ways)

    for column in sorted(members):
        free = 0
        members[column].sort(key=lambda state: (wanted[state], -remaining[state]))
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
    """Assign a track to each bus edge; edges to a target from the same side share a track."""
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
