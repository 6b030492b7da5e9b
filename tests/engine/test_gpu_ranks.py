"""Tensor parallelism on one GPU: an NCCL group of one in CUDA graphs, two gloo ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sgnb.engine import assembly
from sgnb.engine.engine import Engine
from sgnb.engine.parallel import Team, team

from .rank_scenario import assert_equal, open_engine, run_scenario, save_model
from .test_gpu import POOL

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


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("overlap", [False, True])
def test_two_gpus(overlap: bool, tmp_path: Path) -> None:
    model = save_model(tmp_path, "llama")
    with engine(model, overlap=overlap) as one:
        expected = run_scenario(one)
    with engine(model, overlap=overlap, tensor_parallel=2) as two:
        assert_equal(run_scenario(two), expected)
        assert captured(two)
