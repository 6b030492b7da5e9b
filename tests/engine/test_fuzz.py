"""Random requests with random options, good and bad, to one engine: the good ones get the tokens of
a fresh engine."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.fuzz_engine import Answer, Asked, answers
from benchmarks.odd_values import COUNT, odd
from sgnb.engine.engine import Engine
from sgnb.errors import SgnbError

from ..byte_tokenizers import TEXT, byte_level
from ..random_models import random_model
from .test_engine import wait_until, whole

POISON = 399
"""The model gives NaN after this token."""

ROUNDS = 25
"""Of each of eight threads: some good requests together, then some bad ones, one by one."""

OPTIONS = [
    "max_new_tokens", "min_new_tokens", "n", "stop", "stop_token_ids", "temperature", "top_p",
    "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias",
    "ignore_eos", "seed", "return_logprob", "logprob_start_len", "top_logprobs_num",
    "skip_special_tokens", "regex", "json_schema", "ebnf", "json_whitespace", "json_strict",
    "thinking", "jump_forward",
]  # fmt: skip


NOISE = 1e-4
"""Of the logits: far above what sums in another order change in float32."""


def engine(noise: float = 0) -> Engine:
    model = random_model(vocab_size=400)
    model.model.embed_tokens.weight.data[POISON] = torch.nan
    head = model.lm_head.weight.data
    head[POISON] = head[0]
    head *= 1 + noise * torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    return Engine(model, tokenizer=byte_level(), max_total_tokens=600, max_step_tokens=64,
                  max_running_requests=32, context_length=128)  # fmt: skip


def good(rng: random.Random) -> Asked:
    """One that the engine can carry out, and the same way each time."""
    text = rng.choice(TEXT)
    prompt: Any = text[: rng.randrange(1, 40)]
    if rng.random() < 0.3:
        prompt = [rng.randrange(3, POISON) for _ in range(rng.randrange(1, 60))]
    options: dict[str, Any] = {
        "max_new_tokens": rng.randrange(12), "seed": rng.randrange(2**64),
        "logit_bias": {POISON: -np.inf},
        "temperature": rng.choice([0, 0, 0.3, np.float32(0.7), 1, 2.5]),
    }  # fmt: skip
    if rng.random() < 0.3:
        options["regex"] = rng.choice(["[a-z]{2,6}", "(yes|no|maybe)", "[0-9]+\\.[0-9]"])
        options["max_new_tokens"] = 12
    more = {
        "top_k": rng.choice([1, 5, np.int64(2000)]), "top_p": 0.8, "min_p": 0.1,
        "frequency_penalty": 1.5, "repetition_penalty": 1.3, "stop": ["e", "the"],
        "ignore_eos": True, "skip_special_tokens": False, "return_logprob": True,
    }  # fmt: skip
    return prompt, options | {key: more[key] for key in rng.sample(list(more), rng.randrange(4))}


def bad(rng: random.Random, asked: Asked) -> Asked:
    """One that may be refused, or fail: odd values, a token that gives NaN, nothing allowed."""
    prompt, options = asked[0], dict(asked[1])
    for name in rng.sample(OPTIONS, rng.randrange(1, 4)):
        options[name] = odd(rng.randrange(COUNT))
    if rng.random() < 0.3:
        options = {"max_new_tokens": 3, "logit_bias": dict.fromkeys(range(400), -np.inf)}
    if rng.random() < 0.4:
        prompt = [*range(5, 5 + rng.randrange(80)), POISON, *range(5, 5 + rng.randrange(20))]
        options = {"max_new_tokens": 3}
    if rng.random() < 0.1:
        prompt = rng.choice([odd(rng.randrange(COUNT)), [5, 2**40], [5] * 700])
    return prompt, options


def without_ties(asked: list[Asked], expected: list[Answer]) -> list[tuple[Asked, Answer]]:
    """Those that noise in the logits does not change: in every batch they give the same."""
    with engine(NOISE) as noisy:
        disturbed = answers(noisy, asked)
    kept = zip(asked, expected, disturbed, strict=True)
    return [(one, right) for one, right, other in kept if right == other]


def ask(engine: Engine, asked: Asked, rng: random.Random) -> None:
    """Perhaps as a stream, which is perhaps dropped."""
    if rng.random() < 0.7:
        engine.generate(*asked)
        return
    stream = engine.generate(*asked, stream=True)
    if rng.random() < 0.5:
        next(stream)


@pytest.mark.slow
def test_random_requests() -> None:
    rng, counts = random.Random(0), Counter[str]()
    drawn = [good(rng) for _ in range(150)]
    with engine() as fresh:
        expected = [answers(fresh, [asked])[0] for asked in drawn]
    pool = without_ties(drawn, expected)
    assert len(pool) > 140
    wrong: list[tuple[Asked, Answer, Answer]] = []
    failed: list[BaseException] = []

    def work(rng: random.Random) -> None:
        for _ in range(ROUNDS):
            some = rng.choices(pool, k=rng.randrange(1, 13))
            got = answers(used, [asked for asked, _ in some])
            wrong.extend(
                (*pair, one) for pair, one in zip(some, got, strict=True) if one != pair[1]
            )
            counts["good"] += len(some)
            for asked, _ in some[:3]:
                try:
                    ask(used, bad(rng, asked), rng)
                except SgnbError as error:
                    counts[type(error).__name__] += 1
            if rng.random() < 0.05:
                used.flush_cache()

    def worker(seed: int) -> None:
        try:
            work(random.Random(seed))
        except BaseException as error:
            failed.append(error)

    with engine() as used:
        threads = [threading.Thread(target=worker, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == [] and not used.closed
        wait_until(lambda: whole(used))
    assert counts["good"] > 1000
    assert wrong == []
    assert min(counts[kind] for kind in ("OptionError", "RequestError", "EngineError")) > 12, counts
