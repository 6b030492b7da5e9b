"""Right answers under constraints, on a few of the questions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator

import sgnb
from benchmarks import json_answers
from benchmarks.json_answers import Question, schema_of


def test_a_schema_of_a_value_takes_it() -> None:
    value = {"a": [1], "b": {"c": None, "d": 1.5, "e": True}, "f": "x", "g": []}
    Draft202012Validator(schema_of(value)).validate(value)
    assert not Draft202012Validator(schema_of(value)).is_valid(value | {"h": 1})


def test_right_is_the_value_in_any_layout() -> None:
    question = Question("", {"a": 1}, {})
    assert question.right(' {"a":1}\n') and not question.right('{"a": 2}')
    assert not question.right("none")


@pytest.mark.slow
def test_a_set_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_answers, "QUESTIONS", 3)
    monkeypatch.setattr(json_answers, "SUMS", 2)
    with sgnb.Engine("tiny") as engine:
        asked = json_answers._objects()
        row, reached = json_answers._measure(engine, replace(asked, bar=2))
    name, *right, passes, without, share = row
    assert name == "3 JSON objects" and all(0 <= count <= 3 for count in right)
    assert reached == (right[1] >= 2 and float(share) <= json_answers.MOST_PASSES)
    assert passes < without
