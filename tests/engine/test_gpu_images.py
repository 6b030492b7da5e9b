"""Images on an NVIDIA GPU: greedy tokens of small random models in float32 equal the model's own
tokens on a CPU, with CUDA graphs, blocks of mutually visible tokens, deepstack and rotary axes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from benchmarks.multimodal import NEW, Case, cases, template
from sgnb.engine.engine import Engine

from ..multimodal_models import multimodal_model

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

FAMILIES = "llava", "qwen2_5_vl", "qwen3_vl", "gemma3", "idefics3"
"""Plain positions, three rotary axes, deepstack, blocks, and tiles."""

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "torch": {"attention": "torch"},
    "triton": {"attention": "triton"},
    "no overlap, no graphs": {"overlap": False, "cuda_graphs": False},
    "short steps, no rows kept": {"max_step_tokens": 23, "encoder_cache": 1e-9},
    "little memory": {"max_total_tokens": 420, "encoder_cache": 1e-9},
}


@cache
def expected(family: str) -> list[Case]:
    model, processor = multimodal_model(family)
    return cases(model, processor, "image")


def engine_of(family: str, **options: Any) -> Engine:
    model, processor = multimodal_model(family)
    processor.chat_template = template(processor)
    options = {"max_total_tokens": 8192, "precompile": False} | options
    return Engine(model, processor=processor, device="cuda", **options)


def generate(engine: Engine, prompts: list[Any]) -> list[list[int]]:
    ids = engine.encode(prompts)
    outputs = engine.generate(ids, temperature=0, max_new_tokens=NEW, ignore_eos=True)
    return [output.token_ids for output in outputs]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_images_give_the_tokens_of_the_model(family: str, variant: str) -> None:
    right = expected(family)
    with engine_of(family, **VARIANTS[variant]) as engine:
        assert "image" in engine.modalities, engine.refused_modalities
        prompts = [case.prompt for case in right]
        for found in (generate(engine, prompts), generate(engine, prompts)):
            assert found == [case.tokens for case in right]
        single = [generate(engine, [prompt])[0] for prompt in prompts]
        assert single == [case.tokens for case in right]


def test_an_encoder_call_has_room_next_to_the_pool() -> None:
    with engine_of("llava", max_total_tokens=None, memory_limit=3) as engine:
        assert torch.cuda.memory_allocated() < 3 << 30
        [case, *_] = expected("llava")
        assert generate(engine, [case.prompt]) == [case.tokens]
