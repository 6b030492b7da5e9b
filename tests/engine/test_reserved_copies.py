"""Copies to reserved host memory, and host memory allocated ahead of the copies."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.cache.tiers import copy_writer, host, transfers
from sgnb.engine.cache.tiers.blocks import BLOCK, Block, Bytes, Reservation
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.host_memory import allocate

from .numbered_blocks import make_block
from .test_cache_tiers import computed, evicted, stored
from .test_host_blocks import check
from .tier_setting import SLOTS, Setting, work_all

UNIT = 3
SIZE = UNIT * BLOCK


def use_host_blocks(setting: Setting, count: int) -> HostBlocks:
    """Replace the fake store by host memory for `count` blocks."""
    unit_bytes = setting.kv.unit_bytes
    store = HostBlocks(count * BLOCK * unit_bytes, unit_bytes, allocate)
    setting.tiers.prefixes.stores = setting.tiers.prefixes.stores._replace(blocks=[store])
    return store


def offer_all(setting: Setting) -> None:
    setting.cache.on_eviction(list(setting.cache.tree.nodes()))


@pytest.mark.parametrize("reserves", [True, False])
def test_only_copies_to_other_memory_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, reserves: bool
) -> None:
    setting = Setting(2, ("host",))
    block_bytes = BLOCK * setting.kv.unit_bytes
    monkeypatch.setattr(transfers, "PART_BYTES", 2 * block_bytes)
    monkeypatch.setattr(copy_writer, "MAX_PENDING_BYTES", 4 * block_bytes)
    setting.stores[0].refuses = lambda key: not reserves
    computed(setting, setting.tokens(700))
    offer_all(setting)
    work_all(setting)
    assert stored(setting) == (700 // BLOCK if reserves else 4)
    assert (setting.tiers.statistics()["dropped_blocks"] == 0) == reserves


@pytest.mark.parametrize("seed", range(3))
def test_random_work_with_little_host_memory(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each step compares the content of restored blocks, and counts slots and places."""
    setting = Setting(seed, ("host",))
    monkeypatch.setattr(setting, "restart", lambda: None)
    monkeypatch.setattr(host, "ARENA_BYTES", 5 * BLOCK * setting.kv.unit_bytes)
    store = use_host_blocks(setting, 24)
    most = 0
    for step in range(900):
        setting.step()
        assert store.free + store.stored + store.moving == store.total <= 24
        if step % 50 == 0:
            store.grow(3)
        most = max(most, store.stored)
        if step == 450:
            setting.tiers.copies.flush()
    work_all(setting)
    check(store)
    assert store.moving == 0 and store.total == 24 and most > 15
    assert setting.tiers.statistics()["loads"] > 3


def test_loaded_blocks_are_cached_until_their_eviction() -> None:
    setting = Setting(2, ("host",))
    store = use_host_blocks(setting, 20)
    request = evicted(setting, written=True)
    assert store.stored == 500 // BLOCK and not store._cached
    while not setting.tiers.ready(request, False, SLOTS):
        work_all(setting)
    assert len(store._cached) == 500 // BLOCK
    setting.tiers.forget(request)
    setting.tiers.copies.write_idle()
    assert len(store._cached) == 500 // BLOCK, "the pool has the blocks still"
    offer_all(setting)
    assert not store._cached


def test_values_that_are_not_finite_give_their_memory_back() -> None:
    setting = Setting(2, ("host",))
    store = use_host_blocks(setting, 20)
    store.grow(1)
    own: Any = setting.tiers._transfer
    own._is_finite = lambda units: torch.zeros(len(units)).bool()
    computed(setting, setting.tokens(300))
    offer_all(setting)
    assert store.moving == 300 // BLOCK
    work_all(setting)
    assert (store.stored, store.moving) == (0, 0)


def test_a_flush_drops_copies_to_reserved_memory() -> None:
    setting = Setting(2, ("host",))
    store = use_host_blocks(setting, 20)
    store.grow(1)
    computed(setting, setting.tokens(300))
    offer_all(setting)
    setting.tiers.flush()
    work_all(setting)
    assert (store.stored, store.moving) == (0, 0)
    assert setting.tiers.statistics()["stored_blocks"] == 0


