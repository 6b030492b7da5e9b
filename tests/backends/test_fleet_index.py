"""The fleet's index against the radix trees of the workers, and against plain sets."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.backends.fleet.block_index import BlockIndex, Level
from sgnb.backends.fleet.tree_feed import TreeFeed, prompt_keys
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.cache.tree_events import EngineSnapshot, tree_events
from sgnb.events import EventLog, NodeAdded, NodeEvicted, NodeSplit, Record, RecordsLost

VOCAB = 50
TOKENIZER = "tokenizer"
SLOTS = 1500


class Pool:
    unit_bytes = 1


def tree_keys(tree: RadixTree) -> set[bytes]:
    """Return the keys of all full blocks of a tree, from the token ids of all paths."""
    keys: set[bytes] = set()
    for node in tree.nodes():
        path = node.path()
        tokens = np.concatenate([each.tokens for each in path])
        keys.update(prompt_keys(TOKENIZER, path[0].key[0], tokens, VOCAB))
    return keys


class Worker:
    """A cache manager, its log, and the way of the log's records to the index."""

    def __init__(self, index: BlockIndex, number: int) -> None:
        self.log = EventLog()
        self.cache = CacheManager(SlotAllocator(SLOTS, Pool()), emit=self.log.emit)  # type: ignore[arg-type]
        self.feed = TreeFeed(index, number, TOKENIZER, VOCAB)
        self.read = 0
        self.running: list[CachedSequence] = []

    def start(self, tokens: list[int], namespace: str) -> None:
        sequence = CachedSequence(np.array(tokens, np.int32), len(tokens), CacheScope(namespace))
        match = self.cache.match(sequence)
        if not self.cache.fits(match, 0):
            self.cache.unlock(match)
            return
        self.cache.start(sequence, match, [])
        sequence.num_computed = sequence.num_tokens
        self.running.append(sequence)

    def deliver(self, lost: int = 0) -> None:
        """Deliver the new records, without the first `lost` of them."""
        records = self.log.read(self.read).records
        self.read += len(records)
        self.feed.apply(records[lost:])

    def snapshot(self) -> None:
        self.feed.restore(EngineSnapshot(self.log.last, self.log.now(), tree_events(self.cache)))


PARTS = [[1 + number] * length for number, length in enumerate((5, 17, 40, 64, 65, 100, 128))]
ITEM = [VOCAB + 3] * 7
WEIGHTS = {
    "start": 30,
    "end": 25,
    "evict": 10,
    "flush": 1,
    "deliver": 25,
    "lose": 2,
    "snapshot": 2,
    "book": 5,
    "unbook": 5,
}


def draw_prompt(rng: random.Random) -> list[int]:
    parts = rng.choices(PARTS, k=rng.randint(1, 6))
    return list(chain.from_iterable([*parts, ITEM] if rng.random() < 0.1 else parts))


def act(rng: random.Random, worker: Worker) -> str:
    """Change the cache of a worker, or deliver records. Returns the action."""
    name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if name == "start":
        worker.start(draw_prompt(rng), rng.choice(["", "", "a"]))
    elif name == "end" and worker.running:
        running = worker.running.pop(rng.randrange(len(worker.running)))
        worker.cache.release(running, insert=rng.random() < 0.9)
    elif name == "evict":
        worker.cache.free(worker.cache.tree.evict(rng.randint(1, 300)))
    elif name == "flush":
        worker.cache.flush(rng.choice([None, "a"]))
    elif name == "deliver":
        worker.deliver()
    elif name == "lose":
        worker.deliver(lost=rng.randint(1, 3))
    elif name == "snapshot":
        worker.snapshot()
    return name


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_index_equals_the_trees(seed: int) -> None:
    rng, index = random.Random(seed), BlockIndex()
    workers = [Worker(index, number) for number in range(3)]
    booked: list[tuple[int, list[bytes]]] = []
    for _ in range(200):
        number = rng.randrange(3)
        worker = workers[number]
        name = act(rng, worker)
        if name == "book":
            tokens = np.array(draw_prompt(rng), np.int32)
            booked.append((number, prompt_keys(TOKENIZER, "", tokens, VOCAB)))
            index.book(*booked[-1])
        elif name == "unbook" and booked:
            index.unbook(*booked.pop(rng.randrange(len(booked))))
        is_current = name == "snapshot" or worker.feed.seq == worker.log.last
        if is_current and not worker.feed.stale:
            assert index.cached(number) == tree_keys(worker.cache.tree)
        elif worker.feed.stale and rng.random() < 0.3:
            worker.snapshot()

    for number, keys in booked:
        index.unbook(number, keys)
    for number, worker in enumerate(workers):
        worker.deliver()
        if worker.feed.stale or worker.feed.seq < worker.log.last:
            worker.snapshot()
        assert index.cached(number) == tree_keys(worker.cache.tree)
    check_levels(index, [index.cached(number) for number in range(3)], rng)


