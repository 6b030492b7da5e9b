"""The radix tree as events, for a reader of the log that starts late."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from ...events import CheckpointKept, NodeAdded, NodeLocked, NodePinned, NodeTouched, TokenIds
from .manager import CacheManager
from .radix import RadixTree


class EngineSnapshot(NamedTuple):
    """Present names of tokens and radix tree of an engine, for a reader that starts late.

    Attributes:
        last: Number of the last record of the engine's log. Of the host's log for an engine in a
            host process.
        time: Time on the clock of `log`.
        events: Events that rebuild the names and the tree, parents first.
    """

    last: int
    time: float
    events: list[Any]


def tree_events(cache: CacheManager) -> list[Any]:
    """Return events that rebuild the tree of `cache`. Call on the engine's thread."""
    tree, checkpoints = cache.tree, cache.checkpoints
    events: list[Any] = list(_added_nodes(tree))
    if checkpoints is not None:
        events += [CheckpointKept(node.id) for node in tree.nodes() if checkpoints.has(node)]
    for node in sorted(tree.nodes(), key=attrgetter("tick")):
        events.append(NodeTouched(node.id, node.tick))
        locks = node.locks - sum(child.locks for child in node.children.values())
        if locks:
            events.append(NodeLocked(node.id, locks))
    events += [NodePinned(id, owner, 1) for id, owner in tree.pins]
    return events


def _added_nodes(tree: RadixTree) -> list[NodeAdded]:
    """Return the nodes, parents before children."""
    root = tree.root
    return [
        NodeAdded(
            node.id,
            parent.id,
            TokenIds(node.tokens.tobytes()),
            node.key[0] if parent is root else "",
        )
        for node in tree.nodes()
        if (parent := node.parent) is not None
    ]
