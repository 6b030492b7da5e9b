"""Cascade groups: prefixes shared by rows of a step. Knows the radix tree; no tensors, no kernels.

A group is a range of positions with the same KV for several requests. The KV is read once for all
rows of the group (RadixAttention, Zheng et al., arXiv 2312.07104). Groups nest like the nodes of
the radix tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..step_input import AttentionInput, Longs, number_nodes


class Cascade(NamedTuple):
    """Rows of a step in depth-first order of the tree; rows of a group are adjacent."""

    first_places: Longs  # [requests], index of each request's first row in this order
    own_from: Longs  # [requests], first position of each request outside all groups
    # [n, 5], parents first: begin and end position, low and high index, a member request
    groups: Longs


def find_cascade(
    step: AttentionInput, rows: Sequence[int], worth: Callable[[int, int], bool]
) -> Cascade:
    """Find the prefixes that are worth reading once for several rows.

    Args:
        step: The rows of the step.
        rows: Number of rows of each sequence.
        worth: worth(rows, tokens) returns True if reading `tokens` common tokens once for `rows`
            rows pays off. Any other prefix is merged into the groups below.
    """
    nodes = step.nodes
    numbers, parents, ends = number_nodes(nodes)
    count, number_of = len(parents), [numbers.get(node, 0) for node in nodes]

    # Bottom up: number of rows in each subtree, and a request of the subtree.
    rows_at, holders = [0] * count, [0] * count
    for i, number in enumerate(number_of):
        rows_at[number] += rows[i]
        holders[number] = i
    below = rows_at.copy()
    for n in range(count - 1, 0, -1):
        below[parents[n]] += below[n]
        holders[parents[n]] = holders[n]

    # Top down: rows of a node precede rows of the children, children in order.
    begins, grouped, groups = [0] * count, [False] * count, []
    places, next_places = [0] * count, [rows_at[0]] + [0] * (count - 1)
    for n in range(1, count):
        parent, rows_below = parents[n], below[n]
        begin, low = begins[parent], next_places[parent]
        next_places[parent] = low + rows_below
        places[n], next_places[n], begins[n] = low, low + rows_at[n], begin
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
