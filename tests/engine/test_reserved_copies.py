"""Copies to reserved host memory, and host memory allocated ahead of the copies."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sgnb.engine.cache.tiers import copy_writer, host, transfers
from sgnb.engine.cache.tiers.blocks import BLOCK, Bytes
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.host_memory import allocate

from .numbered_blocks import make_block
from .test_cache_tiers import computed, stored
from .tier_setting import SLOTS, Setting, work_all

UNIT = 3
SIZE = UNIT * BLOCK


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


def test_a_copy_that_cannot_start_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("host",))
    store = HostBlocks(20 * BLOCK * setting.kv.unit_bytes, setting.kv.unit_bytes, allocate)
    setting.tiers.prefixes.stores = setting.tiers.prefixes.stores._replace(blocks=[store])
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


def test_memory_is_allocated_ahead_from_a_half_full_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("host",))
    unit_bytes = setting.kv.unit_bytes
    monkeypatch.setattr(host, "ARENA_BYTES", 3 * BLOCK * unit_bytes)
    store = HostBlocks(40 * BLOCK * unit_bytes, unit_bytes, allocate)
    setting.tiers.prefixes.stores = setting.tiers.prefixes.stores._replace(blocks=[store])
    totals = []
    for size in (SLOTS // 2 - 20, 200, SLOTS // 2 - 180):
        computed(setting, setting.tokens(size))
        with ThreadPoolExecutor(1) as grower:
            monkeypatch.setattr(setting.tiers.copies, "_grower", grower)
            setting.tiers.stepped()
        totals.append(store.total)
    assert totals == [0, 6, 24], "24 places for 22 blocks of cached tokens"


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
