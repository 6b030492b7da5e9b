"""What a person does to the cache by hand: keep a prefix, let go of it, evict a subtree."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from ...errors import OptionError
from .radix import Ints, Node, RadixTree
from .slot_allocator import SlotAllocator


class Evicted(NamedTuple):
    """What became of a subtree, in tokens."""

    freed: int
    bytes: int  # of the keys and values freed
    nodes: int  # removed
    in_use: int  # stay: running requests use them
    pinned: int  # stay for pins alone

    def line(self) -> str:
        """One line, for people."""
        size = f"{self.bytes / 2**20:.1f} MiB" if self.bytes >= 2**20 else f"{self.bytes:,} bytes"
        parts = [f"freed {self.freed:,} tokens ({size}) of {self.nodes} nodes"]
        parts += [f"{self.in_use:,} stay: running requests use them"] if self.in_use else []
        parts += [f"{self.pinned:,} stay: pinned"] if self.pinned else []
        return "; ".join(parts)


def pin(tree: RadixTree, what: int | Ints, owner: str, namespace: str = "") -> int:
    """Keep a node by its id, or the cached prefix of a prompt, which counts as a use, with all
    above. Returns the tokens from the root to its end."""
    node = find(tree, what) if isinstance(what, int) else tree.match(what, namespace)
    tree.pin(node, owner)
    return node.end


def unpin(tree: RadixTree, node: int | None = None, owner: str | None = None) -> int:
    """Undo the pins of a node, of an owner, or all. Returns how many those were."""
    chosen = [
        (pinned, name)
        for (id, name), pinned in tree.pins.items()
        if node in (None, id) and owner in (None, name)
    ]
    for pinned, name in chosen:
        tree.unpin(pinned, name)
    return len(chosen)


def pins(tree: RadixTree) -> list[dict[str, Any]]:
    """Node, owner and tokens from the root of each pin, the oldest first."""
    return [
        {"node": id, "owner": owner, "tokens": node.end} for (id, owner), node in tree.pins.items()
    ]


def evict(tree: RadixTree, pool: SlotAllocator, id: int, token_bytes: int) -> Evicted:
    """Free what nobody uses of a node and of all below it."""
    top = find(tree, id)
    nodes = [top, *tree.nodes(top)]
    kept = [node for node in nodes if node.locks]
    held = Counter(above.id for pinned in tree.pins.values() for above in pinned.path())
    slots = tree.cut(top)
    for part in slots:
        pool.release(part)
    freed = sum(map(len, slots))
    in_use = sum(len(node.tokens) for node in kept if node.locks > held[node.id])
    pinned = sum(len(node.tokens) for node in kept) - in_use
    return Evicted(freed, freed * token_bytes, len(slots), in_use, pinned)


def pinned_tokens(tree: RadixTree) -> int:
    """Tokens that some pin keeps."""
    held = {above for pinned in tree.pins.values() for above in pinned.path()}
    return sum(len(node.tokens) for node in held)


def find(tree: RadixTree, id: int) -> Node:
    """The node of that id. OptionError where there is none."""
    found = next((node for node in tree.nodes() if node.id == id), None)
    if found is None:
        hint = "the tree's views and engine.tree() have the ids of those that are cached now"
        raise OptionError(f"the cache has no node {id}", hint)
    return found
