"""What `seed` promises in which precision."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable

import pytest

from sgnb.engine.engine import Engine

MakeEngine = Callable[..., Engine]


def test_half_precision_on_a_cpu_says_once_that_samples_depend_on_the_batch(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine(dtype="bfloat16")
    engine.generate([5, 6], max_new_tokens=1)
    with pytest.warns(UserWarning, match='in bfloat16 on a CPU.*dtype="float32"') as said:
        for _ in range(2):
            engine.generate([5, 6], max_new_tokens=1, seed=1)
    assert len(said) == 1


def test_samples_in_float32_are_the_same_in_a_batch(make_engine: MakeEngine) -> None:
    engine, rng = make_engine(dtype="float32", prefix_cache=False), random.Random(0)
    prompts = [[rng.randrange(3, 97) for _ in range(rng.randrange(4, 40))] for _ in range(12)]
    options = {"max_new_tokens": 12, "seed": 1, "ignore_eos": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = [engine.generate(prompt, **options).token_ids for prompt in prompts]
        assert [output.token_ids for output in engine.generate(prompts, **options)] == alone
