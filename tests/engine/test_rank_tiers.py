"""Copies of the cache in host memory and on the disk, of a model that several ranks compute."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sgnb.engine.cache.radix import Ints
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.engine.engine import Engine
from sgnb.errors import EngineError, SgnbWarning

from .rank_scenario import FOUR_RANKS, open_engine, save_model
from .rank_threads import ThreadTeam, threads_as_ranks

PROMPTS = [[3 + (7 * i * k + i) % 390 for i in range(330)] for k in range(1, 4)]
BLOCKS = 330 // 64
OPTIONS: dict[str, Any] = {"max_total_tokens": 700, "max_step_tokens": 256}
GREEDY: dict[str, Any] = {"max_new_tokens": 5, "temperature": 0, "ignore_eos": True}
SIZES = FOUR_RANKS | {"max_position_embeddings": 512}


@pytest.fixture(autouse=True)
def always_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model computes faster than it loads."""
    monkeypatch.setattr(TierCosts, "load_seconds", lambda costs, store, num_bytes: 0.0)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("llama"), "llama", **SIZES)


@pytest.fixture
def teams() -> Iterator[list[ThreadTeam]]:
    with threads_as_ranks() as teams:
        yield teams
    for team in teams:
        assert not team.errors


def answer(engine: Engine, prompt: list[int]) -> list[int]:
    output: Any = engine.generate(prompt, GREEDY)
    ids: list[int] = output.token_ids
    return ids


def expected_answers(model: str) -> list[list[int]]:
    with open_engine(model, **OPTIONS) as plain:
        return [answer(plain, prompt) for prompt in PROMPTS]


def wait_until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


def slots_of(engine: Engine, prompt: list[int]) -> Ints:
    tree = engine._loop._scheduler.cache.tree
    slots: Ints = engine._loop.call(lambda: tree.match(np.array(prompt, np.int32)).path_slots())
    return slots[: BLOCKS * 64]


def content(engine: Engine, team: ThreadTeam, prompt: list[int]) -> list[np.ndarray]:
    """Return the keys and values of a cached prompt, by rank."""
    slots, tiers = slots_of(engine, prompt), engine._loop.tiers.tiers
    assert tiers is not None and len(slots) == BLOCKS * 64
    own: Any = tiers._transfer
    followers = sorted(team.copies, key=lambda copies: int(copies._rank))
    transfers = [own._own, *(copies._transfer for copies in followers)]
    return [np.concatenate(transfer.read(slots)().blocks) for transfer in transfers]


def count_each_step(engine: Engine) -> list[int]:
    """Count slots and blocks after each step. Returns a list with an entry per step."""
    scheduler, tiers, steps = engine._loop._scheduler, engine._loop.tiers.tiers, list[int]()
    assert tiers is not None
    stepped, hosts = (
        tiers.stepped,
        [store for store in tiers.prefixes.stores.blocks if isinstance(store, HostBlocks)],
    )

    def count() -> None:
        loads = set(tiers._loads.values())
        owned = sum(r.num_slots - (r.node.end if r.node else 0) for r in scheduler.running)
        steps.append(owned + sum(len(load.slots) for load in loads))
        assert scheduler.cache.in_flight == steps[-1]
        for host in hosts:
            with host._lock:
                assert host.free + host.stored + host.moving == host.total
        stepped()

    tiers.stepped = count  # type: ignore[method-assign]
    return steps


def reload(engine: Engine, team: ThreadTeam, expected: list[list[int]]) -> None:
    """Evict and load each prompt; compare tokens, and the content on all ranks."""
    steps = count_each_step(engine)
    assert answer(engine, PROMPTS[0]) == expected[0]
    before = content(engine, team, PROMPTS[0])
    assert (before[0] != before[-1]).any()
    for turn in range(2):
        for prompt, tokens in zip(PROMPTS[1:], expected[1:], strict=True):
            engine._loop.call(engine._loop.tiers.tiers.copies.write_idle)  # type: ignore[union-attr]
            least = (1 + turn) * BLOCKS
            wait_until(lambda least=least: engine.stats()["stored_blocks"] >= least)  # type: ignore[misc]
            assert answer(engine, prompt) == tokens
        loaded = engine.stats()["loaded_tokens"]
        assert answer(engine, PROMPTS[0]) == expected[0]
        assert engine.stats()["loaded_tokens"] == loaded + BLOCKS * 64
        after = content(engine, team, PROMPTS[0])
        assert all((a == b).all() for a, b in zip(after, before, strict=True))
    assert len(steps) > 20 and not engine.stats()["in_flight"]


