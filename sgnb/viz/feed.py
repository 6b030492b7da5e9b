"""The records that a page needs to show what happens from some moment on.

A page knows nothing but what it is told: the tree as it is begins the feed, as records like those
that made it, and a token is named, or an older node told, before the first record that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..events import (
    Alternatives,
    AutomatonDrawn,
    CheckpointDropped,
    CheckpointKept,
    Columns,
    Jumped,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    Record,
    RecordsLost,
    RequestQueued,
    StepRan,
    TokensNamed,
    encode,
)
from .tree import ROOT, Node, TreeState

KEPT_CHARACTERS = 64 << 20
"""What is kept for pages that come late, and for saving."""

TOLD_NODES = 4000
"""Nodes that a feed begins with at most, those that are locked aside, the most recently used ones;
others are told when a record needs them."""

OF_A_NODE = (
    *(NodeSplit, NodeEvicted, NodeLocked, NodePinned, NodeTouched),
    *(CheckpointKept, CheckpointDropped),
)


class Feed:
    """A view (see `Emitter`). `lines` are what was told so far, each a record as JSON, without the
    `dropped` oldest; `size` is their characters. `on_push` is called after each drain."""

    def __init__(self, tree: TreeState, t: float) -> None:
        """t: seconds of the log's clock. tree: as it is before the first record that is pushed."""
        self.lines: list[str] = []
        self.dropped = self.size = 0
        self.on_push: Callable[[], None] = lambda: None
        self._tree = tree
        self._tokens: set[int] = set()
        self._nodes = {ROOT}
        self._automata: set[int] = set()
        if tree.engine is not None:
            self._tell(t, tree.engine)
        nodes = sorted(tree.nodes.values(), key=lambda node: (node.locks > 0, node.tick))
        told = max(TOLD_NODES, sum(node.locks > 0 for node in nodes))
        for node in sorted(nodes[-told:], key=lambda node: node.order):
            self._tell_node(t, node)
        for node in sorted((tree.nodes[id] for id in self._nodes), key=lambda node: node.tick):
            held = node.locks - sum(child.locks for child in tree.children(node))
            if node.id != ROOT:
                self._tell(t, NodeTouched(node.id, node.tick))
                if held:
                    self._tell(t, NodeLocked(node.id, held))
                for owner in tree.pins.get(node.id, ()):
                    self._tell(t, NodePinned(node.id, owner, 1))

    def push(self, records: list[Record], lost: int) -> None:
        """Tell these records, which the tree has not seen yet."""
        if lost:
            self._tell(records[0].t if records else 0.0, RecordsLost(lost))
        for record in records:
            event = record.event
            if isinstance(event, TokensNamed):
                self._tree.vocabulary.learn(event)
                continue
            if isinstance(event, AutomatonDrawn):
                if event.automaton in self._automata:
                    continue
                self._automata.add(event.automaton)
            for node in _nodes(event):
                if node not in self._nodes and node in self._tree.nodes:
                    self._tell_old(record.t, self._tree.nodes[node])
            if isinstance(event, NodeAdded):
                self._nodes.add(event.node)
            elif isinstance(event, NodeSplit):
                self._nodes.add(event.upper)
            self._name(record.t, _tokens(event))
            self._tell(record.t, event)
        self.on_push()
        while self.size > KEPT_CHARACTERS:
            self.drop(len(self.lines) // 4 + 1)

    def drop(self, count: int) -> None:
        """Forget the oldest lines."""
        self.size -= sum(map(len, self.lines[:count]))
        self.dropped += count
        del self.lines[:count]

    def _tell(self, t: float, event: Any) -> None:
        self.lines.append(encode(Record(self.dropped + len(self.lines) + 1, t, event)))
        self.size += len(self.lines[-1])

    def _tell_node(self, t: float, node: Node) -> None:
        path = []
        while node.id not in self._nodes:
            path.append(node)
            node = self._tree.nodes[node.parent]
        for node in reversed(path):
            self._nodes.add(node.id)
            self._name(t, node.tokens)
            self._tell(t, NodeAdded(node.id, node.parent, node.tokens, node.namespace))
            if node.checkpoint:
                self._tell(t, CheckpointKept(node.id))

    def _tell_old(self, t: float, node: Node) -> None:
        """A node that was left out. It was not used since, so that nothing holds it; those above
        it, which are touched with it, are as young at least."""
        self._tell_node(t, node)
        while node.id != ROOT:
            self._tell(t, NodeTouched(node.id, node.tick))
            node = self._tree.nodes[node.parent]

    def _name(self, t: float, tokens: Iterable[int]) -> None:
        new = set(tokens) - self._tokens
        if new:
            self._tokens |= new
            pieces = [self._tree.vocabulary.bytes((token,)).decode("latin-1") for token in new]
            self._tell(t, TokensNamed(tuple(new), tuple(pieces)))


def _tokens(event: Any) -> Iterable[int]:
    if isinstance(event, RequestQueued):
        return event.prompt
    if isinstance(event, NodeAdded | Jumped | Alternatives):
        return event.tokens
    if isinstance(event, StepRan):
        rows = event.sampled
        return rows.column("token") if isinstance(rows, Columns) else [row.token for row in rows]
    return ()


def _nodes(event: Any) -> Iterator[int]:
    if isinstance(event, NodeAdded):
        yield event.parent
    elif isinstance(event, OF_A_NODE):
        yield event.node