def check_levels(index: BlockIndex, cached: list, rng: random.Random) -> None:
    """Compare `levels` with a lookup of each block."""
    prompts = [
        list(chain.from_iterable(rng.choices(PARTS, k=rng.randint(1, 6)))) for _ in range(20)
    ]
    for tokens in prompts:
        keys = prompt_keys(TOKENIZER, "", np.array(tokens, np.int32), VOCAB)
        assert index.levels(keys) == slow_levels(keys, cached)


def slow_levels(keys: list, cached: list) -> list[Level]:
    levels: dict[int, int] = {}
    for length in range(1, len(keys) + 1):
        workers = sum(1 << w for w, held in enumerate(cached) if held.issuperset(keys[:length]))
        if workers:
            levels[workers] = length
    return [Level(length, workers) for workers, length in levels.items()]


@pytest.mark.parametrize("seed", range(5))
def test_bookings_count_until_their_last_end(seed: int) -> None:
    rng, index = random.Random(seed), BlockIndex()
    cached = defaultdict[int, set[int]](set)
    booked: list[tuple[int, list[int]]] = []
    blocks = list(range(12))
    for _ in range(150):
        worker, keys = rng.randrange(70), blocks[: rng.randint(1, 12)]
        action = rng.choice(["add", "remove", "book", "unbook", "forget"])
        if action == "add":
            index.add(worker, keys)
            cached[worker].update(keys)
        elif action == "remove":
            begin = rng.randrange(12)
            index.remove(worker, blocks[begin:])
            cached[worker].difference_update(blocks[begin:])
        elif action == "book":
            index.book(worker, keys)
            booked.append((worker, keys))
        elif action == "unbook" and booked:
            index.unbook(*booked.pop(rng.randrange(len(booked))))
        elif action == "forget":
            index.forget(worker)
            cached[worker].clear()
        present = [set(cached[w]) for w in range(70)]
        for w, keys in booked:
            present[w].update(keys)
        assert index.levels(blocks) == slow_levels(blocks, present)


def record(seq: int, event: object) -> Record:
    return Record(seq, float(seq), event)


@pytest.mark.parametrize(
    "event",
    [
        NodeAdded(1, 0, (1,)),
        NodeAdded(2, 7, (1,)),
        NodeSplit(7, 8, 1),
        NodeSplit(1, 2, 64),
        NodeEvicted(7, "memory"),
        RecordsLost(3),
    ],
    ids=[
        "added twice",
        "without parent",
        "unknown split",
        "split at the end",
        "unknown eviction",
        "losses",
    ],
)
def test_a_contradiction_makes_the_feed_stale(event: object) -> None:
    index = BlockIndex()
    feed = TreeFeed(index, 0, TOKENIZER, VOCAB)
    feed.apply([record(1, NodeAdded(1, 0, (1,) * 64)), record(2, event)])
    assert feed.stale
    assert len(index.cached(0)) == 1  # kept until the snapshot
    feed.restore(EngineSnapshot(0, 2.0, []))
    assert not feed.stale
    assert not index.cached(0)


def test_a_gap_makes_the_feed_stale_and_old_records_are_ignored() -> None:
    index = BlockIndex()
    feed = TreeFeed(index, 0, TOKENIZER, VOCAB, seq=3)
    feed.restore(EngineSnapshot(0, 5.0, [NodeAdded(1, 0, (1,) * 64)]))
    feed.apply([record(5, NodeEvicted(1, "memory"))])  # a gap before the snapshot
    assert not feed.stale
    assert len(index.cached(0)) == 1
    feed.apply([record(7, NodeEvicted(1, "memory"))])
    assert feed.stale
    assert len(index.cached(0)) == 1
