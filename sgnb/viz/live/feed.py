"""Records for a page, from a given moment on.

A new page has no state, so the feed starts with records that rebuild the current tree. Names of
tokens and older nodes precede the first record that refers to a token or node. Records of another
engine begin at the first call to the engine; records of a fleet's first workers, at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...events import (
    Alternatives,
    AutomatonDrawn,
    BlocksNamed,
    CallRouted,
    CheckpointDropped,
    CheckpointKept,
    Columns,
    CopiesChanged,
    Jumped,
    MediaNamed,
    ModelAsked,
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
    WorkerJoined,
    encode,
)
from ..state.tree import ROOT, TreeNode, Trees, TreeState
from .sent_copies import SentCopies

KEPT_CHARACTERS = 64 << 20
"""Maximum characters kept for late pages and for saving."""

SENT_NODES = 4000
"""Maximum nodes at the start of a feed: locked nodes, then the most recently used. Other nodes
follow on first reference."""

SENT_WORKERS = 16
"""Maximum workers with records before their first call."""

OF_A_NODE = (
    *(NodeSplit, NodeEvicted, NodeLocked, NodePinned, NodeTouched),
    *(CheckpointKept, CheckpointDropped),
)


class Feed:
    """View of an `Emitter`, as lines of JSON.

    Attributes:
        lines: Encoded records, without the `dropped` oldest.
        dropped: Number of dropped lines.
        size: Characters of `lines`.
        on_push: Called after each drain.
    """

    def __init__(self, trees: Trees, t: float) -> None:
        """Start a feed with the current tree.

        Args:
            trees: Trees before the first pushed record.
            t: Start in seconds of the log's clock.
        """
        self.lines: list[str] = []
        self.dropped = self.size = 0
        self.on_push: Callable[[], None] = lambda: None
        self._trees = trees
        self._sent: dict[int, _PageState] = {}
        self._begin(0, t)
        for joined in trees.workers.values():
            self._send(t, joined)
            self._begin_other(joined, t)

    def push(self, records: list[Record], lost: int) -> None:
        """Encode new records. Call before the trees are updated.

        Args:
            records: New records.
            lost: Number of lost records.
        """
        if lost:
            self._send(records[0].t if records else 0.0, RecordsLost(lost))
        for record in records:
            if isinstance(record.event, ModelAsked | CallRouted | WorkerJoined):
                self._begin_other(record.event, records[0].t)
        for record in records:
            if record.engine in self._sent:
                self._sent[record.engine].push(record, self._send)
        self.on_push()
        while self.size > KEPT_CHARACTERS:
            self.drop(len(self.lines) // 4 + 1)

    def suspend(self) -> None:
        """Remember the nodes of the page before the feed misses records."""
        for page in self._sent.values():
            page.suspend()

    def resume(self, t: float) -> None:
        """Adapt the page's nodes to the current trees after `suspend`."""
        for page in self._sent.values():
            page.resume(t, self._send)

    def drop(self, count: int) -> None:
        """Drop the `count` oldest lines."""
        self.size -= sum(map(len, self.lines[:count]))
        self.dropped += count
        del self.lines[:count]

    def _begin_other(self, event: ModelAsked | CallRouted | WorkerJoined, t: float) -> None:
        """Begin the engine of a call, or of a worker without a call if few engines are sent."""
        is_early = isinstance(event, WorkerJoined) and len(self._sent) > SENT_WORKERS
        if event.engine not in self._sent and not is_early:
            self._begin(event.engine, t)

    def _begin(self, engine: int, t: float) -> None:
        """Send the current tree of an engine."""
        self._sent[engine] = page = _PageState(engine, self._trees[engine])
        page.begin(t, self._send)

    def _send(self, t: float, event: Any, engine: int = 0) -> None:
        seq = self.dropped + len(self.lines) + 1
        self.lines.append(encode(Record(seq, t, event, engine)))
        self.size += len(self.lines[-1])


Send = Callable[[float, Any, int], None]


