"""Tensor parallelism on one GPU: an NCCL group of one in CUDA graphs, two gloo ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sgnb.engine import assembly
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.engine.engine import Engine
from sgnb.engine.parallel import Team, team

from .rank_scenario import assert_equal, open_engine, run_scenario, save_model
from .test_gpu import POOL
from .test_rank_tiers import BLOCKS, PROMPTS, wait_until

COUNT = torch.cuda.device_count()
pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def engine(model: str, **options: Any) -> Engine:
    return open_engine(model, **{"device": "cuda", "dtype": "float32"} | POOL | options)


def kinds(opened: Engine) -> list[str]:
    return sorted(swap.kind for swap in opened._loop._runner._decoder.fused)


def captured(opened: Engine) -> int:
    graphs = opened._loop._runner._graphs
    return 0 if graphs is None else len(graphs._graphs)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mixtral"])
def test_an_nccl_group_of_one(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of one rank are captured in the graphs of the steps, and change no token."""
    model = save_model(tmp_path, family)

    def start(size: int, device: torch.device, model: dict[str, Any]) -> Team:
        return Team(1, device, {})

    with engine(model) as plain:
        expected, expected_kinds = run_scenario(plain), kinds(plain)
        assert captured(plain)
    monkeypatch.setattr(assembly, "Team", start)
    with engine(model, tensor_parallel=2) as one:
        assert_equal(run_scenario(one), expected)
        assert kinds(one) == expected_kinds and captured(one)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_two_gloo_ranks_on_one_gpu(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without graphs: gloo copies through the host. NCCL refuses two ranks per GPU."""
    model = save_model(tmp_path, family)
    monkeypatch.setattr(team, "rank_devices", lambda first, size: ["cuda:0"] * size)
    with engine(model, cuda_graphs=False) as plain:
        expected, expected_kinds = run_scenario(plain), kinds(plain)
    with engine(model, cuda_graphs=False, tensor_parallel=2) as two:
        assert_equal(run_scenario(two), expected)
        assert kinds(two) == expected_kinds


@pytest.mark.parametrize(
    "gpus",
    [1, pytest.param(2, marks=pytest.mark.skipif(COUNT < 2, reason="needs two GPUs"))],
)
def test_two_ranks_load_from_host_memory_and_files(
    gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one GPU, the ranks share the GPU, without graphs."""
    if gpus == 1:
        monkeypatch.setattr(team, "rank_devices", lambda first, size: ["cuda:0"] * size)
    monkeypatch.setattr(TierCosts, "load_seconds", lambda costs, store, num_bytes: 0.0)
    model = save_model(tmp_path / "model", "llama", max_position_embeddings=512)
    options: dict[str, Any] = {"max_total_tokens": 700, "cuda_graphs": gpus == 2}

    def answer(opened: Engine, prompt: list[int]) -> list[int]:
        output: Any = opened.generate(prompt, max_new_tokens=5, temperature=0, ignore_eos=True)
        return list(output.token_ids)

    with engine(model, **options) as one:
        expected = [answer(one, prompt) for prompt in PROMPTS]
    options |= {"tensor_parallel": 2, "disk_cache": str(tmp_path / "kv")}
    with engine(model, host_cache=1, **options) as two:
        for turn in range(3):
            assert [answer(two, prompt) for prompt in PROMPTS] == expected, turn
            wait_until(lambda: not two._loop.tiers.tiers.copies.pending.num_bytes)  # type: ignore[union-attr]
        assert two.stats()["loads"] >= 3
        two.pin(PROMPTS[0], durable=True)
        wait_until(lambda: two.pins()[0]["durable"] == BLOCKS * 64)
    with engine(model, **options) as two:
        assert answer(two, PROMPTS[0]) == expected[0]
        assert two.stats()["loaded_tokens"] == BLOCKS * 64


@pytest.mark.skipif(COUNT < 2, reason="needs two GPUs")
@pytest.mark.parametrize("overlap", [False, True])
def test_two_gpus(overlap: bool, tmp_path: Path) -> None:
    model = save_model(tmp_path, "llama")
    with engine(model, overlap=overlap) as one:
        expected = run_scenario(one)
    with engine(model, overlap=overlap, tensor_parallel=2) as two:
        assert_equal(run_scenario(two), expected)
        assert captured(two)
