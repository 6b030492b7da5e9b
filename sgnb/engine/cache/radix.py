"""Radix tree over token ids: requests with a common prefix share KV slots.

RadixAttention, Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs"
(arXiv 2312.07104). The tree knows token ids and slot numbers only. Methods that remove nodes return
them; the caller frees their content. Depths and lengths are in tokens.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...events import (
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    TokenIds,
)
from .payload import Payload
from .prefix_watch import PrefixWatch

Ints = NDArray[np.int32]


@dataclass(slots=True, eq=False, repr=False)
class RadixNode:
    """An edge of the tree and the node at its end.

    Attributes:
        key: Key of the node in the parent's `children`.
        tokens: Token ids of the edge, int32[n].
        slots: KV slots of the tokens, int32[n].
        tick: Time of the last use.
        end: Tokens from the root to the node's end.
        attached: Ids of further payloads that belong to the node's end.
        locks: Number of locks on the node and on all nodes below.
        hits: Number of matches.
        copied: Host memory has a copy, or will have; set through `RadixTree.mark_copied`.
        alive: False after removal from the tree.
        queued: The heap of eviction candidates contains the node.
    """

    id: int
    parent: RadixNode | None
    key: Any
    tokens: Ints
    slots: Ints
    tick: int
    born: int = field(init=False)
    end: int = field(init=False)
    children: dict[Any, RadixNode] = field(default_factory=dict)
    attached: dict[Payload, Ints] = field(default_factory=dict)
    locks: int = 0
    hits: int = 0
    copied: bool = False
    alive: bool = True
    queued: bool = False

    def __post_init__(self) -> None:
        self.born = self.tick
        self.end = (self.parent.end if self.parent else 0) + len(self.tokens)

    def path(self) -> list[RadixNode]:
        """Return the nodes from below the root to this node."""
        nodes = []
        node: RadixNode | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def path_slots(self) -> Ints:
        """Return the slots of the tokens 0 .. end, int32[end], for reading only."""
        parts = [_NO_INTS, *(node.slots for node in self.path())]
        return parts[-1] if len(parts) < 3 else np.concatenate(parts)


_NO_INTS: Ints = np.empty(0, np.int32)

EvictionPolicy = Literal["lru", "lfu", "fifo", "slru", "cost"]
EVICTION_POLICIES: dict[EvictionPolicy, Callable[[RadixNode], Any]] = {
    "lru": lambda node: node.tick,
    "lfu": lambda node: (node.hits, node.tick),
    "fifo": lambda node: node.born,
    "slru": lambda node: (node.hits >= 2, node.tick),
    "cost": lambda node: (not node.copied, node.hits >= 2, node.tick),
}
"""Keys of nodes: the smallest key is evicted first. A node's key falls in `mark_copied` only."""


class Prefix(NamedTuple):
    """Longest prefix of a token sequence in the tree."""

    node: RadixNode  # last node whose edge agrees completely
    length: int  # cached tokens, a part of the next edge included
    key: Any = None  # of the next token in `node.children`; None if the tokens end at `node`
    child: RadixNode | None = None  # the entry of `node.children` at `key`

    @property
    def holds(self) -> bool:
        """True while the prefix is current: each change of its length changes `alive` or
        `child`."""
        return self.node.alive and self.node.children.get(self.key) is self.child


class InsertResult(NamedTuple):
    """Result of `RadixTree.insert`."""

    node: RadixNode  # end of the inserted tokens
    existing: int  # tokens already in the tree; their offered slots are duplicates


