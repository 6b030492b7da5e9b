"""The radix tree that shares KV slots between requests with a common prefix. Knows token ids and
slot numbers only.

RadixAttention, Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs"
(arXiv 2312.07104). The tree owns the slots stored in it. Methods that free slots return them; the
caller gives them back to the pool. Depths and lengths are in tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...events import (
    CheckpointDropped,
    CheckpointKept,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    Tokens,
)

Ints = NDArray[np.int32]

NO_STATE = -1


class Node:
    """An edge of the tree and the node at its end: `tokens` and their KV `slots`, both int32 of one
    length.

    A node with a `state` is a checkpoint: there lie the states of a model's recurrent layers after
    its last token.
    """

    __slots__ = (
        "alive",
        "born",
        "children",
        "end",
        "hits",
        "id",
        "key",
        "locks",
        "parent",
        "queued",
        "slots",
        "state",
        "tick",
        "tokens",
    )

    def __init__(
        self, id: int, parent: Node | None, key: Any, tokens: Ints, slots: Ints, tick: int
    ) -> None:
        self.id = id
        self.parent = parent
        self.key = key  # where the parent's `children` holds it
        self.tokens = tokens
        self.slots = slots
        self.end: int = (parent.end if parent else 0) + len(tokens)
        self.children: dict[Any, Node] = {}
        self.locks = 0
        self.born: int = tick
        self.tick: int = tick
        self.hits: int = 0
        self.alive = True
        self.queued = False
        self.state: int = NO_STATE

    def path(self) -> list[Node]:
        """The nodes from below the root to this one."""
        nodes = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def path_slots(self) -> Ints:
        """The slots of the tokens 0 .. end, int32[end]."""
        return np.concatenate([_NO_INTS, *(node.slots for node in self.path())])

    def checkpoint(self, end: int) -> Node:
        """The lowest node from this one up that has a state and at most `end` tokens from the root;
        the root where there is none."""
        node = self
        while node.parent is not None and (node.state == NO_STATE or node.end > end):
            node = node.parent
        return node


_NO_INTS: Ints = np.empty(0, np.int32)

EvictionPolicy = Literal["lru", "lfu", "fifo", "slru"]
EVICTION_POLICIES: dict[EvictionPolicy, Callable[[Node], Any]] = {
    "lru": lambda node: node.tick,
    "lfu": lambda node: (node.hits, node.tick),
    "fifo": lambda node: node.born,
    "slru": lambda node: (node.hits >= 2, node.tick),
}
"""What is evicted first has the smallest key. A node's key must never fall while it is in the
tree."""


class Prefix(NamedTuple):
    """How far a sequence of tokens is in the tree."""

    node: Node  # has the last token or, when a part of an edge agrees, lies just above it
    length: int  # tokens that are in the tree
    key: Any = None  # in `node.children`, of the next token; None where the tokens end at `node`
    child: Node | None = None  # what `node.children` held there

    @property
    def holds(self) -> bool:
        """Whether it is still so: nothing can lengthen or shorten it without changing one of
        these."""
        return self.node.alive and self.node.children.get(self.key) is self.child


class Inserted(NamedTuple):
    """What became of the tokens that were offered."""

    node: Node  # at which they end
    existing: int  # tokens that were in the tree already, whose offered slots are duplicates


class RadixTree:
    """`size` tokens are stored, `locked` of them in nodes that some request uses and that are never
    evicted."""

    def __init__(
        self, emit: Callable[[Any], None] = lambda event: None, policy: EvictionPolicy = "lru"
    ) -> None:
        self.value = EVICTION_POLICIES[policy]  # what is worth least has the smallest
        self._emit = emit
        self._tick = 0
        self._next_id = 1
        self._leaves: list[tuple[Any, int, Node]] = []
        self.size = 0
        self.locked = 0
        self.root = Node(0, None, None, _NO_INTS, _NO_INTS, 0)
        self.on_remove: Callable[[Node], None] = lambda node: None  # told of each that leaves
        self.pins: dict[tuple[int, str], Node] = {}  # by (node id, owner), the oldest first

    @property
    def evictable(self) -> int:
        return self.size - self.locked

    def nodes(self, below: Node | None = None) -> Iterator[Node]:
        """Every node below one, by default the root, parents before children."""
        stack = list((below or self.root).children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def peek(self, tokens: Ints, namespace: str = "", hint: Prefix | None = None) -> Prefix:
        """The longest prefix of `tokens` in the tree. Changes nothing.

        hint: what an earlier peek of the same tokens gave; the search goes on from there.
        """
        if hint is not None and hint.holds:
            return hint
        node = hint.node if hint is not None else self.root
        while not node.alive:
            assert node.parent is not None
            node = node.parent
        return self._descend(node, tokens, namespace)

    def match(self, tokens: Ints, namespace: str = "", hint: Prefix | None = None) -> Node:
        """The node at which the longest prefix of `tokens` ends; its `end` is the length of that
        prefix.

        Splits the edge when the prefix ends inside it, and marks the path as used. hint: what a
        peek of these tokens, or of more, gave.
        """
        start = self.root
        if hint is not None and hint.node.alive and hint.node.end <= len(tokens):
            start = hint.node
        prefix = self._descend(start, tokens, namespace)
        node, rest = prefix.node, prefix.length - prefix.node.end
        if rest:
            assert prefix.child is not None
            node = self._split(prefix.child, rest)
        self._touch(node, hits=1)
        return node

    def _descend(self, node: Node, tokens: Ints, namespace: str) -> Prefix:
        """The longest prefix from `node` on, which lies on the path of `tokens`."""
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
        self, tokens: Ints, slots: Ints, namespace: str = "", start: Node | None = None
    ) -> Inserted:
        """Store `tokens`, whose KV lies in `slots`, and return the node at which they end.

        start: a node of the tree on the path of `tokens`, matched before; the search begins there,
        and `existing` counts from the first token after it.
        """
        begin = node = start or self.root
        while node.end < len(tokens):
            child = node.children.get(_child_key(node, tokens, namespace))
            if child is None:
                existing = node.end - begin.end
                node = self._add(node, tokens, slots, namespace)
                self._touch(node)
                return Inserted(node, existing)
            common = common_length(child.tokens, tokens[node.end :])
            node = child if common == len(child.tokens) else self._split(child, common)
        self._touch(node)
        return Inserted(node, node.end - begin.end)

    def lock(self, node: Node) -> None:
        """Keep the node and its path from eviction; each `lock` needs an `unlock`."""
        self._change_locks(node, 1)

    def unlock(self, node: Node) -> None:
        self._change_locks(node, -1)

    def pin(self, node: Node, owner: str) -> None:
        """Lock the node until `unpin`, once for each owner."""
        if node is not self.root and (node.id, owner) not in self.pins:
            self.pins[node.id, owner] = node
            self.lock(node)
            self._emit(NodePinned(node.id, owner, 1))

    def unpin(self, node: Node, owner: str) -> None:
        """Undo `pin`."""
        del self.pins[node.id, owner]
        self._emit(NodePinned(node.id, owner, -1))
        self.unlock(node)

    def keep_state(self, node: Node, state: int) -> None:
        """Make the node a checkpoint, which it is not yet."""
        node.state = state
        self._emit(CheckpointKept(node.id))

    def drop_state(self, node: Node) -> int:
        """Undo `keep_state`. Returns the state."""
        state, node.state = node.state, NO_STATE
        self._emit(CheckpointDropped(node.id))
        return state

    def evict(self, count: int) -> list[Ints]:
        """Remove unlocked leaves, smallest policy key first, until `count` tokens are gone or none
        is left.

        Returns the slots that became free. A parent left without children becomes a leaf.
        """
        freed: list[Ints] = []
        while count > 0 and self._leaves:
            key, _, node = heapq.heappop(self._leaves)
            node.queued = False
            if not node.alive or node.children or node.locks:
                continue
            if key != self.value(node):
                self._queue(node)
                continue
            freed.append(node.slots)
            count -= len(node.slots)
            self._remove(node, "memory")
        return freed

    def flush(self, namespace: str | None = None) -> list[Ints]:
        """Remove everything that is not locked, by default of all namespaces. Returns the slots
        that became free."""
        tops = [
            child for (space, _), child in self.root.children.items() if namespace in (None, space)
        ]
        return self._clear(tops, "flush")

    def cut(self, top: Node) -> list[Ints]:
        """Remove what is not locked of a node and all below it. Returns the slots that became
        free."""
        return self._clear([top], "hand")

    def _clear(self, tops: list[Node], reason: str) -> list[Ints]:
        freed = []
        for node in reversed([node for top in tops for node in (top, *self.nodes(top))]):
            if not node.locks:
                freed.append(node.slots)
                self._remove(node, reason)
        self._leaves = [leaf for leaf in self._leaves if leaf[-1].alive]
        heapq.heapify(self._leaves)
        return freed

    def discard(self, tokens: Ints, namespace: str = "") -> list[Ints]:
        """Remove what is not locked on the path of `tokens`, and all below it, pinned or not.
        Returns the slots that became free."""
        node = self.root
        while node.end < len(tokens):
            child = node.children.get(_child_key(node, tokens, namespace))
            if child is None or common_length(child.tokens, tokens[node.end :]) < len(child.tokens):
                break
            if node is self.root:
                for (_, owner), pinned in list(self.pins.items()):
                    if child in pinned.path():
                        self.unpin(pinned, owner)
            if not child.locks:
                gone = [child, *self.nodes(child)]
                for each in reversed(gone):
                    self._remove(each, "spoilt")
                return [each.slots for each in gone]
            node = child
        return []

    def _add(self, parent: Node, tokens: Ints, slots: Ints, namespace: str) -> Node:
        key, rest = _child_key(parent, tokens, namespace), tokens[parent.end :]
        node = Node(
            self._take_id(), parent, key, rest.copy(), slots[parent.end :].copy(), self._tick
        )
        parent.children[key] = node
        self.size += len(rest)
        self._emit(
            NodeAdded(
                node.id, parent.id, Tokens(rest.tobytes()), "" if parent.parent else namespace
            )
        )
        self._queue(node)
        return node

    def _split(self, node: Node, length: int) -> Node:
        """Put a new node above `node` that takes its first `length` tokens, and return it."""
        parent = node.parent
        assert parent is not None
        upper = Node(
            self._take_id(), parent, node.key, node.tokens[:length], node.slots[:length], node.tick
        )
        upper.locks, upper.hits, upper.born = node.locks, node.hits, node.born
        node.parent, node.tokens, node.slots = upper, node.tokens[length:], node.slots[length:]
        node.key = node.tokens[0].item()
        parent.children[upper.key] = upper
        upper.children[node.key] = node
        self._emit(NodeSplit(node.id, upper.id, length))
        return upper

    def _remove(self, node: Node, reason: str) -> None:
        parent = node.parent
        assert parent is not None
        del parent.children[node.key]
        node.alive = False
        self.size -= len(node.tokens)
        self._emit(NodeEvicted(node.id, reason))
        self.on_remove(node)
        if not parent.children:
            self._queue(parent)

    def _change_locks(self, node: Node, delta: int) -> None:
        if node is self.root:
            return
        self._emit(NodeLocked(node.id, delta))
        for held in node.path():
            before = held.locks
            held.locks += delta
            if before == 0:
                self.locked += len(held.tokens)
            elif held.locks == 0:
                self.locked -= len(held.tokens)
        if delta < 0:
            self._queue(node)

    def _touch(self, node: Node, hits: int = 0) -> None:
        if node is self.root:
            return
        self._tick += 1
        for used in node.path():
            used.tick = self._tick
            used.hits += hits
        self._emit(NodeTouched(node.id, self._tick))

    def _queue(self, node: Node) -> None:
        """Offer a leaf for eviction. Its key is checked again when it is taken, so it need not be
        kept current."""
        if node.parent is not None and not (node.queued or node.children or node.locks):
            node.queued = True
            heapq.heappush(self._leaves, (self.value(node), node.id, node))

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def common_length(a: Ints, b: Ints) -> int:
    """How many leading elements agree."""
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    return n if a.tobytes() == b.tobytes() else int((a != b).argmax())


def _child_key(node: Node, tokens: Ints, namespace: str) -> Any:
    """Where `node` holds the child along `tokens`. Below the root every namespace has children of
    its own."""
    token = tokens[node.end].item()
    return token if node.parent is not None else (namespace, token)
