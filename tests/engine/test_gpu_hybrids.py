"""Models with recurrent layers on an NVIDIA GPU against transformers on the CPU: the same greedy
tokens, with CUDA graphs, overlap, chunks, retraction, few states and grammars."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.events import RequestRetracted

from ..hybrid_models import THREE, hybrid_model
from .test_hybrids import (
    BRANCHES,
    FAMILIES,
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


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens(family: str) -> None:
    first, second = expected(family)
    with Engine(hybrid_model(family), device="cuda", dtype="float32", **POOL) as engine:
        for prompts, right in ((PROMPTS, first), (BRANCHES, second), (PROMPTS, first)):
            assert tokens(engine, prompts) == right
        assert engine.stats()["cached_tokens"] > 0
        assert all_there(engine)


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
