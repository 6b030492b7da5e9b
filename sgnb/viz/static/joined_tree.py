"""Radix tree with chains of nodes as one node. A later prompt may split a node without a change of
the cached text; the joined tree, and thus the text of a saved notebook, stays equal."""

from __future__ import annotations

import copy
from dataclasses import replace

from ..state.tree import ROOT, TreeNode, TreeState


def joined_tree(tree: TreeState) -> TreeState:
    """Return a tree for display: a node without marks and with one child joins the child.

    Args:
        tree: State of the tree; unchanged.
    """
    joined = copy.copy(tree)
    joined.nodes = {ROOT: replace(tree.root, children={})}
    stack = [(ROOT, child) for child in reversed(tree.children(tree.root))]
    while stack:
        parent, node = stack.pop()
        last, tokens = node, list(node.tokens)
        while (child := _only_child(tree, last)) is not None:
            tokens += child.tokens
            last = child

        whole = replace(
            node, id=last.id, parent=parent, tokens=tokens, checkpoint=last.checkpoint, children={}
        )
        joined.nodes[whole.id] = whole
        joined.nodes[parent].children[whole.key] = whole.id
        stack += [(whole.id, child) for child in reversed(tree.children(last))]

    return joined


def _only_child(tree: TreeState, node: TreeNode) -> TreeNode | None:
    """Return the child that a node without marks joins, or None."""
    if len(node.children) != 1 or node.checkpoint or node.id in tree.pins:
        return None
    child = tree.children(node)[0]
    return child if child.locks == node.locks else None
