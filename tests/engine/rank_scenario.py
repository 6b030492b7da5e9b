"""Requests whose tokens must not depend on the number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.events import RequestRetracted
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..random_models import random_model

FOUR_RANKS = {"num_attention_heads": 8, "num_key_value_heads": 2}
"""Sizes that four ranks can divide; two ranks share a KV head."""

PROMPTS = ["The answer is ", "x", "One two three ", "The answer is not ", "zzzz, and so on, " * 4]
ROWS: list[dict[str, Any]] = [
    {"temperature": 0, "return_logprob": True, "top_logprobs_num": 2},
    {"temperature": 0, "regex": r'\{"age":[a-c]{1,5}\}'},
    {"temperature": 0, "regex": "(yes|no), (never|always)", "return_logprob": True},
    {"temperature": 0, "frequency_penalty": 1.5, "repetition_penalty": 1.2},
    {"temperature": 1, "seed": 3},
    {"max_new_tokens": 0, "temperature": 0, "return_logprob": True, "logprob_start_len": 0},
]


def save_model(folder: Path, family: str, **settings: Any) -> str:
    """Save a random model of a family for the vocabulary of `byte_level`."""
    random_model(family, vocab_size=400, **settings).save_pretrained(folder)
    return str(folder)


def open_engine(model: str, **options: Any) -> Engine:
    return Engine(model, tokenizer=byte_level(), **{"device": "cpu"} | options)


def run_scenario(engine: Engine) -> list[Output]:
    """Run requests with forks, grammars with jumps, scores and cache hits, and stopped requests."""
    prompts = [prompt for prompt in PROMPTS for _ in ROWS]
    params = [{"max_new_tokens": 16} | row for _ in PROMPTS for row in ROWS]
    outputs = engine.generate(prompts, params)
    stopped: list[Output] = []
    endless = SamplingParams(max_new_tokens=90, temperature=0, ignore_eos=True)
    ids = engine.submit(["The answer"] * 3, [endless] * 3, [stopped.append] * 3)
    engine.abort(ids[:2])
    forks = engine.generate(
        [PROMPTS[-1] + end for end in "abcdefgh"], max_new_tokens=8, temperature=0
    )
    engine.abort(ids)
    return [*outputs, *forks, *engine.generate(PROMPTS[:3], max_new_tokens=8, temperature=0)]


def assert_equal(outputs: list[Output], expected: list[Output]) -> None:
    """Compare tokens, and log-probabilities up to rounding."""
    assert [o.token_ids for o in outputs] == [o.token_ids for o in expected]
    assert [o.text for o in outputs] == [o.text for o in expected]
    for a, b in zip(outputs, expected, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
        assert a.prompt_logprobs == pytest.approx(b.prompt_logprobs, abs=1e-4)


def compare(model: str, size: int, **options: Any) -> None:
    """Compare an engine of `size` ranks with an engine of one process."""
    with (
        open_engine(model, **options) as one,
        open_engine(model, tensor_parallel=size, **options) as many,
    ):
        expected, outputs = run_scenario(one), run_scenario(many)
        assert_equal(outputs, expected)
        stats = many.stats()
        assert stats["cached_tokens"] and stats["jumped_tokens"]
        assert stats["free"] + stats["cached"] == stats["pool_tokens"] and not stats["in_flight"]
        if "max_total_tokens" in options:
            assert any(isinstance(r.event, RequestRetracted) for r in many.log.read().records)
