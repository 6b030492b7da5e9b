"""Texts of the trees of all schemas in benchmarks/schemas.json: valid JSON, and by jsonschema."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest

from sgnb.grammar.schema.translate import translate
from sgnb.grammar.syntax import Rules, Source

from .oracle import repeats
from .sample_tree import Sampler

CORPUS = json.loads((Path(__file__).parents[2] / "benchmarks" / "schemas.json").read_text())


def check(schema: object, rules: Rules, count: int, seed: int) -> None:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    sampler = Sampler(rules, random.Random(seed))
    for _ in range(count):
        text = sampler.text()
        text.encode()
        if rules.distinct and repeats(text):  # left to the matcher, see test_distinct.py
            continue
        errors = [error.message for error in validator.iter_errors(json.loads(text))]
        assert not errors, (text, errors)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["name"])
def test_texts_are_valid(entry):
    rules = translate(json.dumps(entry["schema"]))
    assert isinstance(rules.start, Source) and rules.start.label == "$"
    check(entry["schema"], rules, 12, 1)


@pytest.mark.parametrize("entry", CORPUS[::5], ids=lambda entry: entry["name"])
def test_texts_with_whitespace_are_valid(entry):
    check(entry["schema"], translate(json.dumps(entry["schema"]), 2), 6, 2)


def test_corpus_is_varied():
    schemas = [json.dumps(entry["schema"]) for entry in CORPUS]
    assert len(set(schemas)) == len(schemas) >= 160
    assert len({entry["name"] for entry in CORPUS}) == len(CORPUS)
