"""Random requests to engines with recurrent layers and too little memory: prefixes in common,
grammars, aborts, small chunks. Each answer is that of a fresh engine without a prefix cache."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from sgnb.engine.engine import Engine
from sgnb.events import Jumped, RequestAdmitted

from ..byte_tokenizers import byte_level
from ..hybrid_models import THREE, hybrid_model
from .test_engine import wait_until
from .test_fuzz import Answer, Asked, answers
from .test_hybrids import all_there

VOCAB = 400

NOISE = 1e-4
"""Of the logits: far above what sums in another order change in float32."""

PATTERNS = [
    "[a-z]{2,6}", r'\{"name": "[a-z]{1,4}", "age": [1-9]\}',
    "([a-z]{1,5} ){2}((the answer|their fox|what) is [a-z]{3,6}, ){2}",
    "[ab]: the (quick|qu[xyz]|quit it) [a-c], the (lazy|laz[ab]|dog)",
]  # fmt: skip

TIGHT: list[dict[str, Any]] = [
    {"max_total_tokens": 125, "max_step_tokens": 13, "max_states": 16, "checkpoint_every": 16},
    {"max_total_tokens": 160, "max_step_tokens": 40, "max_states": 12, "checkpoint_every": 48,
     "overlap": True, "schedule_policy": "fcfs"},
    {"max_total_tokens": 2000, "max_step_tokens": 7, "max_states": 30, "checkpoint_every": 1,
     "overlap": True, "eviction_policy": "lfu"},
]  # fmt: skip


def engine(family: str, noise: float = 0, **options: Any) -> Engine:
    model = hybrid_model(family, vocab_size=VOCAB)
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head *= 1 + noise * torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    return Engine(
        model, tokenizer=byte_level(), max_running_requests=6, context_length=200, **options
    )


def draw(rng: random.Random, prefixes: list[list[int]]) -> Asked:
    """A prefix of one of `prefixes`, and some tokens more."""
    prefix = rng.choice(prefixes)
    prompt = prefix[: rng.choice([len(prefix), rng.randrange(len(prefix))])]
    prompt = prompt + [rng.randrange(3, VOCAB) for _ in range(rng.randrange(1, 20))]
    options: dict[str, Any] = {
        "max_new_tokens": rng.choice([0, 1, 8, 40, 40]), "seed": rng.randrange(2**64),
        "temperature": rng.choice([0, 0, 0.5, 1]), "ignore_eos": rng.random() < 0.5,
    }  # fmt: skip
    if rng.random() < 0.3:
        options["regex"] = rng.choice(PATTERNS)
        options["max_new_tokens"] = 40
    more: dict[str, dict[str, Any]] = {
        "stop": {"stop": ["e", "the"]}, "penalty": {"repetition_penalty": 1.3},
        "filter": {"top_k": 5}, "scores": {"return_logprob": True, "logprob_start_len": 0},
    }  # fmt: skip
    for key in rng.sample(list(more), rng.randrange(3)):
        options |= more[key]
    return prompt, options


def drawn(family: str, count: int) -> list[tuple[Asked, Answer]]:
    """Requests, some of which go on where another was answered, and their answers, one at a time;
    without those that noise in the logits changes."""
    rng = random.Random(0)
    prefixes = [[rng.randrange(3, VOCAB) for _ in range(40)] for _ in range(4)]
    found: list[tuple[Asked, Answer]] = []
    with engine(family, prefix_cache=False) as fresh:
        for _ in range(count):
            asked = draw(rng, prefixes)
            [answer] = answers(fresh, [asked])
            found.append((asked, answer))
            if len(prefixes) < 8:
                prefixes.append((asked[0] + answer[0])[:60])
    with engine(family, NOISE, prefix_cache=False) as noisy:
        disturbed = answers(noisy, [asked for asked, _ in found])
    kept = [pair for pair, other in zip(found, disturbed, strict=True) if pair[1] == other]
    assert len(kept) > 0.8 * count
    return kept


def ask_and_leave(engine: Engine, asked: Asked) -> None:
    """As a stream that is dropped after a token, if there is one."""
    next(engine.generate(*asked, stream=True), None)


def work(engine: Engine, pool: list[tuple[Asked, Answer]], rounds: int, seed: int) -> list[Any]:
    """Ask some of the pool together, many times. Returns what was answered wrong."""
    rng, wrong = random.Random(seed), []
    for _ in range(rounds):
        some = rng.choices(pool, k=rng.randrange(1, 9))
        for one, got in zip(some, answers(engine, [asked for asked, _ in some]), strict=True):
            if got != one[1]:
                wrong.append((*one, got))
        if rng.random() < 0.3:
            ask_and_leave(engine, rng.choice(pool)[0])
        if rng.random() < 0.03:
            engine.flush_cache()
    return wrong


def check(family: str, count: int, rounds: int, ways: list[dict[str, Any]]) -> Counter[str]:
    """Of engines with these options, which four threads ask so often. Returns how many events of
    each kind there were, and what was cached or computed again."""
    pool = drawn(family, count)
    seen = Counter[str]()
    for options in ways:
        with engine(family, **options) as tight, ThreadPoolExecutor(4) as threads:
            for wrong in threads.map(lambda seed: work(tight, pool, rounds, seed), range(4)):
                assert wrong == []
            wait_until(lambda: all_there(tight))
            for record in tight.log.read().records:
                event = record.event
                seen[type(event).__name__] += 1
                if isinstance(event, RequestAdmitted):
                    seen["cached"] += event.cached
                    seen["again"] += event.again
                elif isinstance(event, Jumped):
                    seen["dropped"] += event.dropped
    return seen


@pytest.mark.parametrize(
    ("family", "way"),
    [
        pytest.param(family, way, marks=() if family == "qwen3_next" else pytest.mark.slow)
        for family, way in zip(THREE, TIGHT, strict=True)
    ],
)
def test_a_hundred_requests(family: str, way: dict[str, Any]) -> None:
    seen = check(family, count=10, rounds=3, ways=[way])
    assert seen["cached"] and seen["CheckpointDropped"]


@pytest.mark.slow
@pytest.mark.parametrize("family", THREE)
def test_thousands_of_requests(family: str) -> None:
    seen = check(family, count=110, rounds=12, ways=TIGHT)
    assert seen["RequestAdmitted"] > 700
    for kind in ("cached", "again", "dropped", "CheckpointDropped", "RequestRetracted"):
        assert seen[kind], kind
