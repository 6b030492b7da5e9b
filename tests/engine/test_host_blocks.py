"""Block store in host memory, compared with a dictionary; copies beside evictions."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from mmap import PAGESIZE
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.tiers import host
from sgnb.engine.cache.tiers.blocks import BLOCK, BlockStore, Bytes
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.host_memory import allocate, allocate_pinned

from .numbered_blocks import make_block, read

UNIT = 3
SIZE = UNIT * BLOCK
COSTS = (0.0, 0.25, 0.25, 0.5, 1.0, 3.0)
"""Seconds that a block saves, by number modulo 6."""


def make(number: int) -> Any:
    return make_block(number, UNIT, COSTS[number % len(COSTS)])


def check(store: HostBlocks) -> None:
    """Check the invariant, and that no place is used twice."""
    with store._lock:
        assert store.free + store.stored + store.moving == store.total
        places = [*store._places, *(block.place for block in store._blocks.values())]
        assert len({place.data.ctypes.data for place in places}) == len(places)
        assert not any(place.arena.returned for place in places)
        assert store._following == Counter(block.parent for block in store._blocks.values())
        blocks = store._blocks
        queued = [key for _, key, block in store._queue if blocks.get(key) is block]
        assert set(store._cached) <= blocks.keys()
        assert sorted(queued) == sorted(k for k, block in store._blocks.items() if block.queued)
        ends = {key for key in store._blocks if not store._following[key]}
        assert ends <= set(queued)


CHAIN = 4
"""Blocks of a prompt: block 0 .. 3 of the first one, 4 .. 7 of the second."""


def link(number: int) -> Any:
    """Return a block of a prompt: `parent` is the block before."""
    block = make(number)
    return block._replace(parent=make(number - 1).key) if number % CHAIN else block


class Oracle:
    """Order of evictions over a dictionary: all blocks are searched at each eviction."""

    def __init__(self, size: int) -> None:
        self.size, self.clock, self.uses = size, 0.0, 0
        self.ranks: dict[int, tuple[float, int]] = {}
        self.cached: list[int] = []

    def rank(self, number: int) -> tuple[float, int]:
        self.uses += 1
        return self.clock + COSTS[number % len(COSTS)], self.uses

    def is_last(self, number: int) -> bool:
        """Return whether no stored block follows."""
        return (number + 1) % CHAIN == 0 or number + 1 not in self.ranks

    def remove(self, number: int) -> None:
        del self.ranks[number]
        self.cached = [each for each in self.cached if each != number]

    def write(self, number: int) -> bool:
        rank = self.rank(number)
        before = number - 1 if number % CHAIN else -1
        if number in self.ranks or len(self.ranks) < self.size or self.evict(rank, before):
            self.ranks[number] = rank
        return number in self.ranks

    def evict(self, rank: tuple[float, int], before: int) -> bool:
        while self.cached:
            number = self.cached.pop()
            if self.is_last(number) and number != before:
                self.remove(number)
                return True
        for number in sorted(filter(self.is_last, self.ranks), key=lambda each: self.ranks[each]):
            self.clock = max(self.clock, min(rank, self.ranks[number])[0])
            if self.ranks[number] > rank:
                break
            if number != before:
                self.remove(number)
                return True
        return False

    def mark(self, numbers: range, cached: bool) -> None:
        for number in numbers:
            if number in self.ranks:
                self.cached = [each for each in self.cached if each != number]
                if cached:
                    self.cached.append(number)
                else:
                    self.ranks[number] = self.rank(number)


ACTIONS = ["write", "write", "reserve", "cancel", "read", "foreign", "cached", "evicted", "flush"]
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=80)
long_steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS[:-1]), st.integers(0, 11)), min_size=60, max_size=60
)


@settings(max_examples=90)
@given(st.integers(0, 7), steps | long_steps)
def test_the_store_agrees_with_a_dictionary(size: int, steps: list[tuple[str, int]]) -> None:
    store: HostBlocks = HostBlocks(size * SIZE + SIZE // 2, UNIT, allocate)
    protocol: BlockStore = store
    protocol.grow(1)
    oracle = Oracle(size)
    for action, number in steps:
        block = link(number)
        if action == "write":
            assert protocol.write(block) == oracle.write(number)
        elif action in ("reserve", "cancel"):
            place = protocol.reserve(block.key, block.parent, block.seconds)
            expected = number not in oracle.ranks and oracle.write(number)
            assert (place is not None) == expected
            if place is not None and action == "reserve":
                assert store.moving == 1 and not store.holds(block.key)
                place.data[:] = block.data
                assert place.store(block)
            elif place is not None:
                oracle.remove(number)
            for _ in range(2 if place is not None else 0):
                place.cancel()  # also behind the end
        elif action == "read":
            assert read(store, block) == (number in oracle.ranks)
            if number in oracle.ranks:
                oracle.ranks[number] = oracle.rank(number)
        elif action == "foreign":
            assert not read(store, block._replace(parent=b"another"))
            assert not read(store, block._replace(tokens=block.tokens + 1))
        elif action in ("cached", "evicted"):
            prompt = range(number // CHAIN * CHAIN, number + 1)
            protocol.mark([link(each).key for each in prompt], action == "cached")
            oracle.mark(prompt, action == "cached")
        elif number == 0:
            store.flush()
            oracle.ranks.clear()
            oracle.cached.clear()
        for each in range(12):
            assert store.holds(make(each).key) == (each in oracle.ranks)
            held = COSTS[each % len(COSTS)] if each in oracle.ranks else 0
            assert store.seconds(make(each).key) == held
        assert store.total == size and store.moving == 0
        check(store)


def test_valuable_blocks_age() -> None:
    """A valuable block outlives many cheap blocks, and is evicted in the end."""
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    valuable = make_block(0, UNIT, 1.0)
    store.write(valuable)
    for number in range(1, 200):
        store.write(make_block(number, UNIT, 0.1))
        if not store.holds(valuable.key):
            break
    assert 18 <= number <= 24


def test_the_end_of_a_prompt_is_evicted_first() -> None:
    """Although the first blocks of a prompt are older and save less time."""
    store = HostBlocks(6 * SIZE, UNIT, allocate)
    chains = [[make_block(8 * chain + i, UNIT, 1.0 + i) for i in range(3)] for chain in range(2)]
    for chain in chains:
        parent = chain[0].parent
        for block in chain:
            assert store.write(block._replace(parent=parent))
            parent = block.key
    check(store)
    for number in range(4):
        assert store.write(make_block(100 + number, UNIT, 50.0))
        check(store)
    held = [[store.holds(block.key) for block in chain] for chain in chains]
    assert held == [[False, False, False], [True, True, False]]


def test_a_block_does_not_evict_the_block_before() -> None:
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    other, begin = make_block(1, UNIT, 10.0), make_block(2, UNIT, 1.0)
    assert store.write(other) and store.write(begin)
    end = make_block(3, UNIT, 1.1)._replace(parent=begin.key)
    assert not store.write(end) and store.holds(begin.key)
    assert store.write(end._replace(seconds=20.0))
    assert [store.holds(block.key) for block in (other, begin, end)] == [False, True, True]
    check(store)


def during_copies(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> list[int]:
    """Run an action in the middle of the next copy. Returns a list with an entry per run."""
    copy, ran = np.copyto, []

    def copy_around(to: np.ndarray, source: np.ndarray) -> None:
        half = len(to) // 2
        copy(to[:half], source[:half])
        if not ran:
            ran.append(1)
            action()
        copy(to[half:], source[half:])

    monkeypatch.setattr(host.np, "copyto", copy_around)
    return ran


@pytest.mark.parametrize("end", ["nothing", "flush", "close"])
def test_a_place_is_not_reused_while_it_is_read(end: str) -> None:
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    first, *others = [make(number) for number in range(12)]
    assert store.write(first)

    def fill() -> None:
        if end != "nothing":
            getattr(store, end)()
        for other in others:
            store.write(other)
        check(store)
        assert store.moving == (end != "nothing") and store.holds(first.key) == (end == "nothing")

    with store.open(first.key, first.parent, first.tokens, lambda: first.data) as content:
        fill()
        assert content is not None and (content == first.data).all()
    check(store)
    assert store.moving == 0 and store.total == (0 if end == "close" else 2)


@pytest.mark.parametrize("end", ["flush", "close"])
def test_a_write_beside_a_flush_leaves_no_block(monkeypatch: Any, end: str) -> None:
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    ran = during_copies(monkeypatch, getattr(store, end))
    assert not store.write(make(1)) and ran and not store.holds(make(1).key)
    check(store)
    assert (store.moving, store.stored, store.total) == (0, 0, 0 if end == "close" else 2)


def test_two_writes_of_one_block_at_once(monkeypatch: Any) -> None:
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    ran = during_copies(monkeypatch, lambda: store.write(make(1)))
    assert store.write(make(1)) and ran and store.stored == 1 == store.free
    check(store)


def test_a_failed_copy_returns_the_place() -> None:
    store = HostBlocks(2 * SIZE, UNIT, allocate)
    block = make(1)
    with pytest.raises(ValueError, match="broadcast"):
        store.write(block._replace(data=block.data[:5]))
    assert store.write(block)
    with (
        pytest.raises(ValueError, match="planted"),
        store.open(block.key, block.parent, block.tokens, lambda: block.data),
    ):
        raise ValueError("planted")
    check(store)
    assert store.moving == 0 and store.free == 1 and read(store, block)


@pytest.fixture
def fast_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_threads_read_and_write_while_blocks_are_evicted(fast_switches: None) -> None:
    unit = 512
    store = HostBlocks(8 * BLOCK * unit, unit, allocate)
    blocks = [make_block(number, unit, COSTS[number % 6]) for number in range(24)]

    def work(seed: int) -> int:
        rng, hits = random.Random(seed), 0
        for step in range(1500):
            block = rng.choice(blocks)
            if rng.random() < 0.5:
                store.write(block)
            else:
                hits += read(store, block)
            if step % 50 == 0:
                check(store)
            if seed == 0 and step % 100 == 99:
                store.flush()
        return hits

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(work, range(4))) > 0
    check(store)
    assert store.moving == 0 and store.total == 8
    store.close()
    assert (store.free, store.stored, store.total) == (0, 0, 0)


def test_close_beside_threads_returns_all_places(fast_switches: None) -> None:
    unit = 512
    for seed in range(5):
        store = HostBlocks(8 * BLOCK * unit, unit, allocate)
        closed = threading.Event()

        def work(number: int, store: Any = store, closed: Any = closed) -> None:
            while not closed.is_set():
                block = make_block(number % 10, unit)
                store.write(block)
                read(store, block)
                number += 1

        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(work, seed + each) for each in range(3)]
            while store.stored < 5 and not any(future.done() for future in futures):
                time.sleep(0.001)
            store.close()
            closed.set()
        assert [future.result() for future in futures] == [None] * 3
        assert (store.total, store.free, store.stored, store.moving) == (0, 0, 0, 0)
        assert not store.write(make_block(0, unit))


def test_arenas_are_allocated_when_needed(monkeypatch: Any) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE + 5)
    store = HostBlocks(5 * SIZE + 20, UNIT, allocate)
    totals = []
    for number in range(7):
        store.write(make_block(number, UNIT))
        totals.append(store.total)
        check(store)
    assert totals == [2, 2, 4, 4, 5, 5, 5]


def test_arenas_leave_memory_to_the_machine(monkeypatch: Any) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    monkeypatch.setattr(host, "RESERVE_BYTES", 5 * SIZE)
    free = 9 * SIZE
    store = HostBlocks(6 * SIZE, UNIT, allocate, free_bytes=lambda: free)
    for number in range(5):
        assert store.write(make_block(number, UNIT))
        free = 8 * SIZE
        check(store)
    assert store.total == 2, "a second arena would leave less free than its size and the reserve"

    free = 20 * SIZE
    assert all(store.write(make_block(number, UNIT)) for number in range(6))
    assert store.total == store.stored == 6
    store.relieve()
    assert store.total == 6

    rest = iter([4 * SIZE, 4 * SIZE, 7 * SIZE])
    store._free_bytes = lambda: next(rest)
    kept = make_block(0, UNIT)
    with store.open(kept.key, kept.parent, kept.tokens, lambda: kept.data) as content:
        store.relieve()
        check(store)
        assert content is not None and (content == kept.data).all()
    assert (store.total, store.moving) == (2, 0)
    held = [read(store, make_block(number, UNIT)) for number in range(6)]
    assert 0 < sum(held) == store.stored
    store._free_bytes = lambda: free
    assert all(store.write(make_block(number, UNIT)) for number in range(6)) and store.total == 6
    check(store)


def test_an_arena_allocated_next_to_close_is_not_kept() -> None:
    def close(size: int) -> Bytes:
        store.close()
        return allocate(size)

    store = HostBlocks(4 * BLOCK * UNIT, UNIT, close)
    assert not store.write(make_block(1, UNIT))
    assert not store.total and not store._arenas


def test_a_full_memory_keeps_the_present_arenas(monkeypatch: Any) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    allocated = list[int]()

    def fail(size: int) -> Bytes:
        allocated.append(size)
        if len(allocated) > 1:
            raise MemoryError
        return allocate(size)

    store = HostBlocks(6 * SIZE, UNIT, fail)
    store.write(make(0))
    assert all(store.write(make_block(number, UNIT)) for number in range(1, 5))
    assert store.total == store.stored == 2


def is_pinned(place: Any, pinned: dict[int, int]) -> bool:
    """Return whether a place is in pinned pages that belong to its arena alone."""

    def span(array: Any) -> tuple[int, int]:
        return array.ctypes.data, array.ctypes.data + array.nbytes

    (begin, end), (first, last) = span(place), span(place.base)
    return any(first <= at <= begin and end <= at + size <= last for at, size in pinned.items())


def test_arenas_are_pinned_until_their_last_use(monkeypatch: Any) -> None:
    pinned: dict[int, int] = {}

    class Runtime:
        @staticmethod
        def cudaHostRegister(address: int, size: int, flags: int) -> int:
            assert address % PAGESIZE == size % PAGESIZE == 0
            pinned[address] = size
            return 0

        cudaHostUnregister = staticmethod(pinned.pop)

    monkeypatch.setattr(torch.cuda, "cudart", lambda: Runtime)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(host, "ARENA_BYTES", 4 * SIZE + 1)
    store = HostBlocks(7 * SIZE, UNIT, partial(allocate_pinned, torch.device("cuda:3")))
    blocks = [make_block(number, UNIT) for number in range(12)]
    assert all(store.write(block) for block in blocks)
    assert len(pinned) == 2 and store.total == 2 + 4
    assert all(is_pinned(block.place.data, pinned) for block in store._blocks.values())

    last = next(block for block in blocks if store.holds(block.key))
    with store.open(last.key, last.parent, last.tokens, lambda: last.data) as content:
        store.close()
        assert len(pinned) == 1 and content is not None and (content == last.data).all()
    del content
    gc.collect()
    assert not pinned


def test_memory_that_cannot_be_pinned_is_not_used(monkeypatch: Any) -> None:
    runtime = SimpleNamespace(cudaHostRegister=lambda *_: 2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    store = HostBlocks(7 * SIZE, UNIT, partial(allocate_pinned, torch.device("cuda:3")))
    assert not store.write(make(1)) and not store.write(make(2)) and store.total == 0


def test_sizes_of_arenas() -> None:
    full = host.ARENA_BYTES
    assert host.arena_sizes(3 * full + 9, 5) == [9, full, full, full]
    assert host.arena_sizes(3 * full + 9, 10) == [full, full, full]
    assert host.arena_sizes(9, 10) == []
    assert host.arena_sizes(5 * full, 2 * full) == [2 * full, 2 * full]
