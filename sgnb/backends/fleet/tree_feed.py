"""A worker's radix tree as blocks in the index, followed by events or set by a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine.cache.radix import Ints
from ...engine.cache.tiers.blocks import BLOCK, block_keys, root_key
from ...engine.cache.tree_events import EngineSnapshot
from ...events import NodeAdded, NodeEvicted, NodeSplit, Record, RecordsLost
from .block_index import BlockIndex

NO_INTS: Ints = np.empty(0, np.int32)


def prompt_root(tokenizer_id: str, namespace: str) -> bytes:
    """Return the key of the empty prompt."""
    return root_key(f"{tokenizer_id}\n{namespace}")


def prompt_keys(tokenizer_id: str, namespace: str, tokens: Ints, vocab_size: int) -> list[bytes]:
    """Return the keys of the full blocks of a prompt, up to the first image, video or sound: the
    token ids of items differ between engines."""
    items = np.flatnonzero(tokens >= vocab_size)
    text = tokens[: items[0]] if len(items) else tokens
    return list(block_keys(prompt_root(tokenizer_id, namespace), text, {}))


@dataclass(slots=True)
class _IndexedEdge:
    """A node of the worker's tree. `parent` is a root without tokens for a child of the root.

    Attributes:
        edge: Tokens of the edge.
        tail: Tokens after the last full block, to the node's end.
        chain: Key of the last full block; None behind an image, video or sound.
        keys: Keys of blocks with the last token on the edge.
    """

    parent: _IndexedEdge | None
    edge: Ints
    tail: Ints
    chain: bytes | None
    keys: list[bytes]


class TreeFeed:
    """Applies the events of a worker to the index.

    Args:
        index: The index of all workers.
        worker: Number of the worker in the index.
        tokenizer_id: Identity of the token ids.
        vocab_size: Larger ids are images, videos and sounds, and end the indexed prefix.
        seq: Number of the last record before the first record of the feed.

    Attributes:
        seq: Number of the last record.
        stale: Records were lost. The index keeps the earlier blocks until `restore`.
    """

    def __init__(
        self, index: BlockIndex, worker: int, tokenizer_id: str, vocab_size: int, seq: int = 0
    ) -> None:
        self._index, self._worker = index, worker
        self._tokenizer_id, self._vocab_size = tokenizer_id, vocab_size
        self._nodes: dict[int, _IndexedEdge] = {}
        self._since = 0.0  # time of the last snapshot
        self.seq = seq
        self.stale = False

    def apply(self, records: Sequence[Record]) -> None:
        """Apply consecutive records. A gap, or an event about an unknown node, makes the feed
        stale; later records are ignored until `restore`."""
        for seq, t, event, _ in records:
            follows, self.seq = seq == self.seq + 1, seq
            if t > self._since and not self.stale:
                self.stale = not (follows and self._apply(event))

    def restore(self, snapshot: EngineSnapshot) -> None:
        """Replace the tree by a snapshot, with the time on the clock of the records. Earlier
        records are ignored."""
        self._index.forget(self._worker)
        self._nodes.clear()
        self._since = snapshot.time
        nodes = [event for event in snapshot.events if isinstance(event, NodeAdded)]
        added = [self._add(node) for node in nodes]
        self.stale = not all(added)

    def _apply(self, event: Any) -> bool:
        if isinstance(event, NodeAdded):
            return self._add(event)
        if isinstance(event, NodeSplit):
            return self._split(event)
        if isinstance(event, NodeEvicted):
            node = self._nodes.pop(event.node, None)
            if node is not None:
                self._index.remove(self._worker, node.keys)
            return node is not None
        return not isinstance(event, RecordsLost)

    def _add(self, event: NodeAdded) -> bool:
        parent = self._nodes.get(event.parent)
        if event.node in self._nodes or (parent is None and event.parent):
            return False
        if parent is None:
            root = prompt_root(self._tokenizer_id, event.namespace)
            parent = _IndexedEdge(None, NO_INTS, NO_INTS, root, [])
        edge = np.fromiter(event.tokens, np.int32, len(event.tokens))
        node = self._nodes[event.node] = self._make(parent, edge)
        self._index.add(self._worker, node.keys)
        return True

    def _split(self, event: NodeSplit) -> bool:
        node = self._nodes.get(event.node)
        if node is None or event.upper in self._nodes or not 0 < event.length < len(node.edge):
            return False
        assert node.parent is not None
        upper = self._nodes[event.upper] = self._make(node.parent, node.edge[: event.length])
        node.parent, node.edge = upper, node.edge[event.length :]
        node.keys = node.keys[len(upper.keys) :]
        return True

    def _make(self, parent: _IndexedEdge, edge: Ints) -> _IndexedEdge:
        """Return a node with the keys of its blocks, up to the first item."""
        if parent.chain is None:
            return _IndexedEdge(parent, edge, NO_INTS, None, [])
        items = np.flatnonzero(edge >= self._vocab_size)
        text = np.concatenate([parent.tail, edge[: items[0]] if len(items) else edge])
        keys = list(block_keys(parent.chain, text, {}))
        chain = None if len(items) else (keys[-1] if keys else parent.chain)
        return _IndexedEdge(parent, edge, text[len(keys) * BLOCK :], chain, keys)