@dataclass(slots=True)
class _PageState:
    """Records that a page has received about one engine."""

    engine: int
    tree: TreeState
    tokens: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=lambda: {ROOT})
    automata: set[int] = field(default_factory=set)
    copies: SentCopies = field(init=False)
    shapes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Parent and length of the nodes at `suspend`."""

    def __post_init__(self) -> None:
        self.copies = SentCopies(self.tree.copies)

    def suspend(self) -> None:
        nodes = [node for node in self.tree.nodes.values() if node.id in self.nodes]
        self.shapes = {node.id: (node.parent, len(node.tokens)) for node in nodes}

    def resume(self, t: float, send: Send) -> None:
        """Evict nodes that left the tree, leaves first. Nodes that were split, with their
        descendants, are unknown until the first reference."""

        def depth(id: int) -> int:
            count = 0
            while id in self.shapes:
                id, count = self.shapes[id][0], count + 1
            return count

        for id in sorted(self.shapes.keys() - self.tree.nodes.keys(), key=depth, reverse=True):
            send(t, NodeEvicted(id, "flush"), self.engine)

        present, pending = {ROOT}, [self.tree.root]
        while pending:
            node = pending.pop()
            same = [
                child
                for child in self.tree.children(node)
                if self.shapes.get(child.id) == (node.id, len(child.tokens))
            ]
            present.update(child.id for child in same)
            pending += same
        self.nodes = present
        self.copies.resume(partial(self._send_named, t, send))

    def begin(self, t: float, send: Send) -> None:
        tree = self.tree
        if tree.engine is not None:
            send(t, tree.engine, self.engine)
        if tree.tiers is not None:
            send(t, tree.tiers, self.engine)
        nodes = sorted(tree.nodes.values(), key=lambda node: (node.locks > 0, node.tick))
        count = max(SENT_NODES, sum(node.locks > 0 for node in nodes))
        for node in sorted(nodes[-count:], key=lambda node: node.order):
            self._send_node(t, node, send)

        for node in sorted((tree.nodes[id] for id in self.nodes), key=lambda node: node.tick):
            locks = node.locks - sum(child.locks for child in tree.children(node))
            if node.id != ROOT:
                send(t, NodeTouched(node.id, node.tick), self.engine)
                if locks:
                    send(t, NodeLocked(node.id, locks), self.engine)
                for owner in tree.pins.get(node.id, ()):
                    send(t, NodePinned(node.id, owner, 1), self.engine)

        self.copies.begin(partial(self._send_named, t, send))

    def push(self, record: Record, send: Send) -> None:
        event = record.event
        if isinstance(event, TokensNamed):
            self.tree.token_table.learn(event)
            return
        if isinstance(event, MediaNamed):
            self.tree.token_table.learn(event)
            self.tokens.update(range(event.first_id, event.first_id + event.count))
        if isinstance(event, AutomatonDrawn):
            if event.automaton in self.automata:
                return
            self.automata.add(event.automaton)

        for node in _nodes(event):
            if node not in self.nodes and node in self.tree.nodes:
                self._send_old(record.t, self.tree.nodes[node], send)

        if isinstance(event, BlocksNamed | CopiesChanged):
            self.copies.push(event, partial(self._send_named, record.t, send))
        elif isinstance(event, NodeAdded):
            self.nodes.add(event.node)
        elif isinstance(event, NodeSplit):
            self.nodes.add(event.upper)

        self._send_named(record.t, send, event)

    def _send_named(self, t: float, send: Send, event: Any) -> None:
        """Send an event after the names of the tokens."""
        self._name(t, _tokens(event), send)
        send(t, event, self.engine)

    def _send_node(self, t: float, node: TreeNode, send: Send) -> None:
        path = []
        while node.id not in self.nodes:
            path.append(node)
            node = self.tree.nodes[node.parent]
        for node in reversed(path):
            self.nodes.add(node.id)
            self._name(t, node.tokens, send)
            added = NodeAdded(node.id, node.parent, node.tokens, node.namespace)
            send(t, added, self.engine)
            if node.checkpoint:
                send(t, CheckpointKept(node.id), self.engine)

    def _send_old(self, t: float, node: TreeNode, send: Send) -> None:
        """Send a node omitted at the start. The node was unused since, hence unlocked; all
        ancestors are at least as recent."""
        self._send_node(t, node, send)
        while node.id != ROOT:
            send(t, NodeTouched(node.id, node.tick), self.engine)
            node = self.tree.nodes[node.parent]

    def _name(self, t: float, tokens: Iterable[int], send: Send) -> None:
        new, table = set(tokens) - self.tokens, self.tree.token_table
        if not new:
            return
        for token in sorted(new):
            item = table.media.item(token) if token in new else None
            if item is not None:
                ids = range(item.first_id, item.first_id + item.count)
                self.tokens.update(ids)
                new.difference_update(ids)
                send(t, replace(item, processor_seconds=0.0), self.engine)
        if new:
            self.tokens |= new
            pieces = [table.bytes((token,)).decode("latin-1") for token in new]
            send(t, TokensNamed(tuple(new), tuple(pieces)), self.engine)


def _tokens(event: Any) -> Iterable[int]:
    if isinstance(event, RequestQueued):
        return event.prompt
    if isinstance(event, NodeAdded | Jumped | Alternatives | BlocksNamed):
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
