"""Schemas of the corpus through the engine: random weights at temperature 1 write what parses and
validates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sgnb.engine.engine import Engine
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.spec import GrammarSpec

from ..byte_tokenizers import byte_level
from ..random_models import random_model

SCHEMAS = json.loads(
    (Path(__file__).parents[2] / "benchmarks" / "schemas.json").read_text(encoding="utf-8")
)[::3]
"""A third of the corpus, once; `python -m benchmarks schema_runs` runs all, several times."""
PARTS = 13


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    tokenizer = byte_level()
    model = random_model(vocab_size=len(tokenizer), max_position_embeddings=8192)
    with Engine(model, tokenizer=tokenizer, max_step_tokens=8192) as engine:
        yield engine


def parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def is_recursive(schema: Any) -> bool:
    """Only such a text may be cut by max_new_tokens: the shortest way to its end is not known."""
    return compile_spec(GrammarSpec("json_schema", json.dumps(schema))).automaton is None


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_written_parses_and_validates(engine: Engine, part: int) -> None:
    chosen = SCHEMAS[part::PARTS]
    params: list[dict[str, Any]] = [
        {"json_schema": entry["schema"], "seed": 0, "max_new_tokens": 1200} for entry in chosen
    ]
    outputs = engine.generate(["JSON: "] * len(params), params)
    cut = [
        i
        for i, output in enumerate(outputs)
        if output.finish_reason == "length" and not parses(output.text)
    ]
    assert all(is_recursive(chosen[i]["schema"]) for i in cut) and len(cut) <= max(
        1, len(outputs) // 50
    )
    for i, output in enumerate(outputs):
        if i in cut:
            continue
        entry = chosen[i]
        value = json.loads(output.text)
        kind = jsonschema.validators.validator_for(entry["schema"], jsonschema.Draft202012Validator)
        kind(entry["schema"], format_checker=kind.FORMAT_CHECKER).validate(value)
