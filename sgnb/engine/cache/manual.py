"""Manual operations on the cache: pin a prefix, unpin, evict a subtree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from ...errors import OptionError, shown
from .manager import CacheManager
from .radix import Ints, RadixNode, RadixTree


class EvictionReport(NamedTuple):
    """Result of the eviction of a subtree, in tokens."""

    freed: int
    bytes: int  # of the freed keys and values
    nodes: int  # removed nodes
    in_use: int  # tokens that running requests use
    pinned: int  # tokens that only pins protect

    def line(self) -> str:
        """Return the result as one line of text."""
        size = f"{self.bytes / 2**20:.1f} MiB" if self.bytes >= 2**20 else f"{self.bytes:,} bytes"
        parts = [f"freed {self.freed:,} tokens ({size}) of {self.nodes} nodes"]
        parts += [f"{self.in_use:,} stay: running requests use them"] if self.in_use else []
        parts += [f"{self.pinned:,} stay: pinned"] if self.pinned else []
        return "; ".join(parts)


def pin(
    tree: RadixTree,
    target: int | Ints,
    owner: str,
    namespace: str = "",
    check: Callable[[RadixNode], object] = lambda node: None,
) -> int:
    """Protect a node and its path from eviction.

    Args:
        tree: The radix tree.
        target: Id of a node, or a prompt whose cached prefix is pinned and counts as used.
        owner: Name of the pin's owner, for `unpin`.
        namespace: Part of the cache, for a prompt.
        check: Called with the node before the pin; an error prevents the pin.

    Returns:
        Tokens from the root to the end of the node.

    Raises:
        OptionError: If the tree has no node with the id.
    """
    node = find(tree, target) if isinstance(target, int) else tree.match(target, namespace)
    check(node)
    tree.pin(node, owner)
    return node.end


def unpin(tree: RadixTree, node: int | None = None, owner: str | None = None) -> int:
    """Undo the pins of a node, of an owner, or all pins. Returns the number of undone pins."""
    chosen = [
        (pinned, name)
        for (id, name), pinned in tree.pins.items()
        if node in (None, id) and owner in (None, name)
    ]
    for pinned, name in chosen:
        tree.unpin(pinned, name)
    return len(chosen)


def pins(tree: RadixTree) -> list[dict[str, Any]]:
    """Return node, owner and tokens from the root of each pin, the oldest first."""
    return [
        {"node": id, "owner": owner, "tokens": node.end} for (id, owner), node in tree.pins.items()
    ]


def evict(cache: CacheManager, id: int) -> EvictionReport:
    """Evict a node and all nodes below, except nodes in use and pinned nodes.

    Raises:
        OptionError: If the tree has no node with the id.
    """
    tree = cache.tree
    top = find(tree, id)
    locked = [node for node in (top, *tree.nodes(top)) if node.locks]
    pin_counts = Counter(above.id for pinned in tree.pins.values() for above in pinned.path())

    removed = tree.cut(top)
    freed = cache.free(removed)
    in_use = sum(len(node.tokens) for node in locked if node.locks > pin_counts[node.id])
    pinned = sum(len(node.tokens) for node in locked) - in_use
    return EvictionReport(freed, freed * cache.slots.unit_bytes, len(removed), in_use, pinned)


def find(tree: RadixTree, id: int) -> RadixNode:
    """Return the node with an id.

    Raises:
        OptionError: If the tree has no node with the id.
    """
    node = next((node for node in tree.nodes() if node.id == id), None)
    if node is None:
        hint = "the view of the tree and engine.tree() show the ids of cached nodes"
        raise OptionError(f"the cache has no node {shown(id)}", hint)
    return node


def tree_nodes(cache: CacheManager) -> list[dict[str, Any]]:
    """See `Engine.tree`."""
    checkpoints = cache.checkpoints
    return [
        {
            "id": node.id,
            "parent": node.parent.id if node.parent else 0,
            "tokens": tuple(node.tokens.tolist()),
            "locks": node.locks,
            "tick": node.tick,
            "checkpoint": checkpoints is not None and checkpoints.has(node),
        }
        for node in cache.tree.nodes()
    ]
