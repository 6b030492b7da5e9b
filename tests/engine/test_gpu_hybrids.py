"""Models with recurrent layers on an NVIDIA GPU against transformers: the same greedy tokens, with
CUDA graphs, overlap, chunks, retraction, few states and grammars.

transformers computes on the CPU, unless its fast kernels of such layers are installed, with which
it cannot: then both are on the GPU, with layers as wide as the kernels want them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.events import RequestRetracted

from ..hybrid_models import THREE, hybrid_model
from .test_hybrids import (
    BRANCHES,
    FAMILIES,
    GREEDY,
    PATTERNS,
    PROMPTS,
    TIGHT,
    all_there,
    bundled,
    expected,
    model_with_text,
    scores,
    tokens,
)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

POOL = {"max_total_tokens": 8192, "max_states": 256}
"""So that several tests can use one GPU at a time."""

VARIANTS: dict[str, dict[str, Any]] = {
    "chunks, retraction and few states": TIGHT | {"max_states": 9},
    "no overlap": {"overlap": False},
    "no graphs": {"cuda_graphs": False},
}

KERNELS = [name for name in ("fla", "causal_conv1d", "mamba_ssm") if find_spec(name) is not None]
on_the_cpu = pytest.mark.skipif(bool(KERNELS), reason="transformers' kernels need the GPU")

WIDE: dict[str, dict[str, Any]] = {
    "qwen3_next": {
        "hidden_size": 288, "head_dim": 32, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    },
    "mamba2": {
        "hidden_size": 256, "head_dim": 64, "num_heads": 8, "state_size": 64, "chunk_size": 64,
    },
}  # fmt: skip


@pytest.mark.skipif(not KERNELS, reason="none of transformers' kernels is installed")
@pytest.mark.parametrize("family", WIDE)
def test_log_probabilities_with_kernels(family: str) -> None:
    model = hybrid_model(family, **WIDE[family]).to("cuda")
    with Engine(model, device="cuda", dtype="float32", **POOL) as engine:
        every = [*PROMPTS, *BRANCHES, *PROMPTS]
        outputs = engine.generate(every, return_logprob=True, **GREEDY)
        outputs += engine.generate(every, return_logprob=True, **GREEDY)
        assert engine.stats()["cached_tokens"] > 0
        assert all_there(engine)
    for prompt, out in zip(every * 2, outputs, strict=True):
        right = scores(model, prompt, out.token_ids)
        assert out.logprobs == pytest.approx(right, abs=2e-2)


@on_the_cpu
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens(family: str) -> None:
    first, second = expected(family)
    with Engine(hybrid_model(family), device="cuda", dtype="float32", **POOL) as engine:
        for prompts, right in ((PROMPTS, first), (BRANCHES, second), (PROMPTS, first)):
            assert tokens(engine, prompts) == right
        assert engine.stats()["cached_tokens"] > 0
        assert all_there(engine)


@on_the_cpu
@pytest.mark.parametrize("family", THREE)
@pytest.mark.parametrize("name", VARIANTS)
def test_greedy_tokens_in_every_way_to_run_it(family: str, name: str) -> None:
    first, second = expected(family)
    options = POOL | VARIANTS[name]
    with Engine(hybrid_model(family), device="cuda", dtype="float32", **options) as engine:
        for prompts, right in ((PROMPTS, first), (BRANCHES, second), (PROMPTS, first)):
            assert tokens(engine, prompts) == right
        assert all_there(engine)
        if options["max_total_tokens"] < POOL["max_total_tokens"]:
            events = [record.event for record in engine.log.read().records]
            assert any(isinstance(event, RequestRetracted) for event in events)


@on_the_cpu
@pytest.mark.parametrize("family", THREE)
def test_jumps_go_back_to_a_state(family: str) -> None:
    tokenizer, model = bundled(), model_with_text(family)
    texts = [f"Question {i}: who, and how old? " for i in (1, 1, 2, 3)]
    prompts = [tokenizer(text)["input_ids"] for text in texts for _ in PATTERNS]
    params = [{"regex": pattern} for _ in texts for pattern in PATTERNS]
    options = {"device": "cuda", "dtype": "float32", "max_states": 40}
    with Engine(model, tokenizer=tokenizer, max_total_tokens=8192, **options) as engine:
        for _ in range(2):
            outputs = engine.generate(
                prompts, params, temperature=0, max_new_tokens=60, return_logprob=True
            )
        assert all_there(engine)
    reference = model_with_text.__wrapped__(family)
    for prompt, param, out in zip(prompts, params, outputs, strict=True):
        assert re.fullmatch(param["regex"], out.text)
        right = scores(reference, prompt, out.token_ids)
        assert out.logprobs == pytest.approx(right, abs=1e-2)
