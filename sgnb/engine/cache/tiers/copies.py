"""Copies of computed blocks from the radix tree to the stores: at evictions and in idle time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial

import numpy as np

from ..checkpoints import LEAST_ALIGNED
from ..manager import CacheManager
from ..radix import Ints, RadixNode
from .blocks import BLOCK, BlockStore
from .copy_journal import STORED, CopyJournal
from .copy_writer import CopyWriter, NodeBlock
from .stored_prefixes import StoredPrefixes, guarded
from .stored_prompt import StoredPrompt
from .tier_costs import TierCosts
from .transfers import MAX_PENDING_BYTES, Transfer

MIN_TOKENS = LEAST_ALIGNED
"""Shortest prompt prefix that is stored."""

DISK_SECONDS = 0.5
"""Compute time of a prefix from which its first use goes to the disk; later uses always do."""

IDLE_WORK_SECONDS = 0.01
"""Longest time without a look at the queue of commands."""

IDLE_SECONDS = 0.5
"""Time without a request before the cache is copied to the disk."""

RELIEF_SECONDS = 5.0
"""Time between checks of the machine's free memory in idle time."""


class BlockCopies:
    """Choice of the copies to the stores. On the engine's thread.

    Args:
        cache: The radix tree and the KV slots.
        transfer: Copies between slots and host memory.
        states: See `CacheTiers`.
        costs: Estimated times.
        prefixes: The stores.
        is_current: See `CacheTiers`.
        run: Runs a function on the engine's thread soon.
        thread: Writes to the stores.
        grower: Thread that allocates host memory.
        journal: Receives the changes of copies.

    Attributes:
        counts: Counters since the start.
        pending: Copies that have not ended.
    """

    def __init__(
        self,
        cache: CacheManager,
        transfer: Transfer,
        states: Transfer | None,
        costs: TierCosts,
        prefixes: StoredPrefixes,
        is_current: Callable[[bool], bool],
        run: Callable[[Callable[[], object]], None],
        thread: Executor,
        grower: Executor,
        journal: CopyJournal,
    ) -> None:
        self._cache, self._transfer, self._states = cache, transfer, states
        self._costs, self._prefixes, self._is_current = costs, prefixes, is_current
        self._thread, self._grower, self._journal = thread, grower, journal
        self._is_growing = False
        self._writer = CopyWriter(thread, run, self._note_end)
        self.pending = self._writer.pending
        self._copied = set[int]()  # ids of nodes with copies on the disk, or on the way
        self._relief = 0.0  # time of the next check of the free memory
        self._due: float | None = None  # time of the next idle copy; None: nothing to do
        self._tried = set[int]()  # ids of nodes, until all were tried
        self.counts = {"stored_blocks": 0, "dropped_blocks": 0}

    def note_change(self) -> None:
        """Copy the cache to the disk at the next idle time: something was computed or pinned."""
        self._due = time.monotonic() + IDLE_SECONDS
        self._tried.clear()

    @property
    def patience(self) -> float | None:
        """Seconds without a request until `idle` has work; None: nothing to do."""
        times = [] if self._due is None else [self._due]
        times += [self._relief] if self._prefixes.blocks("host") else []
        return max(0.0, min(times) - time.monotonic()) if times else None

    def is_expensive(self, num_tokens: int) -> bool:
        """Return whether a prompt is copied after the first use: to host memory always, to the disk
        if its computation takes long."""
        has_host = bool(self._prefixes.blocks("host"))
        return has_host or self._costs.compute_seconds(0, num_tokens) >= DISK_SECONDS

    def flush(self) -> None:
        """Empty host memory. Copies on the way there are dropped."""
        self._writer.drop_host()
        self._forget_host()
        self._prefixes.flush()
        self._journal.collect(self._prefixes.stores)

    def forget(self) -> None:
        """Forget the copied nodes: the weights and the stores change."""
        self._copied.clear()
        self._forget_host()
        self._journal.drop_all("weights")

    def _forget_host(self) -> None:
        for node in self._cache.tree.nodes():
            node.copied = False

    def close(self) -> None:
        """End the threads."""
        for thread in (self._thread, self._grower):
            thread.shutdown(wait=False, cancel_futures=True)

    def grow_ahead(self) -> None:
        """Allocate host memory for evictions: from a pool half full of cached tokens on, and for
        all cached tokens of a full pool. An emptier pool is far from evictions."""
        cache = self._cache
        count = (cache.tree.size - cache.slots.available) // BLOCK
        lacking = [store for store in self._prefixes.blocks("host") if store.lacks(count)]
        if not lacking or self._is_growing:
            return

        def grow() -> None:
            try:
                lacking[0].grow(count)
            finally:
                self._is_growing = False

        self._is_growing = True
        try:
            self._grower.submit(guarded, grow)
        except RuntimeError:  # no thread can start
            self._is_growing = False

    def idle(self) -> None:
        """Return host memory that the machine lacks, and copy prefixes to the disk, if due."""
        now = time.monotonic()
        if now >= self._relief:
            self._relief = now + RELIEF_SECONDS
            self._prefixes.relieve()
            self._journal.collect(self._prefixes.stores)
        if self._due is not None and now >= self._due:
            self.write_idle()

    def write_idle(self) -> None:
        """Copy prefixes to the disk that cost much or were used again, and all prefixes to host
        memory, the most expensive first."""
        self._due = None
        if not self._is_current(True):
            return

        tree = self._cache.tree
        present = {node.id for node in tree.nodes()}
        self._copied &= present
        has_disk, has_host = map(bool, map(self._prefixes.blocks, ("disk", "host")))
        nodes = [
            node
            for node in sorted(tree.nodes(), key=self._seconds, reverse=True)
            if node.id not in self._tried
            and (
                (has_disk and self._is_for_disk(node))
                or (has_host and not node.copied and node.end >= MIN_TOKENS)
            )
        ]
        end = time.monotonic() + IDLE_WORK_SECONDS  # after the search: each call copies a node
        for node in nodes:
            if self.pending.num_bytes > MAX_PENDING_BYTES // 2:
                self.note_change()
                break
            self._tried.add(node.id)  # a failed copy is not repeated at once
            self._keep([node], evicted=False)
            if time.monotonic() > end:  # go on after the next command
                self._due = self._due or end
                break
        else:
            self._tried.clear()

    @property
    def has_states(self) -> bool:
        """True for a model with recurrent layers."""
        return self._states is not None

    def can_copy(self, node: RadixNode, end: int) -> bool:
        """Return whether the disk can hold the prefix of a node up to a block end."""
        return self._states is None or (end == node.end and self._has_states(node))

    def copy_now(self, node: RadixNode) -> None:
        """Copy a prefix to the disk without waiting for idle time. Copies above the limit of
        waiting copies follow in idle time."""
        self._copied.difference_update(above.id for above in node.path())  # files may be evicted
        if self._is_current(False):
            guarded(partial(self._copy_to_disk, node))
        self.note_change()

    def keep(self, nodes: Sequence[RadixNode]) -> None:
        """Copy the blocks of evicted nodes before their slots are used again."""
        if self._is_current(False):
            self._keep(nodes, evicted=True)

    def _keep(self, nodes: Sequence[RadixNode], evicted: bool) -> None:
        for node in nodes:
            if self._is_for_disk(node):
                guarded(partial(self._copy_to_disk, node))
        guarded(partial(self._copy_to_host, nodes, evicted))

    def _copy_to_host(self, nodes: Sequence[RadixNode], evicted: bool) -> None:
        """Copy nodes to host memory, all with one read. evicted: the KV pool loses the nodes."""
        host, has_states = self._prefixes.blocks("host"), self._states is not None
        if has_states:
            nodes = [node for node in nodes if self._has_states(node)]
        if not host or not self._copy(nodes, host, has_states, evicted):
            return
        for node in nodes:
            self._cache.tree.mark_copied(node)
            if has_states:
                self._copy_states(node, self._prefixes.states("host"))

    def _copy_to_disk(self, node: RadixNode) -> None:
        """Copy a prefix to the disk: without the first blocks, later blocks cannot be loaded."""
        disk = self._prefixes.blocks("disk")
        if self._states is None:
            for above in node.path():
                if above.id not in self._copied and self._copy([above], disk, False):
                    self._copied.add(above.id)
        elif self._copy([node], disk, True):
            self._copied.add(node.id)
            self._copy_states(node, self._prefixes.states("disk"))

    def _copy(
        self,
        nodes: Sequence[RadixNode],
        stores: Sequence[BlockStore],
        whole: bool,
        evicted: bool = False,
    ) -> bool:
        """Copy the blocks that end in nodes to the stores without them, the first blocks of a node
        first. Returns False if copies are missing.

        Args:
            nodes: Nodes with content.
            stores: The stores.
            whole: Copy the blocks of all nodes on the paths, too.
            evicted: The KV pool loses the nodes.
        """
        blocks = [block for node in nodes for block in self._missing(node, stores, whole, evicted)]
        dropped = blocks[self._writer.submit(blocks, self._transfer) :]
        if dropped:
            self.counts["dropped_blocks"] += len(dropped)
            for store in stores:
                keys = [block.key for block in dropped if store in block.stores]
                self._journal.change(store.name, "busy", keys)
            self.note_change()
        return not dropped

    def _missing(
        self, node: RadixNode, stores: Sequence[BlockStore], whole: bool, evicted: bool
    ) -> Sequence[NodeBlock]:
        """Return the blocks to copy, and report the present copies; see `_copy`."""
        prompt = self._read(node)
        if prompt is None:
            return ()
        begin, slots = node.end - len(node.tokens), node.path_slots()
        if whole or begin < MIN_TOKENS:  # shorter nodes are not copied
            begin = 0
        blocks = [
            self._block(node, prompt, i, slots, lacking)
            for i in range(begin // BLOCK, len(prompt.keys) - 1)
            if (lacking := _lacking(stores, prompt.keys[i + 1]))
        ]
        self._journal.name(prompt.keys, prompt.ids)
        for store in stores:
            absent = {block.key for block in blocks if store in block.stores}
            present = [key for key in prompt.keys[begin // BLOCK + 1 :] if key not in absent]
            self._journal.change(store.name, STORED, present)
            if evicted:
                store.mark(present, cached=False)
            if store.name == "disk":
                self._note_items(prompt)
        return blocks

    def _copy_states(self, node: RadixNode, stores: Sequence[BlockStore]) -> None:
        """Copy the states at the end of a node to the stores without them."""
        prompt, checkpoints = self._read(node), self._cache.checkpoints
        if prompt is None or self._states is None or checkpoints is None or node.parent is None:
            return
        lacking = _lacking(stores, prompt.keys[-1])
        block = self._block(node, prompt, node.end // BLOCK - 1, node.path_slots(), lacking)
        before = checkpoints.deepest(node.parent, node.end)
        seconds = self._costs.compute_seconds(before.end, node.end)
        block = block._replace(units=node.attached[checkpoints.pool], seconds=seconds)
        if lacking and not self._writer.submit([block], self._states):
            self.counts["dropped_blocks"] += 1
            self._copied.discard(node.id)
            self.note_change()

    def _note_items(self, prompt: StoredPrompt) -> None:
        """Store the facts of a prompt's images, videos and sounds."""
        records, items = self._prefixes.stores.records, [item for _, item in prompt.spans]
        if records is None or not items:
            return

        def write() -> None:
            for item in items:
                facts = item.pack_facts()
                if facts is not None:
                    records.write(item.key, item.seconds, facts)

        with suppress(RuntimeError):  # no thread can start
            self._thread.submit(guarded, write)

    def _note_end(self, blocks: Sequence[NodeBlock], stored: Sequence[bool]) -> None:
        """Count copies. Nodes with a lost copy are offered again."""
        self._journal.collect(self._prefixes.stores)
        self.counts["stored_blocks"] += sum(stored)
        for block, is_stored in zip(blocks, stored, strict=True):
            if not is_stored:
                self._copied.discard(block.node.id)
                block.node.copied = False

    def _read(self, node: RadixNode) -> StoredPrompt | None:
        """Return the prompt up to the end of a node; None if nothing of the prompt is stored."""
        path = node.path()
        if path[0].key[0] != "" or node.end < MIN_TOKENS:
            return None
        return self._prefixes.read(np.concatenate([above.tokens for above in path]))

    def _block(
        self,
        node: RadixNode,
        prompt: StoredPrompt,
        i: int,
        slots: Ints,
        stores: Sequence[BlockStore],
    ) -> NodeBlock:
        """Return block number `i` of the prompt of a node."""
        span = slice(i * BLOCK, (i + 1) * BLOCK)
        return NodeBlock(
            node=node,
            key=prompt.keys[i + 1],
            parent=prompt.keys[i],
            tokens=prompt.tokens[span],
            units=slots[span],
            seconds=self._costs.compute_seconds(span.start, span.stop),
            stores=stores,
        )

    def _has_states(self, node: RadixNode) -> bool:
        """Return whether recurrent states after a full block belong to a node."""
        checkpoints = self._cache.checkpoints
        return checkpoints is not None and node.end % BLOCK == 0 and checkpoints.has(node)

    def _seconds(self, node: RadixNode) -> float:
        return self._costs.compute_seconds(0, node.end)

    def _is_for_disk(self, node: RadixNode) -> bool:
        """Return whether the blocks of a node belong on the disk and are not there yet."""
        if node.id in self._copied or node.end < MIN_TOKENS or not self._prefixes.blocks("disk"):
            return False
        if self._states is not None and not self._has_states(node):
            return False
        used_again = node.hits > 0
        is_pinned = node.locks > 0 and any(
            node in pinned.path() for pinned in self._cache.tree.pins.values()
        )
        return used_again or is_pinned or self._seconds(node) >= DISK_SECONDS


def _lacking(stores: Sequence[BlockStore], key: bytes) -> list[BlockStore]:
    """Return the stores without a block."""
    return [store for store in stores if not store.holds(key)]
