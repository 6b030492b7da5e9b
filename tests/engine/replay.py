"""A radix tree rebuilt from events alone: what the tests compare the engine's own tree with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sgnb.engine.cache.radix import RadixTree
from sgnb.events import (
    CheckpointDropped,
    CheckpointKept,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
)


@dataclass
class Mirror:
    """A node as the events tell it. `hits` and `copied` are kept by the test, which changes both
    without an event."""

    id: int
    parent: int
    tokens: tuple[int, ...]
    namespace: str
    born: int
    locks: int = 0
    tick: int = 0
    hits: int = 0
    copied: bool = False
    checkpoint: bool = False


@dataclass
class Replay:
    """`apply` takes one event; `evicted` lists (node, reason) in the order it happened, `pins`
    (node, owner)."""

    nodes: dict[int, Mirror] = field(default_factory=dict)
    evicted: list[tuple[int, str]] = field(default_factory=list)
    pins: list[tuple[int, str]] = field(default_factory=list)

    def apply(self, event: Any) -> None:
        nodes = self.nodes
        match event:
            case NodeAdded(node, parent, tokens, namespace):
                assert (
                    node not in nodes
                    and (parent in nodes or parent == 0)
                    and (not namespace or parent == 0)
                )
                nodes[node] = Mirror(node, parent, tokens, namespace, born=node)
            case NodeSplit(node, upper, length):
                old = nodes[node]
                assert 0 < length < len(old.tokens)
                nodes[upper] = Mirror(
                    upper,
                    old.parent,
                    old.tokens[:length],
                    old.namespace,
                    old.born,
                    old.locks,
                    old.tick,
                    old.hits,
                    old.copied,
                )
                old.parent, old.tokens, old.namespace = upper, old.tokens[length:], ""
            case NodeEvicted(node, reason):
                assert not self.children(node) and not nodes[node].locks
                del nodes[node]
                self.evicted.append((node, reason))
            case CheckpointKept(node):
                assert not nodes[node].checkpoint
                nodes[node].checkpoint = True
            case CheckpointDropped(node):
                assert nodes[node].checkpoint
                nodes[node].checkpoint = False
            case NodeLocked(node, delta):
                for held in self.path(node):
                    held.locks += delta
                    assert held.locks >= 0
            case NodePinned(node, owner, delta):
                assert ((node, owner) in self.pins) == (delta < 0)
                (self.pins.append if delta > 0 else self.pins.remove)((node, owner))
            case NodeTouched(node, tick):
                for used in self.path(node):
                    assert tick > used.tick
                    used.tick = tick

    def path(self, node: int) -> list[Mirror]:
        """From the node up to below the root."""
        found = []
        while node:
            found.append(self.nodes[node])
            node = self.nodes[node].parent
        return found

    def children(self, node: int) -> list[Mirror]:
        return [other for other in self.nodes.values() if other.parent == node]

    def tokens(self, node: int) -> tuple[int, ...]:
        """All tokens from the root to the end of the node."""
        return tuple(t for part in reversed(self.path(node)) for t in part.tokens)

    def namespace(self, node: int) -> str:
        return self.path(node)[-1].namespace

    def victims(self, count: int, key: Callable[[Mirror], Any]) -> list[int]:
        """Which nodes an eviction of `count` tokens takes, in order: always the unlocked leaf with
        the smallest key."""
        left, taken = dict(self.nodes), []
        while count > 0:
            parents = {node.parent for node in left.values()}
            leaves = [node for node in left.values() if node.id not in parents and not node.locks]
            if not leaves:
                break
            victim = min(leaves, key=key)
            taken.append(victim.id)
            count -= len(left.pop(victim.id).tokens)
        return taken

    def rows(self) -> list[dict[str, Any]]:
        """In the form of `Engine.tree`, sorted by id."""
        return [
            {"id": n.id, "parent": n.parent, "tokens": n.tokens, "locks": n.locks, "tick": n.tick,
             "checkpoint": n.checkpoint}
            for n in sorted(self.nodes.values(), key=lambda n: n.id)
        ]  # fmt: skip


def tree_rows(tree: RadixTree) -> list[dict[str, Any]]:
    """The engine's own tree in the same form."""
    rows = [
        {"id": n.id, "parent": n.parent.id if n.parent else 0, "tokens": tuple(n.tokens.tolist()),
         "locks": n.locks, "tick": n.tick, "checkpoint": bool(n.attached)}
        for n in tree.nodes()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["id"])
