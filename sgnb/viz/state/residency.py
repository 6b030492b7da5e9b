"""Copies of the tokens of tree nodes, and evicted nodes with copies. Pure.

The live page has the same functions (`page/residency.js`).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import NamedTuple

from .copied_blocks import START, WHERE, CopiedBlocks
from .tree import TreeNode, TreeState

MAX_OUTLINES = 400
"""Maximum number of evicted nodes in a view."""


class _VisitedNode(NamedTuple):
    """A node during the walk over the tree, with the last block on the path."""

    node: TreeNode
    block: int
    rest: tuple[int, ...]  # tokens after the block


class _NewOutline(NamedTuple):
    """An outline to add."""

    first: int  # block
    above: int  # node
    tokens: list[int]


def words_of_copies(node: TreeNode) -> str:
    """Return the copies of a node in words, first of the whole node, or "" without copies."""
    counts = {where: node.copied[name] for name, where in WHERE.items() if name in node.copied}
    parts = [where for where, count in counts.items() if count == len(node.tokens)]
    parts += [f"{count:,} {where}" for where, count in counts.items() if count < len(node.tokens)]
    text = " and ".join(parts)
    if node.is_outline:
        return f"evicted, {text}" if text else "evicted"
    return f"also {text}" if text else ""


def with_copies(tree: TreeState) -> TreeState:
    """Return a tree for display: `copied` is set, and evicted nodes with copies are added as
    outlines. Returns the unchanged tree if no block was ever copied."""
    copies = tree.copies
    if not copies.blocks:
        return tree

    shown = copy.copy(tree)
    shown.nodes = {
        id: replace(node, children=dict(node.children), copied={})
        for id, node in tree.nodes.items()
    }
    covered = _mark_copies(shown, copies)
    _add_outlines(shown, copies, covered)
    return shown


def _mark_copies(tree: TreeState, copies: CopiedBlocks) -> set[int]:
    """Set `copied` of each node. Returns the blocks in the tree."""
    covered: set[int] = set()
    stack = [
        _VisitedNode(node, START, ()) for node in tree.children(tree.root) if not node.namespace
    ]
    while stack:
        node, block, rest = stack.pop()
        tokens, at = (*rest, *node.tokens), 0
        while (number := copies.find(block, tokens, at)) is not None:
            block, length = number, len(copies.blocks[number].tokens)
            covered.add(block)
            at += length
            for name in copies.blocks[block].stores:
                node.copied[name] = node.copied.get(name, 0) + min(length, at - len(rest))

        if len(tokens) - at < copies.length:  # otherwise no block follows
            stack += [_VisitedNode(child, block, tokens[at:]) for child in tree.children(node)]

    return covered


def _add_outlines(tree: TreeState, copies: CopiedBlocks, covered: set[int]) -> None:
    """Add the blocks outside of the tree that have a copy at the end or below."""
    below: dict[int, list[int]] = {}
    for number in sorted(copies.blocks, reverse=True):
        block = copies.blocks[number]
        if number not in covered and (block.stores or number in below):
            below.setdefault(block.parent, []).insert(0, number)

    tops = (number for parent in (START, *covered) for number in below.get(parent, ()))
    stack = [_attach(tree, copies, number) for number in sorted(tops, reverse=True)]
    for _ in range(MAX_OUTLINES):
        if not stack:
            break
        first, above, tokens = stack.pop()
        last, stores = first, copies.blocks[first].stores
        while (following := below.get(last, [])) and len(following) == 1:
            if copies.blocks[following[0]].stores != stores:
                break
            last = following[0]
            tokens += copies.blocks[last].tokens

        node = TreeNode(-first, above, tokens, is_outline=True)
        node.copied = dict.fromkeys(stores, len(tokens))
        tree.nodes[node.id] = node
        tree.nodes[above].children["", node.id] = node.id
        stack += [
            _NewOutline(number, node.id, list(copies.blocks[number].tokens))
            for number in reversed(below.get(last, ()))
        ]


def _attach(tree: TreeState, copies: CopiedBlocks, number: int) -> _NewOutline:
    """Return the outline of the first block outside of the tree, below the last node on the path of
    the block."""
    path, node, end = copies.path(number), tree.root, 0
    while end < len(path):
        child = node.children.get(("", path[end]))
        if child is None:
            break
        tokens = list(tree.nodes[child].tokens)
        if tokens != path[end : end + len(tokens)]:
            break
        node, end = tree.nodes[child], end + len(tokens)

    return _NewOutline(number, node.id, path[end:])
