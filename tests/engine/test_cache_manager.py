"""The cache manager with three payloads: KV slots, recurrent states, and embeddings of a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.payload import Payload
from sgnb.engine.cache.radix import Ints, RadixNode
from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.state_pool import StatePool, StateShape

CPU = torch.device("cpu")
SLOTS, STATES, ROWS = 40, 9, 12


class Embeddings:
    """Encoded images, several rows per image: a payload without allocator or tensors in common with
    the others."""

    unit_bytes = 6

    def __init__(self) -> None:
        self.rows = np.random.default_rng(0).integers(0, 256, (ROWS, 6), dtype=np.uint8)
        self.used: set[int] = set()

    @property
    def available(self) -> int:
        return ROWS - len(self.used)

    def allocate(self, count: int) -> Ints:
        ids = [row for row in range(ROWS) if row not in self.used][:count]
        self.used |= set(ids)
        return np.array(ids, np.int32)

    def free(self, ids: Ints) -> None:
        assert self.used.issuperset(ids.tolist())
        self.used -= set(ids.tolist())

    def copy(self, ids: Ints, destination: Any) -> None:
        destination[:] = torch.from_numpy(self.rows[ids])

    def take(self, ids: Ints) -> Any:
        raise NotImplementedError

    def restore(self, ids: Ints, source: Any) -> None:
        self.rows[ids] = source.numpy()


class Setting:
    """A manager over real tensors with random content."""

    def __init__(self, states: bool = True, **options: Any) -> None:
        torch.manual_seed(0)
        shapes = {0: LayerShape(2, 3, 5), 4: LayerShape(1, 7, 2)}
        self.kv = KVCache(shapes, SLOTS, torch.bfloat16, CPU)
        for tensor in (*self.kv.keys.values(), *self.kv.values.values()):
            tensor.normal_()
        layers = {
            1: [StateShape("conv", 0, (3, 4), torch.float32)],
            2: [StateShape("recurrent", 0, (5,), torch.bfloat16)],
        }
        self.pool = StatePool(layers, STATES, CPU)
        for parts in self.pool.tensors.values():
            for tensor in parts:
                tensor.normal_()
        self.slots, self.states = SlotAllocator(SLOTS, self.kv), SlotAllocator(STATES, self.pool)
        self.embeddings = Embeddings()
        self.events: list[Any] = []
        self.cache = CacheManager(
            self.slots, self.states if states else None, emit=self.events.append, **options
        )

    def run(self, tokens: list[int], namespace: str | None = "") -> tuple[CachedSequence, int]:
        """Compute all tokens. Returns the sequence, and the tokens taken from the cache."""
        sequence = CachedSequence(tokens, len(tokens) + 3, CacheScope(namespace))
        cached, _ = self.cache.start(sequence, self.cache.match(sequence), [])
        if sequence.states is not None:
            sequence.states.written(sequence.states.plan(cached, len(tokens)))
        sequence.num_computed = len(tokens)
        return sequence, cached

    def node(self, tokens: list[int]) -> RadixNode:
        return self.cache.tree.match(np.array(tokens, np.int32))


def content(payload: Payload, ids: Ints) -> torch.Tensor:
    buffer = torch.zeros(len(ids), payload.unit_bytes, dtype=torch.uint8)
    payload.copy(ids, buffer)
    return buffer


def test_a_copy_has_the_bytes_of_all_layers() -> None:
    setting = Setting()
    ids = np.array([7, 2, 31], np.int32)
    copied = content(setting.slots, ids)
    assert setting.slots.unit_bytes == 2 * (2 * (3 + 5) + 7 + 2)
    parts = [*setting.kv.keys.values(), *setting.kv.values.values()]
    for row, slot in zip(copied, ids.tolist(), strict=True):
        expected = torch.cat([part[slot].flatten() for part in parts])
        assert torch.equal(row.view(torch.bfloat16), expected)

    assert setting.states.unit_bytes == 3 * 4 * 4 + 5 * 2
    (row,) = content(setting.states, np.array([4], np.int32))
    assert torch.equal(row[:48].view(torch.float32), setting.pool.tensors[1][0][4].flatten())
    assert torch.equal(row[48:].view(torch.bfloat16), setting.pool.tensors[2][0][4])


def test_evicted_nodes_keep_their_content_until_it_is_freed() -> None:
    """A lower tier copies all payloads of evicted nodes, then the units become free."""
    setting = Setting()
    cache, payloads = setting.cache, (setting.slots, setting.states, setting.embeddings)
    totals = [payload.available for payload in payloads]
    for first in (1, 2):
        sequence, _ = setting.run([first] * 6 * first)
        cache.release(sequence)
    node = setting.node([1] * 6)
    cache.tree.attach(node, setting.embeddings, setting.embeddings.allocate(5))
    before = [payload.available for payload in payloads]
    assert before == [totals[0] - 18, totals[1] - 2, totals[2] - 5]

    evicted = cache.tree.evict(13)
    assert [part.end for part in evicted] == [12, 6] and not cache.tree.size
    assert [payload.available for payload in payloads] == before
    assert cache.tree.attached[setting.states] == cache.tree.attached[setting.embeddings] == 0
    tier = {
        payload: content(payload, ids)
        for payload, ids in ((setting.slots, node.slots), *node.attached.items())
    }
    assert [tier[payload].shape for payload in payloads] == [(6, 50), (1, 58), (5, 6)]
    assert torch.equal(tier[setting.embeddings], torch.from_numpy(setting.embeddings.rows[:5]))

    assert cache.free(evicted) == 18
    assert [payload.available for payload in payloads] == totals


def test_allocation_evicts_nodes_with_all_their_payloads() -> None:
    setting = Setting(states=False)
    sequence, _ = setting.run(list(range(30)))
    setting.cache.release(sequence)
    ids = setting.embeddings.allocate(ROWS)
    setting.cache.tree.attach(setting.node(list(range(30))), setting.embeddings, ids)
    assert setting.cache.allocate(SLOTS + 1) is None, "all nodes are evicted before the refusal"
    assert setting.embeddings.available == ROWS and setting.slots.available == SLOTS


def test_a_split_leaves_attached_payloads_at_the_end() -> None:
    setting = Setting(states=False)
    sequence, _ = setting.run([1, 2, 3, 4, 5])
    setting.cache.release(sequence)
    ids = setting.embeddings.allocate(2)
    setting.cache.tree.attach(setting.node([1, 2, 3, 4, 5]), setting.embeddings, ids)
    upper = setting.node([1, 2])
    (lower,) = upper.children.values()
    assert not upper.attached and lower.attached[setting.embeddings] is ids
    assert setting.cache.tree.detach(lower, setting.embeddings) is ids
    setting.cache.flush()
    assert setting.embeddings.available == ROWS - 2, "detached units belong to the caller"


@pytest.mark.parametrize("states", [False, True])
def test_sequences_share_a_prefix(states: bool) -> None:
    setting = Setting(states)
    first, cached = setting.run([1, 2, 3, 4, 5, 6, 7])
    assert cached == 0
    setting.cache.release(first)
    assert setting.cache.in_flight == 0 and setting.cache.tree.size == 7

    again, cached = setting.run([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert cached == 7 and setting.cache.in_flight == 2
    assert again.slots[:7].tolist() == first.slots[:7].tolist()
    alone, cached = setting.run([1, 2, 3, 4, 5, 6, 7, 8, 9], namespace=None)
    assert cached == 0 and not set(again.slots[:9]) & set(alone.slots[:9])
    for sequence in (again, alone):
        setting.cache.release(sequence, insert=False)
    assert setting.cache.tree.size == 7 and setting.cache.tree.locked == 0


def test_a_match_counts_its_prefix_as_available_without_its_lock() -> None:
    setting = Setting(states=False)
    sequence, _ = setting.run(list(range(30)))
    setting.cache.release(sequence)
    match = setting.cache.match(CachedSequence(list(range(36)), 36, CacheScope()))
    assert match.slots == 6 and setting.cache.fits(match, reserve=4)
    assert not setting.cache.fits(match, reserve=5)
    match = setting.cache.unlock(match)
    assert match.slots == 36 and setting.cache.fits(match, 4) and not setting.cache.fits(match, 5)
