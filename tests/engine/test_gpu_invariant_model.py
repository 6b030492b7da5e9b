"""Deterministic mode of mixtures of experts on a GPU: routers, blocks with experts, whole engines,
bit by bit."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from sgnb.engine.fusion.invariant import invariant_linear

from . import invariant_model_check
from .test_gpu_parity import WIDE, draw, make_engine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

COUNTS = (1, 2, 7, 33, 64, 65, 130, 400)
SIZES: dict[str, Any] = {"hidden_size": 192, "intermediate_size": 512}

PROBE, PARTLY, NEW_TOKENS = 90, 50, 24
NEIGHBOURS = 40
"""Of 30 tokens each, computed in one step: more pairs of token and expert than the smaller tiling
is for."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", invariant_model_check.MIXTURES)
def test_routers_and_experts(family: str, dtype: torch.dtype) -> None:
    invariant_model_check.check_family(family, "cuda", dtype, COUNTS, **SIZES)


@pytest.mark.parametrize("experts", [8, 60, 128, 256])
def test_what_routers_rely_on_in_torch(experts: int) -> None:
    """Softmax, top-k (of equal numbers too) and sums over choices go row by row."""
    torch.manual_seed(experts)
    pool = torch.randn(50, 64, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(experts, 64, device="cuda", dtype=torch.bfloat16)

    def route(x: torch.Tensor, choices: int) -> tuple[torch.Tensor, ...]:
        logits = invariant_linear(x, weight)
        values, ids = torch.topk(torch.softmax(logits, -1, dtype=torch.float32), choices, -1)
        rounded, ties = torch.topk((logits / 64).round(), choices, -1)
        sigmoids = torch.topk(logits.float().sigmoid(), choices, -1)[0]
        return (
            logits,
            ids,
            values / values.sum(-1, keepdim=True),
            rounded,
            ties,
            sigmoids / (sigmoids.sum(-1, True)),
        )

    for choices in (1, 2, 6, 8):
        alone = [
            torch.cat(parts)
            for parts in zip(*(route(row[None], choices) for row in pool), strict=True)
        ]
        for count in COUNTS:
            picked = torch.randint(len(pool), (count,), device="cuda")
            for part, (together, single) in enumerate(
                zip(route(pool[picked], choices), alone, strict=True)
            ):
                assert torch.equal(together, single[picked]), (experts, choices, count, part)


@pytest.mark.parametrize(
    "steps", [{}, {"max_step_tokens": 48, "max_running_requests": 40}, {"cuda_graphs": False}]
)
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_engines_of_mixtures_keep_tokens(family: str, steps: dict[str, Any]) -> None:
    """Greedy tokens and log-probabilities of a probe: cached, in part and not, alone and among
    neighbours, of which some are the probe itself, whose tokens go to the same experts. And the
    same in every way to cut the steps."""
    rng = random.Random(1)
    probe = draw(rng, PROBE)
    others = [probe if i % 8 == 0 else draw(rng, 30) for i in range(NEIGHBOURS)]
    greedily = {
        "temperature": 0,
        "max_new_tokens": NEW_TOKENS,
        "ignore_eos": True,
        "return_logprob": True,
    }
    beside = [
        {"temperature": 1, "seed": i, "max_new_tokens": 3 + i, "ignore_eos": True}
        for i in range(NEIGHBOURS)
    ]
    with make_engine(family, "bfloat16", WIDE, deterministic=True) as engine:
        expected = engine.generate(probe, **greedily)
    assert len(expected.token_ids) == NEW_TOKENS
    with make_engine(family, "bfloat16", WIDE, deterministic=True, **steps) as engine:
        for company in (0, NEIGHBOURS):
            for cached in (0, PARTLY, PROBE):
                engine.flush_cache()
                if cached:
                    engine.generate(probe[:cached], temperature=0, max_new_tokens=1)
                prompts, params = [*others[:company], probe], [*beside[:company], greedily]
                output = engine.generate(prompts, params)[-1]
                assert output.token_ids == expected.token_ids, (company, cached)
                assert output.logprobs == expected.logprobs, (company, cached)
                if cached:
                    assert output.cached_tokens >= cached - 1
