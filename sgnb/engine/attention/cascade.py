"""Cascade groups: the prefixes that rows of a step share. Knows the radix tree; no tensors, no
kernels.

A group is a range of positions whose KV is the same for several requests, so that it can be read
once for all of their rows (RadixAttention, Zheng et al., arXiv 2312.07104). Groups are nested as
the nodes of the tree are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Node
from ..request.batch import Batch

Longs = NDArray[np.int64]


class Cascade(NamedTuple):
    """The rows of a step in depth-first order of the tree, where the rows of a group are
    neighbours."""

    first_places: Longs  # [requests], place of each request's first row in that order
    own_from: Longs  # [requests], first position of each that is in no group
    groups: Longs  # [n, 5], parents first: begin and end position, low and high place, some request


def find_cascade(batch: Batch, rows: Sequence[int], worth: Callable[[int, int], bool]) -> Cascade:
    """rows: how many each request counts for. worth(rows, tokens): whether reading `tokens` common
    tokens once for `rows` rows pays; a stretch that is not worth it becomes part of those below.
    """
    nodes = [
        # A request that computes anew what the tree has must not read it from there.
        node
        if (node := request.node) is not None and node.end <= start and request.sharing.reads
        else None
        for request, start in zip(batch.requests, batch.starts.tolist(), strict=True)
    ]
    numbers, parents, ends = _number(nodes)
    count, number_of = len(parents), [numbers.get(node, 0) for node in nodes]

    # Bottom up: rows at and below each node, and a request below it.
    own, holders = [0] * count, [0] * count
    for i, number in enumerate(number_of):
        own[number] += rows[i]
        holders[number] = i
    below = own.copy()
    for n in range(count - 1, 0, -1):
        below[parents[n]] += below[n]
        holders[parents[n]] = holders[n]

    # Top down: a node's own rows come before those below it, children in order.
    begins, grouped, groups = [0] * count, [False] * count, []
    places, next_places = [0] * count, [own[0]] + [0] * (count - 1)
    for n in range(1, count):
        parent, rows_below = parents[n], below[n]
        begin, low = begins[parent], next_places[parent]
        next_places[parent] = low + rows_below
        places[n], next_places[n], begins[n] = low, low + own[n], begin
        if rows_below > 1:
            end = ends[n]
            same_rows = grouped[parent] and rows_below == below[parent]
            if same_rows or worth(rows_below, end - begin):
                grouped[n], begins[n] = True, end
                groups.append((begin, end, low, low + rows_below, holders[n]))

    first_places = []
    for number, own_rows in zip(number_of, rows, strict=True):
        first_places.append(places[number])
        places[number] += own_rows
    return Cascade(
        np.array(first_places, np.int64),
        np.array(begins, np.int64)[number_of],
        np.array(groups, np.int64).reshape(-1, 5),
    )


def _number(nodes: Sequence[Node | None]) -> tuple[dict[Node | None, int], list[int], list[int]]:
    """Numbers of the nodes and those above, parents first; of each its parent's number, and its
    end. Number 0 is the root's, and that of None."""
    numbers: dict[Node | None, int] = {}
    parents, ends = [0], [0]
    for leaf in dict.fromkeys(nodes):
        node, path = leaf, list[Node]()
        while node is not None and node.parent is not None and node not in numbers:
            path.append(node)
            node = node.parent
        number = numbers.get(node, 0)
        for node in reversed(path):
            parents.append(number)
            ends.append(node.end)
            numbers[node] = number = len(parents) - 1
    return numbers, parents, ends
