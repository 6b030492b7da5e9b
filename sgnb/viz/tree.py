"""The radix tree, rebuilt from a log. A pure reducer: no clock, no I/O, unknown events ignored.

Every reducer of this package has the same three methods: `apply(record)` takes one record in;
`changes()` gives the JSON-ready operations since the last call; `snapshot()` gives operations that
build the whole state from nothing. `version` counts the non-empty results of `changes()`, so that a
page can tell a missed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..events import (
    EngineStarted,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodeSplit,
    NodeTouched,
    Record,
    StepRan,
    TokensNamed,
)
from .tokens import Vocabulary, visible

ROOT = 0
FEW_NODES = 500
TEXT_FEW, TEXT_MANY = 2_000, 200
"""Characters of a node's text sent to the page, up to `FEW_NODES` nodes and above."""

PageOp = list[Any]


@dataclass(slots=True, eq=False)
class Node:
    id: int
    parent: int
    tokens: Sequence[int]
    namespace: str = ""
    order: int = 0  # sorts siblings
    locks: int = 0
    tick: int = 0  # logical time of the last use
    children: dict[tuple[str, int], int] = field(default_factory=dict)
    """(namespace, first token) -> node id, in order."""

    @property
    def key(self) -> tuple[str, int]:
        return self.namespace, self.tokens[0]


class TreeState:
    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self.vocabulary = vocabulary or Vocabulary()
        self.nodes: dict[int, Node] = {ROOT: Node(ROOT, -1, ())}
        self.tokens = 0
        self.evicted = 0
        self.capacity = 0
        self.step: StepRan | None = None
        self.lost = 0  # records
        self.missing = 0  # events about nodes never seen, which only lost records can explain
        self.version = 0
        self._added = 0
        self._shape: dict[int, None] = {}
        self._use: dict[int, None] = {}
        self._gone: dict[int, str] = {}
        self._totals = False

    @property
    def root(self) -> Node:
        return self.nodes[ROOT]

    @property
    def locked(self) -> int:
        """Nodes that a running request holds."""
        return sum(node.locks > 0 for node in self.nodes.values())

    def text(self, node: Node) -> str:
        return self.vocabulary.text(node.tokens)

    def children(self, node: Node) -> list[Node]:
        return [self.nodes[child] for child in node.children.values()]

    def apply(self, record: Record) -> None:
        handler = self._handlers.get(type(record.event))
        if handler is not None:
            handler(self, record.event)

    def _name(self, event: TokensNamed) -> None:
        self.vocabulary.learn(event)

    def _start(self, event: EngineStarted) -> None:
        self.capacity = event.pool_tokens
        self._totals = True

    def _stepped(self, event: StepRan) -> None:
        self.step = event
        self._totals = True

    def _add(self, event: NodeAdded) -> None:
        parent = self._find(event.parent)
        if parent is None:
            return
        self._added += 1
        node = Node(event.node, event.parent, event.tokens, event.namespace, self._added)
        self.nodes[node.id] = node
        parent.children[node.key] = node.id
        self.tokens += len(node.tokens)
        self._shape[node.id] = None

    def _split(self, event: NodeSplit) -> None:
        node = self._find(event.node)
        if node is None:
            return
        head, tail = node.tokens[: event.length], node.tokens[event.length :]
        upper = replace(node, id=event.upper, tokens=head, children={})
        self.nodes[upper.id] = upper
        self.nodes[node.parent].children[upper.key] = upper.id
        node.parent, node.tokens, node.namespace = upper.id, tail, ""
        upper.children[node.key] = node.id
        self._shape[upper.id] = self._shape[node.id] = None

    def _evict(self, event: NodeEvicted) -> None:
        node = self._find(event.node)
        if node is None:
            return
        del self.nodes[node.id]
        self.nodes[node.parent].children.pop(node.key)
        self.tokens -= len(node.tokens)
        self.evicted += 1
        self._shape.pop(node.id, None)
        self._use.pop(node.id, None)
        self._gone[node.id] = event.reason

    def _lock(self, event: NodeLocked) -> None:
        for node in self._path(event.node):
            node.locks += event.delta

    def _touch(self, event: NodeTouched) -> None:
        for node in self._path(event.node):
            node.tick = event.tick
        self.root.tick = event.tick

    def _path(self, node_id: int) -> Iterator[Node]:
        """The node and those above it, the root excepted, each marked as used."""
        node = self._find(node_id)
        while node is not None and node.id != ROOT:
            self._use[node.id] = None
            yield node
            node = self.nodes[node.parent]

    def _find(self, node_id: int) -> Node | None:
        node = self.nodes.get(node_id)
        if node is None:
            self.missing += 1
        return node

    _handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        TokensNamed: _name,
        EngineStarted: _start,
        StepRan: _stepped,
        NodeAdded: _add,
        NodeSplit: _split,
        NodeEvicted: _evict,
        NodeLocked: _lock,
        NodeTouched: _touch,
    }

    def changes(self) -> list[PageOp]:
        ops: list[PageOp] = [["gone", node, reason] for node, reason in self._gone.items()]
        ops += [self._node_op(self.nodes[node]) for node in self._shape]
        used = (self.nodes[node] for node in self._use if node not in self._shape)
        ops += [["use", node.id, node.locks, node.tick] for node in used]
        if ops or self._totals:
            ops.append(self._totals_op())
            self.version += 1
        self._shape, self._use, self._gone, self._totals = {}, {}, {}, False
        return ops

    def snapshot(self) -> list[PageOp]:
        nodes = [self._node_op(node) for node in self.nodes.values() if node.id != ROOT]
        return [*nodes, self._totals_op()]

    def _node_op(self, node: Node) -> PageOp:
        limit = TEXT_FEW if len(self.nodes) <= FEW_NODES else TEXT_MANY
        # A token has at least one byte, so `limit` tokens are enough.
        text = visible(self.vocabulary.text(node.tokens[:limit]))[:limit]
        size, space = len(node.tokens), node.namespace
        return ["node", node.id, node.parent, node.order, size, node.locks, node.tick, space, text]

    def _totals_op(self) -> PageOp:
        step = self.step
        pool = [step.free, step.cached, step.in_flight] if step else [self.capacity, 0, 0]
        return ["totals", {"evicted": self.evicted, "lost": self.lost, "pool": pool}]
