"""Copies of the cache in host memory and files on an NVIDIA GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sgnb.engine.cache.tiers.block_transfer import BlockTransfer
from sgnb.engine.cache.tiers.blocks import Bytes
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.engine.engine import Engine
from sgnb.events import PrefixLoaded

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROMPTS = [[3 + (7 * i * k + i) % 900 for i in range(1300)] for k in range(1, 5)]
WARM = [900 - (i * i) % 800 for i in range(700)]
POOL = 3000


@pytest.fixture(autouse=True)
def always_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model computes faster than it loads."""
    monkeypatch.setattr(TierCosts, "load_seconds", lambda costs, store, num_bytes: 0.0)


def new_engine(**options: Any) -> Engine:
    engine = Engine("tiny", device="cuda", max_total_tokens=POOL, **options)
    for length in (40, 300, 700):
        engine.generate(WARM[:length], max_tokens=2)
    return engine


def answer(engine: Engine, prompt: list[int]) -> list[int]:
    output: Any = engine.generate(prompt, max_tokens=12, temperature=0)
    ids: list[int] = output.token_ids
    return ids


def content(engine: Engine, prompt: list[int]) -> Bytes:
    """Return the keys and values of the first 1,280 tokens of a cached prompt."""
    tiers = engine._loop.tiers.tiers
    assert tiers is not None
    node = engine._loop._scheduler.cache.tree.match(np.array(prompt, np.int32))
    reading = tiers._transfer.read(node.path_slots()[:1280])
    assert reading is not None
    return np.concatenate(reading().blocks)


def wait_for(engine: Engine, name: str, least: int) -> None:
    for _ in range(2000):
        if engine.stats()[name] >= least:
            return
        time.sleep(0.01)
    raise AssertionError(f"{name} is {engine.stats()[name]}")


def test_the_tail_is_loaded_while_the_head_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_engine(host_cache=1) as engine:
        first, before = answer(engine, PROMPTS[0]), content(engine, PROMPTS[0])
        for prompt in PROMPTS[1:]:
            answer(engine, prompt)
        wait_for(engine, "stored_blocks", 20)
        tiers: Any = engine._loop.tiers.tiers
        size = tiers._transfer.unit_bytes
        monkeypatch.setattr(TierCosts, "knows_steps", True)
        monkeypatch.setattr(TierCosts, "load_seconds", lambda costs, store, count: count / size)
        monkeypatch.setattr(TierCosts, "compute_seconds", lambda costs, begin, end: end - begin)
        assert answer(engine, PROMPTS[0]) == first
        events = [record.event for record in engine.log.read().records]
        [load] = [event for event in events if isinstance(event, PrefixLoaded)]
        assert load.begin >= 64 and load.begin + load.tokens == 1280
        assert np.array_equal(content(engine, PROMPTS[0])[load.begin :], before[load.begin :])


def test_evicted_prefixes_come_back_from_host_memory() -> None:
    with new_engine() as plain:
        expected = [answer(plain, prompt) for prompt in PROMPTS]
    with new_engine(host_cache=1) as engine:
        first, before = answer(engine, PROMPTS[0]), content(engine, PROMPTS[0])
        wait_for(engine, "stored_blocks", 20)
        assert [first, *(answer(engine, prompt) for prompt in PROMPTS[1:])] == expected
        assert engine.stats()["loads"] == 0
        assert answer(engine, PROMPTS[0]) == first
        assert engine.stats()["loaded_tokens"] == 1280
        assert np.array_equal(content(engine, PROMPTS[0]), before)


def test_evictions_are_copied_straight_to_memory_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with new_engine(host_cache=1) as engine:
        monkeypatch.setattr(BlockTransfer, "_rows", lambda *args: [])  # no copies to other memory
        tiers: Any = engine._loop.tiers.tiers
        [store] = tiers.prefixes.blocks("host")
        answer(engine, PROMPTS[0])  # more than half of the pool: a thread allocates memory
        for _ in range(2000):
            if store.total:
                break
            time.sleep(0.01)
        assert store.total
        expected = [answer(engine, prompt) for prompt in PROMPTS]
        assert [answer(engine, prompt) for prompt in PROMPTS] == expected
        stats = engine.stats()
        assert stats["stored_blocks"] >= 20 and stats["dropped_blocks"] == 0
        assert stats["loaded_tokens"] > 0


def test_a_new_engine_reads_files(tmp_path: Path) -> None:
    with new_engine(disk_cache=str(tmp_path)) as engine:
        first = answer(engine, PROMPTS[0])
        engine.pin(PROMPTS[0])
        before = content(engine, PROMPTS[0])
        wait_for(engine, "stored_blocks", 20)
    with new_engine(disk_cache=str(tmp_path)) as engine:
        loaded = engine.stats()["loaded_tokens"]
        assert answer(engine, PROMPTS[0]) == first
        assert engine.stats()["loaded_tokens"] == loaded + 1280
        assert np.array_equal(content(engine, PROMPTS[0]), before)


def test_cancelled_loads_write_nothing_later() -> None:
    with new_engine(host_cache=1) as engine:
        expected = [answer(engine, prompt) for prompt in PROMPTS]
        for turn in range(20):
            wait_for(engine, "stored_blocks", 20)
            prompt = PROMPTS[turn % 4]
            engine.prefetch(prompt)
            other = PROMPTS[(turn + 1) % 4]
            engine.flush_cache()  # ends the load, and empties host memory
            assert answer(engine, other) == expected[(turn + 1) % 4]
            assert answer(engine, prompt) == expected[turn % 4]
