"""Validation of answers: the verdict of the package jsonschema, without `re`, network and files."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from sgnb.errors import GrammarError
from sgnb.grammar.schema import validate
from sgnb.grammar.schema.index import read_schema
from sgnb.grammar.schema.strict_json import InvalidAnswer, read_json
from sgnb.grammar.schema.validate import Validator, validator

VALUES: list[Any] = [
    None, True, False, 0, 1, -3, 1.0, 2.5, "", "a", "ab", "ba", "1", [], [1], [1, 1.0], [True, 1],
    ["a", 2], [[1], [1]], {}, {"a": 1}, {"ab": "b"}, {"a": "b", "b": 2}, {"a": {"a": [1, "a"]}},
    {"ba": None, "a": [2.5]},
]  # fmt: skip
LEAVES: list[dict[str, Any]] = [
    {"type": "integer"}, {"type": ["string", "null"]}, {"enum": [1, "a", [1], {"a": 1}]},
    {"const": 1.0}, {"minimum": 1}, {"exclusiveMaximum": 2.5}, {"multipleOf": 0.5},
    {"minLength": 2}, {"maxLength": 1}, {"pattern": "^a"}, {"pattern": "b$"}, {"minItems": 1},
    {"maxItems": 1}, {"uniqueItems": True}, {"required": ["a"]}, {"minProperties": 2},
    {"maxProperties": 1}, {"dependentRequired": {"a": ["b"]}}, {"$ref": "#/$defs/x"},
]  # fmt: skip


def draw(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([True, False, *LEAVES])
    sub = lambda: draw(rng, depth - 1)  # noqa: E731
    parts = [
        lambda: {"properties": {"a": sub(), "b": sub()}},
        lambda: {"patternProperties": {"^a": sub(), "b": sub()}},
        lambda: {"additionalProperties": sub()},
        lambda: {"propertyNames": sub()},
        lambda: {"items": sub()},
        lambda: {"prefixItems": [sub(), sub()]},
        lambda: {"contains": sub(), "minContains": rng.randrange(3)},
        lambda: {"contains": sub(), "maxContains": rng.randrange(3)},
        lambda: {"allOf": [sub(), sub()]},
        lambda: {"anyOf": [sub(), sub()]},
        lambda: {"oneOf": [sub(), sub()]},
        lambda: {"not": sub()},
        lambda: {"if": sub(), "then": sub(), "else": sub()},
        lambda: {"dependentSchemas": {"a": sub()}},
        lambda: {"unevaluatedProperties": sub()},
        lambda: {"unevaluatedItems": sub()},
        lambda: rng.choice(LEAVES),
    ]
    schema: dict[str, Any] = {}
    for part in rng.choices(parts, k=rng.randint(1, 4)):
        schema |= part()
    return schema


def accepts(schema: Any, value: Any) -> bool:
    try:
        validator(json.dumps(schema)).check(json.dumps(value))
    except InvalidAnswer:
        return False
    return True


def test_the_verdicts_of_jsonschema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rng = random.Random(5)
    accepted = total = 0
    for _ in range(100):
        schema = draw(rng, 3)
        if isinstance(schema, bool):
            continue
        schema = {**schema, "$defs": {"x": rng.choice(LEAVES[:-1])}}
        oracle = jsonschema.Draft202012Validator(schema)
        for value in VALUES:
            expected = oracle.is_valid(value)
            assert accepts(schema, value) is expected, (schema, value)
            accepted, total = accepted + expected, total + 1
    assert 0.1 < accepted / total < 0.9


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"items": [{"const": 1}], "additionalItems": False}, [1], [1, 2]),
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, {"a": 1, "b": 2}, {"c": 1}),
        ({"multipleOf": 0.01}, 0.07, 0.075),
        ({"$id": "http://x/", "$defs": {"y": {"$id": "y", "type": "null"}}, "$ref": "y"}, None, 1),
        ({"pattern": r"^\p{Lu}\cA?$"}, "É", "é"),
        ({"pattern": "^(a+)+$"}, "a" * 40, "a" * 40 + "b"),
        ({"patternProperties": {"(x+x+)+y": False}}, {"x" * 40: 1}, {"xxxy": 1}),
        ({"propertyNames": {"pattern": "^(a|a)*$"}}, {"a" * 40: 1}, {"a" * 40 + "!": 1}),
    ],
)
def test_drafts_and_patterns(schema, good, bad) -> None:
    assert (accepts(schema, good), accepts(schema, bad)) == (True, False)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, "not in the schema"),
        ({"$ref": "file:///etc/passwd"}, "not in the schema"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "not in the schema"),
        ({"$schema": "http://127.0.0.1:9/x", "$dynamicRef": "http://127.0.0.1:9/y"}, "dynamicRef"),
        ({"$ref": "#"}, "refers to itself"),
        ({"pattern": r"(.)\1"}, "cannot be checked"),
        ({"pattern": "(?<=a)b"}, "cannot be checked"),
        ({"pattern": "("}, "cannot be checked"),
        ({"pattern": "(a|b)*a(a|b){30}c"}, "cannot be checked"),
        ({"type": "text"}, "type at #/type"),
        ({"multipleOf": 0}, "multipleOf at #/multipleOf"),
        ({"minLength": "x"}, "minLength at #/minLength"),
        ({"allOf": 5}, "allOf at #/allOf"),
        ([1], "is not a schema"),
    ],
)
def test_schemas_that_cannot_be_checked(schema, said) -> None:
    with pytest.raises(GrammarError, match=said):
        Validator(json.dumps(schema)).check("5" if "multipleOf" in said else '"abc"')


@pytest.mark.parametrize(
    "text",
    [
        "NaN", "-Infinity", '{"a": 1, "a": 2}', "1e999", "9" * 5000, "1." + "0" * 5000, "", "[",
        "[" * 100_000, "[" * 5000 + "]" * 5000, "[" + "[]," * 100_000 + "0]",
        "[" + "0," * 200_001 + "0]", '{"a":' * 3000,
    ],
)  # fmt: skip
def test_texts_that_are_no_json(text) -> None:
    with pytest.raises(InvalidAnswer):
        read_json(text)


HEAVY = [
    ({"uniqueItems": True}, json.dumps([{"a": i} for i in range(40_000)])),
    ({"uniqueItems": True}, json.dumps([i * (2**61 - 1) for i in range(40_000)])),
    ({"unevaluatedItems": False, "items": True}, json.dumps(list(range(40_000)))),
    ({"type": "array", "anyOf": [{"items": {"$ref": "#"}}] * 2}, "[" * 40 + "1" + "]" * 40),
    ({"multipleOf": 1e-300}, "1" + "0" * 900),
]


@pytest.mark.parametrize(("schema", "text"), HEAVY)
def test_heavy_checks_end(schema, text, monkeypatch) -> None:
    """In linear time, or when the clock of the check is over."""
    monkeypatch.setattr(validate, "SECONDS", 0.3)
    began = time.thread_time()
    try:
        validator(json.dumps(schema)).check(text)
    except InvalidAnswer as error:
        assert "checked" in str(error)
    assert time.thread_time() - began < 3


@pytest.mark.parametrize("number", ["1e99999999999999999999", "1e400", "-1e-400"])
def test_numbers_beyond_a_double_are_refused(number: str) -> None:
    with pytest.raises(InvalidAnswer, match="out of range"):
        read_json(f"[{number}]")


def test_exponents_beyond_decimal_are_refused_in_a_schema() -> None:
    with pytest.raises(GrammarError, match="the number 1e9999"):
        read_schema('{"minimum": 1e99999999999999999999}')


def test_the_clock_is_read_for_each_name_and_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    monkeypatch.setattr(validate._Walk, "check_clock", lambda walk: reads.append(1))
    Validator('{"patternProperties": {"x": true, "y": true}}').check('{"a": 1, "b": 2, "c": 3}')
    assert len(reads) == 1 + 3 * 2  # the schema itself, then names times patterns