def test_a_copy_that_cannot_start_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("host",))
    store = use_host_blocks(setting, 20)
    store.grow(1)
    computed(setting, setting.tokens(300))

    def fail(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(setting.tiers._transfer, "read", fail)
    offer_all(setting)
    assert (store.free, store.moving) == (store.total, 0)

    monkeypatch.undo()
    monkeypatch.setattr(setting.tiers.copies._thread, "submit", lambda *args: 1 / 0)
    offer_all(setting)
    assert (store.free, store.moving) == (store.total, 0)

    monkeypatch.undo()
    offer_all(setting)
    assert store.moving == 300 // BLOCK
    work_all(setting)
    assert (store.stored, store.moving) == (300 // BLOCK, 0)


def test_work_left_in_the_queue_of_a_failed_start_has_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(2, ("host",))
    store, copies = use_host_blocks(setting, 20), setting.tiers.copies
    store.grow(1)
    computed(setting, setting.tokens(300))
    submit = copies._thread.submit

    def queue_and_fail(*args: Any) -> None:
        submit(*args)
        fail_to_start()

    with monkeypatch.context() as patched:
        patched.setattr(copies._thread, "submit", queue_and_fail)
        offer_all(setting)
    offer_all(setting)
    assert store.moving == 300 // BLOCK
    work_all(setting)
    assert (store.stored, store.moving) == (300 // BLOCK, 0)
    assert not copies.pending._counts and copies.pending.num_bytes == 0


def test_the_end_waits_for_copies_before_their_memory_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(2, ("host",))
    monkeypatch.setattr(host, "ARENA_BYTES", BLOCK * setting.kv.unit_bytes)
    freed, freed_at_wait = list[int](), list[int]()

    def allocate_counted(size: int) -> Bytes:
        memory = allocate(size)
        weakref.finalize(memory, freed.append, size)
        return memory

    store = use_host_blocks(setting, 4)
    monkeypatch.setattr(store, "_allocate", allocate_counted)
    store.grow(4)
    computed(setting, setting.tokens(300))
    may_end = threading.Event()
    with ThreadPoolExecutor(1) as writer:
        monkeypatch.setattr(setting.tiers.copies._writer, "_thread", writer)
        monkeypatch.setattr(setting.tiers.copies, "_thread", writer)
        writer.submit(may_end.wait, 30)
        offer_all(setting)
        assert store.moving == 4
        own: Any = setting.tiers._transfer
        monkeypatch.setattr(own, "close", lambda: freed_at_wait.append(len(freed)))
        setting.tiers.close()
        may_end.set()
    assert freed_at_wait == [0] and len(freed) == 4


def test_memory_is_allocated_ahead_from_a_half_full_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("host",))
    monkeypatch.setattr(host, "ARENA_BYTES", 3 * BLOCK * setting.kv.unit_bytes)
    store = use_host_blocks(setting, 40)
    totals = []
    for size in (SLOTS // 2 - 20, 200, SLOTS // 2 - 180):
        computed(setting, setting.tokens(size))
        with ThreadPoolExecutor(1) as grower:
            monkeypatch.setattr(setting.tiers.copies, "_grower", grower)
            setting.tiers.stepped()
        totals.append(store.total)
    assert totals == [0, 6, 24], "24 places for 22 blocks of cached tokens"


def test_memory_is_allocated_ahead_after_a_thread_could_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(2, ("host",))
    store = use_host_blocks(setting, 40)
    computed(setting, setting.tokens(SLOTS - 20))
    with ThreadPoolExecutor(1) as grower:
        monkeypatch.setattr(setting.tiers.copies, "_grower", grower)
        with monkeypatch.context() as patched:
            patched.setattr(grower, "submit", fail_to_start)
            setting.tiers.stepped()
        setting.tiers.stepped()
    assert store.total == 40


def fail_to_start(*args: Any) -> None:
    raise RuntimeError("can't start new thread")


def test_arenas_are_allocated_until_enough_blocks_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    store = HostBlocks(5 * SIZE, UNIT, allocate)
    totals = []
    for count in (0, 1, 2, 3, 4, 5, 6):
        lacked = store.lacks(count)
        store.grow(count)
        totals.append((lacked, store.total))
    assert totals == [
        (False, 0), (True, 2), (False, 2), (True, 4), (False, 4), (True, 5), (False, 5)
    ]  # fmt: skip


def test_no_memory_is_allocated_ahead_while_the_machine_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    free = host.RESERVE_BYTES
    store = HostBlocks(5 * SIZE, UNIT, allocate, free_bytes=lambda: free)
    store.grow(3)
    assert store.total == 0 and not store.lacks(3)
    free += 10 * SIZE
    store.relieve()
    assert store.lacks(3)
    free -= 10 * SIZE
    store.grow(3)
    assert not store.lacks(3)
    free += 10 * SIZE
    assert store.write(make_block(1, UNIT)) and store.total == 2
    assert store.lacks(3)


def test_a_write_waits_for_the_arena_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    began, may_end = threading.Event(), threading.Event()

    def allocate_late(size: int) -> Bytes:
        began.set()
        assert may_end.wait(30)
        return allocate(size)

    store, block = HostBlocks(4 * SIZE, UNIT, allocate_late), make_block(1, UNIT)
    with ThreadPoolExecutor(2) as threads:
        growth = threads.submit(store.grow, 1)
        assert began.wait(30)
        assert store.reserve(block.key, block.parent, 1.0) is None, "an eviction never waits"
        written = threads.submit(store.write, block)
        may_end.set()
        assert written.result(30)
        growth.result(30)
    assert (store.total, store.stored) == (2, 1)
    store.close()
    store.grow(4)
    assert store.total == 0 and not store.write(make_block(2, UNIT))


def test_a_failed_allocation_ends_the_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: int) -> Bytes:
        raise error

    for error in (MemoryError(), RuntimeError(), OSError()):
        store = HostBlocks(2 * SIZE, UNIT, fail)
        if isinstance(error, OSError):
            with pytest.raises(OSError):
                store.grow(1)
        else:
            store.grow(1)
            assert not store.lacks(1)
        assert store.total == 0
        monkeypatch.setattr(store, "_allocate", allocate)
        assert store.write(make_block(1, UNIT)) == isinstance(error, OSError)


def prompt(first: int, count: int) -> list[Block]:
    """Return consecutive blocks of a prompt."""
    blocks = [make_block(first, UNIT)]
    for number in range(first + 1, first + count):
        blocks.append(make_block(number, UNIT)._replace(parent=blocks[-1].key))
    return blocks


def place_for(store: HostBlocks, block: Block) -> Reservation | None:
    return store.reserve(block.key, block.parent, block.seconds)


def test_copies_of_cached_blocks_are_evicted_first_and_the_latest_before_others() -> None:
    store, first, second = HostBlocks(6 * SIZE, UNIT, allocate), prompt(0, 3), prompt(10, 3)
    assert all(map(store.write, (*first, *second)))
    for blocks in (first, second):
        store.mark([block.key for block in blocks], cached=True)
    assert place_for(store, second[0]) is None, "stored"
    expected = [*second[::-1], *first[::-1]]
    for count in range(1, 6):
        assert place_for(store, make_block(20 + count, UNIT)) is not None
        assert [store.holds(block.key) for block in expected] == [False] * count + [True] * (
            6 - count
        )
    assert place_for(store, make_block(30, UNIT)) is not None and store.stored == 0
    assert place_for(store, make_block(31, UNIT)) is None


def test_a_cached_block_that_is_read_or_precedes_the_new_block_stays() -> None:
    store, blocks = HostBlocks(2 * SIZE, UNIT, allocate), prompt(0, 2)
    other = make_block(9, UNIT)
    assert store.write(blocks[0]) and store.write(other)
    store.mark([other.key, blocks[0].key], cached=True)
    place = place_for(store, blocks[1])
    assert place is not None and place.store(blocks[1])
    assert store.holds(blocks[0].key) and not store.holds(other.key)

    store.mark([blocks[1].key], cached=True)
    with store.open(blocks[1].key, blocks[0].key, blocks[1].tokens, lambda: other.data):
        assert place_for(store, other) is None
    assert store.holds(blocks[1].key)


def test_valuable_blocks_stay_while_memory_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "ARENA_BYTES", 2 * SIZE)
    store, blocks = HostBlocks(4 * SIZE, UNIT, allocate), prompt(0, 2)
    assert all(map(store.write, blocks))
    assert place_for(store, make_block(9, UNIT)) is None and store.stored == 2
    store.mark([blocks[1].key], cached=True)
    assert place_for(store, make_block(9, UNIT)) is not None and store.stored == 1


def test_removed_blocks_do_not_fill_the_queue() -> None:
    store = HostBlocks(3 * SIZE, UNIT, allocate)
    for number in range(50):
        block = make_block(number, UNIT)
        assert store.write(block)
        store.mark([block.key], cached=True)
    assert store.stored == 3 and len(store._queue) <= 7


def test_a_reserved_block_is_lost_with_a_flush_or_its_arena() -> None:
    block = make_block(1, UNIT)
    for end in (HostBlocks.flush, HostBlocks.close):
        store = HostBlocks(3 * SIZE, UNIT, allocate)
        store.grow(1)
        place = store.reserve(block.key, block.parent, 1.0)
        assert place is not None
        np.copyto(place.data, block.data)
        end(store)
        assert not place.store(block)
        assert (store.free, store.stored, store.moving) == (store.total, 0, 0)
