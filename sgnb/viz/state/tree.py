"""Radix tree, rebuilt from a log. A pure reducer: no clock, no I/O; unknown events are ignored.

The live page implements the same reducer (`page/tree_records.js`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...events import (
    BlocksNamed,
    CheckpointDropped,
    CheckpointKept,
    CopiesChanged,
    EngineStarted,
    MediaNamed,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    Record,
    RecordsLost,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    StepRan,
    TiersStarted,
    TokensNamed,
    WorkerJoined,
    WorkerLost,
)
from .copied_blocks import CopiedBlocks
from .media import TokenSpan
from .token_table import TokenTable

ROOT = 0


@dataclass(slots=True, eq=False)
class TreeNode:
    id: int
    parent: int
    tokens: Sequence[int]
    namespace: str = ""
    order: int = 0  # sort key of siblings
    locks: int = 0
    tick: int = 0  # logical time of the last use
    hits: int = 0  # number of prompts with this node as a prefix
    found: float = -1.0  # time of the last hit, in seconds of the log's clock
    made_by: str = ""  # run of the request with these tokens
    checkpoint: bool = False  # recurrent states after the last token are cached
    children: dict[tuple[str, int], int] = field(default_factory=dict)
    """(namespace, first token) -> node id, in order."""
    copied: dict[str, int] = field(default_factory=dict)  # tokens by store; see `with_copies`
    is_outline: bool = False  # evicted, with copies

    @property
    def key(self) -> tuple[str, int]:
        return self.namespace, self.tokens[0]


@dataclass(slots=True, eq=False)
class _TreeRequest:
    run: str
    prompt: Sequence[int]
    namespace: str
    admitted: bool = False


class TreeState:
    def __init__(self, token_table: TokenTable | None = None) -> None:
        self.token_table = token_table or TokenTable()
        self.nodes: dict[int, TreeNode] = {ROOT: TreeNode(ROOT, -1, ())}
        self.pins: dict[int, list[str]] = {}  # owners of pins by node
        self.tokens = 0
        self.evicted = 0
        self.checkpoints = 0  # nodes with a checkpoint
        self.engine: EngineStarted | None = None
        self.tiers: TiersStarted | None = None
        self.copies = CopiedBlocks()
        self.step: StepRan | None = None
        self.lost = 0  # lost records
        self.missing = 0  # contradictory events: records were lost or changed
        self._added = 0
        self._now = 0.0
        self._requests: dict[int, _TreeRequest] = {}
        # requests with the first use of an item after the processor ran, by first token id
        self._first_users: dict[int, int] = {}
        # finished requests with possible further nodes until the next step
        self._finished: list[int] = []

    @property
    def root(self) -> TreeNode:
        return self.nodes[ROOT]

    @property
    def locked(self) -> int:
        """Return the number of nodes locked by running requests."""
        return sum(node.locks > 0 for node in self.nodes.values())

    def pinned(self) -> Counter[int]:
        """Return the number of pins per node, including pins of descendants."""
        pins = Counter[int]()
        for id, owners in self.pins.items():
            for node in self._path(id):
                pins[node.id] += len(owners)
        return pins

    def text(self, node: TreeNode) -> str:
        return self.token_table.text(node.tokens)

    def label(self, node: TreeNode, limit: int) -> str:
        """Return the start of the node's text, with names of images, videos and sounds."""
        return self.token_table.label(node.tokens, limit)

    def num_processed(self, request: int, spans: Sequence[TokenSpan]) -> int:
        """Return the number of items whose processor ran for this request: the first use."""
        ids = {span.item.first_id for span in spans if span.item is not None}
        return sum(self._first_users.get(first_id) == request for first_id in ids)

    def children(self, node: TreeNode) -> list[TreeNode]:
        return [self.nodes[child] for child in node.children.values()]

    def apply(self, record: Record) -> None:
        self._now = record.t
        handler = self._handlers.get(type(record.event))
        if handler is not None:
            handler(self, record.event)

    def _name(self, event: TokensNamed | MediaNamed) -> None:
        self.token_table.learn(event)

    def _miss(self, event: RecordsLost) -> None:
        self.lost += event.count

    def _start(self, event: EngineStarted) -> None:
        self.engine = event

    def _tier_start(self, event: TiersStarted) -> None:
        self.tiers = event

    def _block_names(self, event: BlocksNamed) -> None:
        self.copies.named(event)

    def _copies_change(self, event: CopiesChanged) -> None:
        self.copies.changed(event)

    def _queued(self, event: RequestQueued) -> None:
        self._requests[event.request] = _TreeRequest(event.run, event.prompt, event.namespace)
        for span in self.token_table.media.spans(event.prompt):
            if span.item is not None and span.item.processor_seconds:
                self._first_users.setdefault(span.item.first_id, event.request)

    def _admitted(self, event: RequestAdmitted) -> None:
        request = self._requests.get(event.request)
        if request is None or request.admitted:
            return
        request.admitted = True
        node, namespace, length = self.root, request.namespace, 0
        while length < min(event.cached, len(request.prompt)):
            child = node.children.get((namespace, request.prompt[length]))
            if child is None:
                break
            node, namespace = self.nodes[child], ""
            node.hits, node.found = node.hits + 1, self._now
            length += len(node.tokens)

    def _ended(self, event: RequestFinished) -> None:
        self._finished.append(event.request)

    def _stepped(self, event: StepRan) -> None:
        self.step = event
        for number in self._finished:
            self._requests.pop(number, None)
        self._finished.clear()

    def _add(self, event: NodeAdded) -> None:
        node = TreeNode(event.node, event.parent, event.tokens, event.namespace)
        self._cut(node.id)
        parent = self.nodes.get(event.parent)
        if parent is None or node.id == ROOT:
            self.missing += 1
            return
        self._cut(parent.children.get(node.key, ROOT))
        self._added += 1
        maker = self._requests.get(event.request)
        node.order, node.made_by = self._added, maker.run if maker is not None else ""
        self.nodes[node.id] = node
        parent.children[node.key] = node.id
        self.tokens += len(node.tokens)

    def _cut(self, node_id: int) -> None:
        """Remove the subtree of a node with an unrecorded eviction."""
        node = self.nodes.get(node_id)
        if node is None or node_id == ROOT:
            return
        self.nodes[node.parent].children.pop(node.key)
        subtree = [node]
        for node in subtree:
            subtree += self.children(node)
            del self.nodes[node.id]
            self.pins.pop(node.id, None)
            self.tokens -= len(node.tokens)
            self.checkpoints -= node.checkpoint

    def _split(self, event: NodeSplit) -> None:
        node = self._find(event.node)
        if node is None:
            return
        if event.upper in self.nodes or not 0 < event.length < len(node.tokens):
            self.missing += 1
            return
        head, tail = node.tokens[: event.length], node.tokens[event.length :]
        upper = replace(node, id=event.upper, tokens=head, children={}, checkpoint=False)
        self.nodes[upper.id] = upper
        self.nodes[node.parent].children[upper.key] = upper.id
        node.parent, node.tokens, node.namespace = upper.id, tail, ""
        upper.children[node.key] = node.id

    def _evict(self, event: NodeEvicted) -> None:
        if self._find(event.node) is not None:
            self._cut(event.node)
            self.evicted += 1

    def _keep(self, event: CheckpointKept) -> None:
        self._mark(event.node, True)

    def _drop(self, event: CheckpointDropped) -> None:
        self._mark(event.node, False)

    def _mark(self, node_id: int, present: bool) -> None:
        node = self._find(node_id)
        if node is not None:
            self.checkpoints += present - node.checkpoint
            node.checkpoint = present

    def _lock(self, event: NodeLocked) -> None:
        for node in self._path(event.node):
            node.locks += event.delta

    def _pin(self, event: NodePinned) -> None:
        if self._find(event.node) is None:
            return
        owners = self.pins.setdefault(event.node, [])
        if event.delta > 0:
            owners.append(event.owner)
        elif event.owner in owners:
            owners.remove(event.owner)
        if not owners:
            del self.pins[event.node]

    def _touch(self, event: NodeTouched) -> None:
        for node in self._path(event.node):
            node.tick = event.tick
        self.root.tick = event.tick

    def _path(self, node_id: int) -> Iterator[TreeNode]:
        """Yield the node and all ancestors except the root."""
        node = self._find(node_id)
        while node is not None and node.id != ROOT:
            yield node
            node = self.nodes[node.parent]

    def _find(self, node_id: int) -> TreeNode | None:
        node = self.nodes.get(node_id)
        if node is None:
            self.missing += 1
        return node

    _handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        TokensNamed: _name,
        MediaNamed: _name,
        RecordsLost: _miss,
        EngineStarted: _start,
        TiersStarted: _tier_start,
        BlocksNamed: _block_names,
        CopiesChanged: _copies_change,
        RequestQueued: _queued,
        RequestAdmitted: _admitted,
        RequestFinished: _ended,
        StepRan: _stepped,
        NodeAdded: _add,
        NodeSplit: _split,
        NodeEvicted: _evict,
        CheckpointKept: _keep,
        CheckpointDropped: _drop,
        NodeLocked: _lock,
        NodePinned: _pin,
        NodeTouched: _touch,
    }


class Trees:
    """Trees of a log by engine number: 0 is the log's own engine, others are joined logs.

    Attributes:
        workers: Present workers of a fleet, by number.
    """

    def __init__(self) -> None:
        self._trees = defaultdict[int, TreeState](TreeState)
        self.workers: dict[int, WorkerJoined] = {}

    def __getitem__(self, engine: int) -> TreeState:
        return self._trees[engine]

    def of_workers(self) -> list[TreeState]:
        """Return the trees of joined engines, if the log itself has no engine: a fleet's log."""
        if self[0].engine is not None:
            return []
        return [tree for number, tree in sorted(self._trees.items()) if number and tree.engine]

    @property
    def lost(self) -> int:
        return self[0].lost

    @lost.setter
    def lost(self, count: int) -> None:
        self[0].lost = count

    def apply(self, record: Record) -> None:
        if isinstance(record.event, WorkerJoined):
            self.workers[record.event.worker] = record.event
        elif isinstance(record.event, WorkerLost):
            self.workers.pop(record.event.worker, None)
        self[record.engine].apply(record)