class RadixTree:
    """Radix tree with locks, pins and an eviction policy.

    Args:
        emit: Receives an event per change.
        policy: Order of eviction.

    Attributes:
        size: Number of tokens in the tree.
        locked: Number of tokens in locked nodes, which are never evicted.
        attached: Number of nodes per attached payload.
        pins: Pinned nodes by (node id, owner), the oldest first.
        watch: Sequences that wait for a change of their cached prefix.
    """

    def __init__(
        self, emit: Callable[[Any], None] = lambda event: None, policy: EvictionPolicy = "lru"
    ) -> None:
        self.eviction_key = EVICTION_POLICIES[policy]
        self._emit = emit
        self._tick = 0
        self._ids = itertools.count(1)
        self._leaves: list[tuple[Any, int, RadixNode]] = []
        self.size = 0
        self.locked = 0
        self.root = RadixNode(0, None, None, _NO_INTS, _NO_INTS, 0)
        self.attached: Counter[Payload] = Counter()
        self.pins: dict[tuple[int, str], RadixNode] = {}
        self.watch = PrefixWatch()

    @property
    def evictable(self) -> int:
        """Number of tokens in unlocked nodes."""
        return self.size - self.locked

    def nodes(self, below: RadixNode | None = None) -> Iterator[RadixNode]:
        """Iterate over all nodes below a node (default: the root), parents before children."""
        stack = list((below or self.root).children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def peek(self, tokens: Ints, namespace: str = "", hint: Prefix | None = None) -> Prefix:
        """Return the longest prefix of `tokens` in the tree, without any change to the tree.

        Args:
            tokens: Token ids.
            namespace: Part of the cache to search.
            hint: Result of an earlier `peek` of the same tokens; the search starts there.
        """
        if hint is not None and hint.holds:
            return hint
        node = hint.node if hint is not None else self.root
        while not node.alive:
            assert node.parent is not None
            node = node.parent
        return self._descend(node, tokens, namespace)

    def match(self, tokens: Ints, namespace: str = "", hint: Prefix | None = None) -> RadixNode:
        """Return the node at the end of the longest prefix of `tokens`.

        Splits an edge if the prefix ends inside, and marks the path as used.

        Args:
            tokens: Token ids.
            namespace: Part of the cache to search.
            hint: Result of a `peek` of the same or more tokens; the search starts there.
        """
        prefix, start = hint, self.root
        if prefix is None or prefix.length > len(tokens) or not prefix.holds:
            if hint is not None and hint.node.alive and hint.node.end <= len(tokens):
                start = hint.node
            prefix = self._descend(start, tokens, namespace)
        node, common = prefix.node, prefix.length - prefix.node.end
        if common and prefix.child is not None:
            node = self._split(prefix.child, common)
        self._touch(node, hits=1)
        return node

    def _descend(self, node: RadixNode, tokens: Ints, namespace: str) -> Prefix:
        """Return the longest prefix. `node` lies on the path of `tokens`."""
        while True:
            if node.end == len(tokens):
                return Prefix(node, node.end)
            key = _child_key(node, tokens, namespace)
            child = node.children.get(key)
            common = 0 if child is None else common_length(child.tokens, tokens[node.end :])
            if child is None or common < len(child.tokens):
                return Prefix(node, node.end + common, key, child)
            node = child

    def insert(
        self,
        tokens: Ints,
        slots: Ints,
        namespace: str = "",
        start: RadixNode | None = None,
        request: int = 0,
    ) -> InsertResult:
        """Store `tokens` with the KV slots `slots`.

        Args:
            tokens: Token ids from the root on, int32[n].
            slots: KV slots of the tokens, int32[n].
            namespace: Part of the cache for the tokens.
            start: A node on the path, where the search starts. `existing` counts tokens behind.
            request: Id of the request with the tokens, for the event.
        """
        begin = node = start or self.root
        existing = len(tokens) - begin.end
        while node.end < len(tokens):
            key = _child_key(node, tokens, namespace)
            child = node.children.get(key)
            if child is None:
                existing = node.end - begin.end
                node = self._add(node, key, tokens, slots, namespace, request)
                break
            common = common_length(child.tokens, tokens[node.end :])
            node = child if common == len(child.tokens) else self._split(child, common)
        self._touch(node)
        return InsertResult(node, existing)

    def lock(self, node: RadixNode) -> None:
        """Protect the node and its path from eviction. Each `lock` needs an `unlock`."""
        self._change_locks(node, 1)

    def unlock(self, node: RadixNode) -> None:
        """Undo a `lock`."""
        self._change_locks(node, -1)

    def pin(self, node: RadixNode, owner: str) -> None:
        """Lock the node until `unpin`, once per owner."""
        if node is not self.root and (node.id, owner) not in self.pins:
            self.pins[node.id, owner] = node
            self.lock(node)
            self._emit(NodePinned(node.id, owner, 1))

    def unpin(self, node: RadixNode, owner: str) -> None:
        """Undo `pin`."""
        del self.pins[node.id, owner]
        self._emit(NodePinned(node.id, owner, -1))
        self.unlock(node)

    def mark_copied(self, node: RadixNode) -> None:
        """Mark the node's tokens as copied to host memory."""
        node.copied, node.queued = True, False
        self._queue(node)

    def attach(self, node: RadixNode, payload: Payload, ids: Ints) -> None:
        """Attach units of a payload to a node without units of this payload."""
        node.attached[payload] = ids
        self.attached[payload] += 1

    def detach(self, node: RadixNode, payload: Payload) -> Ints:
        """Undo `attach`. Returns the ids of the units."""
        self.attached[payload] -= 1
        return node.attached.pop(payload)

    def evict(self, count: int) -> list[RadixNode]:
        """Remove unlocked leaves, smallest policy key first, until at least `count` tokens are
        removed or no unlocked leaf is left. A parent without children becomes a leaf.

        Returns:
            The removed nodes.
        """
        removed: list[RadixNode] = []
        while count > 0 and self._leaves:
            key, _, node = heapq.heappop(self._leaves)
            node.queued = False
            if not node.alive or node.children or node.locks:
                continue
            if key != self.eviction_key(node):
                self._queue(node)
                continue
            removed.append(node)
            count -= len(node.slots)
            self._remove(node, "memory")
        return removed

    def flush(self, namespace: str | None = None, reason: str = "flush") -> list[RadixNode]:
        """Remove all unlocked nodes of a namespace (default: of all namespaces). Returns the
        removed nodes. reason: of the `NodeEvicted` events."""
        tops = [n for (space, _), n in self.root.children.items() if namespace in (None, space)]
        return self._clear(tops, reason)

    def cut(self, top: RadixNode) -> list[RadixNode]:
        """Remove a node and all nodes below, except locked nodes. Returns the removed nodes."""
        return self._clear([top], "hand")

    def _clear(self, tops: list[RadixNode], reason: str) -> list[RadixNode]:
        nodes = [node for top in tops for node in (top, *self.nodes(top))]
        removed = [node for node in reversed(nodes) if not node.locks]
        for node in removed:
            self._remove(node, reason)
        self._leaves = [leaf for leaf in self._leaves if leaf[-1].alive]
        heapq.heapify(self._leaves)
        return removed

    def discard(self, tokens: Ints, namespace: str = "") -> list[RadixNode]:
        """Remove the unlocked nodes on the path of `tokens` and all nodes below, pinned nodes
        included. Returns the removed nodes."""
        path = self.peek(tokens, namespace).node.path()
        for (_, owner), pinned in list(self.pins.items()):
            if path and path[0] in pinned.path():
                self.unpin(pinned, owner)
        top = next((node for node in path if not node.locks), None)
        return [] if top is None else self._clear([top], "spoilt")

    def _add(
        self, parent: RadixNode, key: Any, tokens: Ints, slots: Ints, namespace: str, request: int
    ) -> RadixNode:
        edge = tokens[parent.end :].copy()
        node = RadixNode(next(self._ids), parent, key, edge, slots[parent.end :].copy(), self._tick)
        parent.children[key] = node
        self.watch.child_changed(parent.id, key)
        self.size += len(edge)
        space = namespace if parent is self.root else ""
        self._emit(NodeAdded(node.id, parent.id, TokenIds(edge.tobytes()), space, request))
        self._queue(node)
        return node

    def _split(self, node: RadixNode, length: int) -> RadixNode:
        """Move the first `length` tokens of `node` to a new node above. Returns the new node."""
        parent = node.parent
        assert parent is not None
        upper = RadixNode(
            next(self._ids), parent, node.key, node.tokens[:length], node.slots[:length], node.tick
        )
        upper.locks, upper.hits, upper.born = node.locks, node.hits, node.born
        upper.copied = node.copied
        node.parent, node.tokens, node.slots = upper, node.tokens[length:], node.slots[length:]
        node.key = node.tokens[0].item()
        parent.children[upper.key] = upper
        upper.children[node.key] = node
        self.watch.child_changed(parent.id, upper.key)
        self._emit(NodeSplit(node.id, upper.id, length))
        return upper

    def _remove(self, node: RadixNode, reason: str) -> None:
        parent = node.parent
        assert parent is not None
        del parent.children[node.key]
        node.alive = False
        self.watch.node_removed(parent.id, node.key, node.id)
        self.size -= len(node.tokens)
        for payload in node.attached:
            self.attached[payload] -= 1
        self._emit(NodeEvicted(node.id, reason))
        if not parent.children:
            self._queue(parent)

    def _change_locks(self, node: RadixNode, delta: int) -> None:
        if node is self.root:
            return
        self._emit(NodeLocked(node.id, delta))
        above = node

        while above.parent is not None:
            num_locks = above.locks
            above.locks += delta
            if num_locks == 0:
                self.locked += len(above.tokens)
            elif above.locks == 0:
                self.locked -= len(above.tokens)
            above = above.parent
        if delta < 0:
            self._queue(node)

    def _touch(self, node: RadixNode, hits: int = 0) -> None:
        if node is self.root:
            return
        self._tick += 1
        self._emit(NodeTouched(node.id, self._tick))
        while node.parent is not None:
            node.tick = self._tick
            node.hits += hits
            node = node.parent

    def _queue(self, node: RadixNode) -> None:
        """Add an unlocked leaf to the eviction candidates. `evict` checks the key again, so a stale
        key is harmless."""
        if node.parent is not None and not (node.queued or node.children or node.locks):
            node.queued = True
            heapq.heappush(self._leaves, (self.eviction_key(node), node.id, node))


def common_length(a: Ints, b: Ints) -> int:
    """Return the number of equal leading elements."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    return n if a.tobytes() == b.tobytes() else int((a != b).argmax())


def _child_key(node: RadixNode, tokens: Ints, namespace: str) -> Any:
    """Return the key of the child along `tokens`. Keys at the root contain the namespace."""
    token = tokens.item(node.end)
    return token if node.parent is not None else (namespace, token)
