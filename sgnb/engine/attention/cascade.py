"""Which stretches of the radix tree several chunks of a step have in common. Knows the tree; no
tensors, no kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..cache.radix import Node
from ..request.request import Chunk


class CascadeGroup(NamedTuple):
    """Positions first .. end, which rows low .. high of the order have in common.

    chunk: one of the chunks below, whose request has the segment's slots at these positions.
    """

    first: int
    end: int
    low: int
    high: int
    chunk: int


class Cascade(NamedTuple):
    """The rows of a step in depth-first order of the tree, so that those below a segment are
    neighbours.

    starts[i]: place of chunk i's first row in this order. begins[i]: the first position of chunk i
    that is in no segment; all from there on are its own. segments: parents before those below them.
    """

    starts: list[int]
    begins: list[int]
    segments: list[CascadeGroup]


class _Nodes(NamedTuple):
    """The nodes above some chunk, by number, parents first; number 0 is the root. numbers: of each
    chunk's node.

    holders: a chunk below. own: rows at the node itself. below: those and the rows of the nodes
    below.
    """

    parents: list[int]
    ends: list[int]
    holders: list[int]
    own: list[int]
    below: list[int]
    numbers: list[int]


def find_cascade(
    chunks: list[Chunk], rows: Sequence[int], worth: Callable[[int, int], bool]
) -> Cascade:
    """What the chunks have in common, where `worth(rows below, tokens)` says that reading it once
    pays.

    rows: how many rows a chunk counts for. A stretch that is not worth it becomes part of those
    below. The work is a few operations for each chunk, and for each node above one.
    """
    parents, ends, holders, own, below, numbers = _number(chunks, rows)
    count = len(parents)
    begins, segments, taken = [0] * count, [], [False] * count
    places, cursors = (
        [0] * count,
        [own[0]] + [0] * (count - 1),
    )  # for the rows of a node itself, and of those below it
    for n in range(1, count):
        parent, rows_below = parents[n], below[n]
        first, low = begins[parent], cursors[parent]
        cursors[parent] = low + rows_below
        places[n], cursors[n], begins[n] = low, low + own[n], first
        if rows_below > 1:
            end = ends[n]
            if worth(rows_below, end - first) or (taken[parent] and rows_below == below[parent]):
                taken[n], begins[n] = True, end
                segments.append(CascadeGroup(first, end, low, low + rows_below, holders[n]))
    starts = []
    for n, own_rows in zip(numbers, rows, strict=True):
        starts.append(places[n])
        places[n] += own_rows
    return Cascade(starts, [begins[n] for n in numbers], segments)


def _number(chunks: list[Chunk], rows: Sequence[int]) -> _Nodes:
    parents, ends, holders, own, numbers = [0], [0], [-1], [0], []
    known: dict[Node, int] = {}
    # In steps of a thousand rows, taking a chunk apart as a tuple is slower than asking for its
    # items.
    nodes = [chunk[0].node for chunk in chunks]
    starts = [chunk[1] for chunk in chunks]
    for i, node in enumerate(nodes):
        number = 0
        # One that computes again what the tree has stays at the root: nothing of that may be read
        # for it.
        if node is not None and node.end <= starts[i]:
            found = known.get(node)
            if found is None:
                new = []
                while found is None and node.parent is not None:
                    new.append(node)
                    node = node.parent
                    found = known.get(node)
                number = found or 0
                for node in reversed(new):
                    known[node] = len(parents)
                    parents.append(number)
                    ends.append(node.end)
                    holders.append(i)
                    own.append(0)
                    number = len(parents) - 1
            else:
                number = found
        numbers.append(number)
        own[number] += rows[i]
    below = list(own)
    for n in range(len(parents) - 1, 0, -1):
        below[parents[n]] += below[n]
    return _Nodes(parents, ends, holders, own, below, numbers)
