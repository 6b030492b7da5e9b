"""Small models have no two sizes equal by chance, in drawn configurations and in the tables of the
tests: equal sizes hide code that confuses them."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from benchmarks import models
from benchmarks.model_shapes import (
    chance_pairs,
    equal_sizes,
    is_tie,
    num_draws,
    sizes_of,
    small_config,
)

from .. import hybrid_models, random_models

QUICK = ("bart", "falcon_h1", "gemma4_text", "gpt2", "llama", "mamba2", "qwen3_5_moe")
SLOW = [name for name in models.listed_types() if name not in QUICK]
TYPES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.mark.parametrize("name", TYPES)
def test_drawn_shapes_have_distinct_sizes(name: str) -> None:
    shapes = [small_config(name, draw) for draw in range(num_draws(name))]
    assert [chance_pairs(name, shape) for shape in shapes] == [set()] * len(shapes)
    assert len({tuple(sizes_of(shape).items()) for shape in shapes}) == len(shapes)


def table() -> list[Any]:
    """The configurations of both tables, the recurrent families' second."""
    known = [family for family in hybrid_models.HYBRIDS if family in CONFIG_MAPPING]
    hybrids = [pytest.param(family, hybrid_models.hybrid_config, id=family) for family in known]
    families = random_models.FAMILIES | random_models.REFUSED
    return [
        *(pytest.param(family, random_models.random_config, id=family) for family in families),
        *hybrids,
    ]


@pytest.mark.parametrize("family, make", table())
def test_models_of_the_tests_have_distinct_sizes(family: str, make: Any) -> None:
    assert chance_pairs(family, make(family)) == set()


def test_equal_sizes_are_found() -> None:
    shape = small_config("qwen3_5_text")
    hidden = shape.linear_num_value_heads * shape.linear_value_head_dim
    equal = small_config("qwen3_5_text", sizes={"hidden_size": hidden})
    pair = ("hidden_size", "linear_num_value_heads x linear_value_head_dim")
    assert pair in equal_sizes(equal) and pair in chance_pairs("qwen3_5_text", equal)
    same = small_config("llama", sizes={"intermediate_size": small_config("llama").hidden_size})
    assert chance_pairs("llama", same) == {("hidden_size", "intermediate_size")}


def test_sizes_that_an_architecture_ties_may_be_equal() -> None:
    assert is_tie("deepseek_v3", ("num_attention_heads", "num_key_value_heads"))
    assert not is_tie("llama", ("num_attention_heads", "num_key_value_heads"))
