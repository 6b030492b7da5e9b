"""Random schemas of all keywords: refused with a reason, or their texts are valid by jsonschema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import Recursive, build
from sgnb.grammar.schema.translate import translate

from .oracle import repeats
from .sample_tree import FAR, Sampler

NAMES = ("a", "b", "c", "d")


def value(rng: random.Random) -> Any:
    return rng.choice(
        [
            None,
            True,
            False,
            0,
            1,
            1.0,
            2.5,
            -3,
            "",
            "a",
            "ab",
            "x\n",
            [],
            [1],
            {},
            {"a": 1},
            {"b": "x"},
        ]
    )


class Maker:
    """Schemas of a few levels, whose keywords fit the type about as often as people's do."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def schema(self, depth: int = 3) -> Any:
        roll = self.rng.random()
        if roll < 0.04:
            return roll < 0.03
        if depth and roll < 0.3:
            return self.combined(depth - 1)
        if roll < 0.36:
            return {"$ref": f"#/$defs/{self.rng.choice('pq')}"}
        return self.typed(depth)

    def typed(self, depth: int) -> dict[str, Any]:
        kind = self.rng.choice(
            ["string", "integer", "number", "boolean", "null", "object", "object", "array", "enum"]
        )
        if kind == "enum":
            return {"enum": [value(self.rng) for _ in range(self.rng.randint(1, 4))]}
        schema: dict[str, Any] = {} if self.rng.random() < 0.1 else {"type": kind}
        if self.rng.random() < 0.1:
            schema["type"] = (
                [kind, self.rng.choice(["null", "string"])]
                if kind not in ("null", "string")
                else kind
            )
        if kind == "string":
            self.some(schema, {"minLength": (0, 3), "maxLength": (2, 5)})
            self.maybe(schema, "pattern", ["^a", "b$", "^[a-c]+$", "x", "^.{2,4}$"])
        elif kind in ("integer", "number"):
            self.some(
                schema, {"minimum": (-9, 9), "maximum": (-2, 30), "exclusiveMinimum": (-5, 5)}
            )
            self.maybe(schema, "multipleOf", [2, 5, 10, 0.5, 3])
        elif kind == "object":
            self.members(schema, depth)
        elif kind == "array":
            self.some(schema, {"minItems": (0, 2), "maxItems": (1, 3)})
            if self.rng.random() < 0.8:
                schema["items"] = self.schema(depth - 1) if depth else {"type": "integer"}
            if depth and self.rng.random() < 0.25:
                schema["prefixItems"] = [
                    self.schema(depth - 1) for _ in range(self.rng.randint(1, 2))
                ]
            self.maybe(schema, "uniqueItems", [True, False])
            if depth and self.rng.random() < 0.1:
                schema["contains"] = self.schema(0)
                self.some(schema, {"minContains": (0, 2), "maxContains": (0, 3)})
        return schema

    def members(self, schema: dict[str, Any], depth: int) -> None:
        names = self.rng.sample(NAMES, self.rng.randint(0, 3))
        if names:
            schema["properties"] = {
                name: self.schema(depth - 1) if depth else {"type": "string"} for name in names
            }
        if self.rng.random() < 0.6:
            schema["required"] = self.rng.sample(NAMES, self.rng.randint(0, 2))
        if self.rng.random() < 0.4:
            schema["additionalProperties"] = self.rng.choice([False, True, {"type": "integer"}])
        if self.rng.random() < 0.15:
            schema["patternProperties"] = {
                self.rng.choice(["^a", "b", "^x-"]): {"type": ["integer", "null"]}
            }
        self.maybe(
            schema,
            "propertyNames",
            [{"enum": ["a", "b", "e"]}, {"maxLength": 3}, {"pattern": "^[a-e]"}],
        )
        self.maybe(schema, "dependentRequired", [{"a": ["b"]}, {"c": ["a", "d"]}])
        self.maybe(schema, "unevaluatedProperties", [False])
        self.some(schema, {"minProperties": (0, 2), "maxProperties": (1, 4)})

    def combined(self, depth: int) -> dict[str, Any]:
        schema = self.typed(depth) if self.rng.random() < 0.4 else {}
        keyword = self.rng.choice(["anyOf", "oneOf", "allOf", "not", "if"])
        if keyword == "not":
            schema["not"] = self.schema(0)
        elif keyword == "if":
            schema |= {"if": self.schema(1), "then": self.schema(depth), "else": self.schema(depth)}
        else:
            schema[keyword] = [self.schema(depth) for _ in range(self.rng.randint(1, 3))]
        self.maybe(schema, "unevaluatedProperties", [False, {"type": "integer"}])
        self.maybe(schema, "unevaluatedItems", [False, {"type": "integer"}])
        return schema

    def some(self, schema: dict[str, Any], ranges: dict[str, tuple[int, int]]) -> None:
        for keyword, (low, high) in ranges.items():
            if self.rng.random() < 0.2:
                schema[keyword] = self.rng.randint(low, high)

    def maybe(self, schema: dict[str, Any], keyword: str, choices: list[Any]) -> None:
        if self.rng.random() < 0.12:
            schema[keyword] = self.rng.choice(choices)


def outcome(seed: int) -> str:
    """What became of a random schema: refused, empty, or the number of texts found valid."""
    rng = random.Random(seed)
    maker = Maker(rng)
    schema = maker.schema()
    if isinstance(schema, dict):
        schema["$defs"] = {name: maker.schema(2) for name in "pq"}
    validator = jsonschema.Draft202012Validator(schema)
    try:
        rules = translate(json.dumps(schema), rng.choice([0, 0, 1]), strict=seed % 2 == 0)
    except GrammarError as error:
        assert error.hint, error
        return "refused"
    try:
        build(rules)
    except Recursive:
        pass
    except GrammarError:
        return "empty"
    sampler = Sampler(rules, rng)
    if sampler.height(rules.start) >= FAR:
        return "empty"
    for _ in range(8):
        text = sampler.text()
        if rules.distinct and repeats(text):  # left to the matcher, see test_distinct.py
            continue
        errors = [error.message for error in validator.iter_errors(json.loads(text))]
        assert not errors, (json.dumps(schema), text, errors)
    return "valid"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_schemas(part):
    outcomes = [outcome(part * 1000 + seed) for seed in range(150)]
    assert outcomes.count("valid") > 75
