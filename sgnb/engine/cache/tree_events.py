"""The radix tree as events, for a reader of the log that starts late."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from ...events import CheckpointKept, NodeLocked, NodePinned, NodeTouched
from .manager import CacheManager
from .manual import added_nodes


def tree_events(cache: CacheManager) -> list[Any]:
    """Return events that rebuild the tree of `cache`. Call on the engine's thread."""
    tree, checkpoints = cache.tree, cache.checkpoints
    events: list[Any] = list(added_nodes(tree))
    if checkpoints is not None:
        events += [CheckpointKept(node.id) for node in tree.nodes() if checkpoints.has(node)]
    for node in sorted(tree.nodes(), key=attrgetter("tick")):
        events.append(NodeTouched(node.id, node.tick))
        locks = node.locks - sum(child.locks for child in node.children.values())
        if locks:
            events.append(NodeLocked(node.id, locks))
    events += [NodePinned(id, owner, 1) for id, owner in tree.pins]
    return events
