"""Arrays of distinct items and objects of distinct names through the engine, with jumps, drafts,
and endings before the limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from sgnb.engine.engine import Engine
from sgnb.errors import RequestError

from ..byte_tokenizers import byte_level
from ..random_models import random_model


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["Ada", "Alan"]}, "admin": {"type": "boolean"}},
    "required": ["name", "admin"],
}
SCHEMAS = [
    unique({"enum": ["red", "green", "blue"]}, minItems=3),
    unique({"type": "string", "maxLength": 3}, minItems=4, maxItems=8),
    unique({"type": "integer", "minimum": 0, "maximum": 11}, minItems=6),
    unique(PERSON, minItems=4),
    {"type": "object", "additionalProperties": unique({"type": "integer"}), "minProperties": 2},
    {
        "$defs": {"tree": {"properties": {"k": unique({"$ref": "#/$defs/tree"}, minItems=1)}}},
        "$ref": "#/$defs/tree",
    },
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    tokenizer = byte_level()
    model = random_model(vocab_size=len(tokenizer), max_position_embeddings=4096)
    with Engine(model, tokenizer=tokenizer) as engine:
        yield engine


@pytest.mark.parametrize("limit", [150, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_texts_are_valid_and_end_before_the_limit(
    engine: Engine, schema: dict[str, Any], limit: int
) -> None:
    params = [
        {"json_schema": schema, "seed": seed, "max_new_tokens": limit, "jump_forward": bool(seed)}
        for seed in range(2 if limit == 150 else 6)
    ]
    for output in engine.generate(["JSON: "] * len(params), params):
        jsonschema.Draft202012Validator(schema).validate(json.loads(output.text))


def test_the_last_item_is_forced(engine: Engine) -> None:
    schema = unique({"const": "only"}, minItems=1)
    assert engine.generate("JSON: ", {"json_schema": schema}).text == '["only"]'


def test_a_limit_below_the_shortest_text_is_refused(engine: Engine) -> None:
    schema = unique({"enum": ["red", "green", "blue"]}, minItems=3)
    with pytest.raises(RequestError, match="shortest text needs"):
        engine.generate("JSON: ", {"json_schema": schema, "max_new_tokens": 8})