def test_prefixes_come_back_from_host_memory(llama: str, teams: list[ThreadTeam]) -> None:
    expected = expected_answers(llama)
    with open_engine(llama, tensor_parallel=2, host_cache=0.05, **OPTIONS) as engine:
        reload(engine, teams[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kinds", ["host", "disk", "both"])
@pytest.mark.parametrize(("family", "size"), [("llama", 4), ("qwen3", 2)])
def test_tokens_equal_an_engine_without_tiers(
    family: str,
    size: int,
    kinds: str,
    overlap: bool,
    tmp_path: Path,
    teams: list[ThreadTeam],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sgnb.engine.cache.tiers.copies.DISK_SECONDS", 0.0)
    model = save_model(tmp_path / "model", family, **SIZES)
    expected = expected_answers(model)
    tiers: dict[str, Any] = {} if kinds == "disk" else {"host_cache": 0.05}
    tiers |= {} if kinds == "host" else {"disk_cache": str(tmp_path / "kv")}
    options = OPTIONS | tiers | {"tensor_parallel": size, "overlap": overlap}
    with open_engine(model, **options) as engine:
        reload(engine, teams[0], expected)


def fill(model: str, folder: Path, size: int) -> None:
    """Write the blocks of the first prompt."""
    with open_engine(model, tensor_parallel=size, disk_cache=str(folder), **OPTIONS) as engine:
        engine.generate(PROMPTS[0], GREEDY)
        engine.pin(PROMPTS[0], owner="me", durable=True)
        wait_until(lambda: engine.stats()["stored_blocks"] >= BLOCKS)


def loaded_tokens(model: str, folder: Path, size: int, expected: list[int]) -> int:
    """Answer the first prompt in a new engine. Returns the number of loaded tokens."""
    with open_engine(model, tensor_parallel=size, disk_cache=str(folder), **OPTIONS) as engine:
        assert answer(engine, PROMPTS[0]) == expected
        return int(engine.stats()["loaded_tokens"])


@pytest.mark.slow
def test_a_restart_finds_the_blocks_of_the_same_number_of_ranks(
    llama: str, tmp_path: Path, teams: list[ThreadTeam]
) -> None:
    expected = expected_answers(llama)[0]
    fill(llama, tmp_path / "kv", 2)
    counts = [loaded_tokens(llama, tmp_path / "kv", size, expected) for size in (2, 4, 1)]
    assert counts == [BLOCKS * 64, 0, 0]
    models = [path.name for path in (tmp_path / "kv" / "v1").iterdir()]
    assert len(models) == 1, "only the first engine wrote files"


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_file_with_a_damaged_part_of_a_rank_is_a_miss(
    rank: int, llama: str, tmp_path: Path, teams: list[ThreadTeam]
) -> None:
    expected = expected_answers(llama)[0]
    fill(llama, tmp_path / "kv", 2)
    files = sorted((tmp_path / "kv").rglob("*.safetensors"))
    assert len(files) == BLOCKS
    for file in files:
        data = bytearray(file.read_bytes())
        data[4096 + (1 + 2 * rank) * (len(data) - 4096) // 4] ^= 1
        file.write_bytes(data)
    with pytest.warns(SgnbWarning, match="is damaged"):
        assert loaded_tokens(llama, tmp_path / "kv", 2, expected) == 0


@pytest.mark.slow
def test_processes_load_from_host_memory_and_from_files(llama: str, tmp_path: Path) -> None:
    expected = expected_answers(llama)
    fill(llama, tmp_path / "kv", 2)
    options = OPTIONS | {"tensor_parallel": 2, "host_cache": 0.05}
    with open_engine(llama, disk_cache=str(tmp_path / "kv"), **options) as engine:
        steps = count_each_step(engine)
        assert answer(engine, PROMPTS[0]) == expected[0]
        assert engine.stats()["loaded_tokens"] == BLOCKS * 64
        for _ in range(2):
            for prompt, tokens in zip(PROMPTS, expected, strict=True):
                assert answer(engine, prompt) == tokens
                wait_until(lambda: engine._loop.tiers.tiers.copies.pending.num_bytes == 0)  # type: ignore[union-attr]
        assert engine.stats()["loaded_tokens"] > 2 * BLOCKS * 64 and len(steps) > 20


@pytest.mark.slow
def test_a_follower_killed_in_a_load_is_reported(
    llama: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A load that waits for a follower does not stop the engine's thread."""
    with open_engine(llama, tensor_parallel=2, host_cache=0.05, **OPTIONS) as engine:
        for prompt in PROMPTS:
            engine.generate(prompt, GREEDY)
        tiers: Any = engine._loop.tiers.tiers
        wait_until(lambda: tiers.copies.pending.num_bytes == 0 and not engine.stats()["in_flight"])
        follower = engine._loop._runner._leader._followers[0].pid  # type: ignore[union-attr]
        os.kill(follower, signal.SIGSTOP)
        assert engine.prefetch(PROMPTS[0]) == BLOCKS * 64
        for _ in range(20):
            began = time.monotonic()
            assert engine.stats()["in_flight"] and tiers.loading
            assert time.monotonic() - began < 5
        os.kill(follower, signal.SIGKILL)
        began = time.monotonic()
        wait_until(lambda: engine.closed)
        assert time.monotonic() - began < 5
        with pytest.raises(EngineError, match="rank 1 of 2 was killed by signal 9"):
            engine.generate(PROMPTS[0], GREEDY)
    assert not caplog.text
