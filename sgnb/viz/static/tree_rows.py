"""Lines of a printed radix tree. Knows no text of the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ..state.tree import ROOT, TreeNode, TreeState

TREE_ROWS = 40
"""Maximum number of printed nodes, by default."""

MAX_CHILDREN = 8
"""Maximum children shown per node of a truncated tree."""


class Line(NamedTuple):
    """A line of a printed tree."""

    stem: str  # line-drawing characters to the left
    node: TreeNode | None  # None for a line about `hidden` nodes
    hidden: int = 0


def shown(tree: TreeState, budget: int) -> tuple[set[int], Counter[int]]:
    """Return the `budget` most recently used nodes, and the number of hidden nodes below each.

    A parent is at least as recent as the children and wins ties, so parents come first.

    Args:
        tree: State of the tree.
        budget: Maximum number of nodes.
    """
    max_children = MAX_CHILDREN if len(tree.nodes) - 1 > budget else len(tree.nodes)
    visible_ids, hidden, num_shown = {ROOT}, Counter[int](), Counter[int]()
    for node in sorted(walk(tree), key=lambda node: -node.tick):
        if (
            len(visible_ids) <= budget
            and node.parent in visible_ids
            and num_shown[node.parent] < max_children
        ):
            visible_ids.add(node.id)
            num_shown[node.parent] += 1
            continue
        above = node.parent
        while above not in visible_ids:
            above = tree.nodes[above].parent
        hidden[above] += 1

    return visible_ids, hidden


def walk(tree: TreeState) -> Iterator[TreeNode]:
    """Yield every node except the root, parents first, siblings in order."""
    stack = tree.children(tree.root)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack += tree.children(node)[::-1]


def rows(tree: TreeState, budget: int = TREE_ROWS) -> Iterator[Line]:
    """Yield the lines of a printed tree.

    Args:
        tree: State of the tree.
        budget: Maximum number of nodes; the most recently used nodes are shown.
    """
    visible_ids, hidden = shown(tree, budget)

    stack: list[tuple[str, TreeNode | int, bool]] = []

    def push(stem: str, node: TreeNode) -> None:
        items: list[TreeNode | int] = [
            child for child in tree.children(node) if child.id in visible_ids
        ]
        items += [hidden[node.id]] if hidden[node.id] else []
        stack.extend((stem, item, i == 0) for i, item in enumerate(reversed(items)))

    push("", tree.root)
    while stack:
        stem, item, last = stack.pop()
        branch = stem + ("└─ " if last else "├─ ")
        if isinstance(item, int):
            yield Line(branch, None, item)
        else:
            yield Line(branch, item)
            push(stem + ("   " if last else "│  "), item)
