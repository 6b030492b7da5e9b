"""`uniqueItems` and distinct names: masks against an enumeration of all texts, random walks against
jsonschema, endings, rollback and forks, with automata and with llguidance."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.distinct.distinct_matcher import DistinctMatcher
from sgnb.grammar.distinct.json_memory import JsonMemory
from sgnb.grammar.distinct.places import root_place
from sgnb.grammar.grammar_report import explain
from sgnb.grammar.llguidance_backend.cfg_matcher import write_schema
from sgnb.grammar.llguidance_backend.shortest import shortest_text
from sgnb.grammar.matcher import Matcher
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

from .oracle import repeats

LONG = [
    '",', '", ', '", "', '","', '"]', "],", ", ", "1,", " 1", "ab", '"a', '"a"', '"a", "a"', "1, 2",
    "},", '{"a": ', ": 1", "true", '", "a', 'ab", "ab"', "2]", '": 1, "a', "], [", '"}, {"a"',
    "[1, 1",
]  # fmt: skip
"""Tokens of several characters, most with the end of an item."""

PIECES = [*(bytes([byte]) for byte in range(256)), *(text.encode() for text in LONG)]
VOCABULARY = Vocabulary(PIECES)

ENGINES = "automaton", "llguidance"


@cache
def grammar(schema: str, engine: str = "", whitespace: int | None = None) -> TokenGrammar:
    compiled = compile_spec(GrammarSpec("json_schema", schema, whitespace))
    if engine == "llguidance" and compiled.automaton is not None:
        rules = translate(schema, whitespace)
        compiled = replace(
            compiled,
            automaton=None,
            lark=write_schema(rules).lark,
            why="a test",
            shortest=shortest_text(rules),
        )
    return TokenGrammar(compiled, VOCABULARY)


def matcher(schema: Any, engine: str = "", whitespace: int | None = None) -> Matcher:
    return grammar(json.dumps(schema), engine, whitespace).matcher()


def allowed(matcher: Matcher) -> set[int]:
    return set(VOCABULARY.unpacked(matcher.next_token_bitmask()).nonzero()[0].tolist())


def accepts(matcher: Matcher, text: str) -> bool:
    for byte in text.encode():
        if byte not in allowed(matcher):
            return False
        matcher.accept_token(byte)
    return matcher.is_final


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


NAMES = {"type": "object", "patternProperties": {"^(a|b|ab)$": {"enum": [1]}}}
PAIR = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"const": "a"}}}

FINITE = {
    "words": (unique({"enum": ["a", "b", "ab"]}), ["a", "b", "ab"]),
    "counted": (unique({"enum": ["a", "b", "ab"]}, minItems=2, maxItems=2), ["a", "b", "ab"]),
    "all": (unique({"enum": ["a", "b", "ab"]}, minItems=3), ["a", "b", "ab"]),
    "mixed": (unique({"enum": [1, "1", True, None]}), [1, "1", True, None]),
    "numbers": (unique({"type": "integer", "minimum": 9, "maximum": 12}), [9, 10, 11, 12]),
    "patterns": (unique({"pattern": "^a?b?$"}, minItems=2), ["", "a", "b", "ab"]),
    "nested": (
        unique(unique({"enum": [1, 2]}), maxItems=3),
        [[], [1], [2], [1, 2], [2, 1]],
    ),
    "objects": (
        unique(PAIR, maxItems=3),
        [{}, {"a": 1}, {"a": 2}, {"b": "a"}, {"a": 1, "b": "a"}, {"a": 2, "b": "a"}],
    ),
}
"""Schemas with all of their items."""


def texts_of(schema: dict[str, Any], items: list[Any]) -> set[bytes]:
    """All texts: lists of different items, as many as the schema allows."""
    counts = range(schema.get("minItems", 0), schema.get("maxItems", len(items)) + 1)
    lists = itertools.chain.from_iterable(itertools.permutations(items, n) for n in counts)
    return {json.dumps(chosen).encode() for chosen in lists}


def allowed_by(texts: Iterable[bytes], prefix: bytes) -> set[int]:
    """The slow twin of a mask: the tokens with which some text goes on."""
    rest = [text[len(prefix) :] for text in texts if text.startswith(prefix)]
    return {
        token for token, piece in enumerate(PIECES) if any(text.startswith(piece) for text in rest)
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FINITE)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_masks_allow_exactly_the_continuations(name: str, engine: str, seed: int) -> None:
    schema, items = FINITE[name]
    texts, draw = texts_of(schema, items), random.Random(seed)
    walk, text = matcher(schema, engine), b""

    while tokens := allowed(walk):
        assert tokens == allowed_by(texts, text), text
        assert walk.is_final == (text in texts)
        token = draw.choice(sorted(tokens))
        walk.accept_token(token)
        text += PIECES[token]
    assert text in texts and walk.finished


@pytest.mark.parametrize("engine", ENGINES)
def test_names_are_distinct_in_any_order(engine: str) -> None:
    for length in range(4):
        for names in itertools.product(["a", "b", "ab"], repeat=length):
            text = "{" + ", ".join(f'"{name}": 1' for name in names) + "}"
            assert accepts(matcher(NAMES, engine), text) == (len(set(names)) == length), text


WALKS = [
    unique({"type": "string"}, minItems=2),
    unique({"type": "number", "minimum": 1, "maximum": 2}, minItems=3),
    unique({"type": "string", "format": "ipv4"}, minItems=2),
    unique({"type": "string", "maxLength": 1}, minItems=2),
    unique(True),
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3},
    NAMES | {"minProperties": 3},
    unique({"type": "string"}, prefixItems=[{"type": "boolean"}, {"type": "boolean"}]),
    unique({"type": "integer"}, contains={"enum": [1, 2]}),
    {
        "$defs": {"t": {"properties": {"k": unique({"$ref": "#/$defs/t"}, maxItems=3)}}},
        "$ref": "#/$defs/t",
    },
    {
        "anyOf": [
            unique({"enum": [1, 2, 3]}),
            {"type": "object", "properties": {"a": unique({"type": "string"})}},
        ]
    },
]


def walked(schema: Any, engine: str, seed: int, tokens: int = 120) -> bytes:
    """A random text of at most `tokens` tokens that the masks allow, with its ending."""
    draw, walk, text = random.Random(seed), matcher(schema, engine), b""
    for _ in range(tokens):
        choices = sorted(allowed(walk))
        if not choices or (walk.is_final and draw.random() < 0.2):
            break
        readable = [token for token in choices if PIECES[token].isascii()]
        token = draw.choice(readable or choices)
        walk.accept_token(token)
        text += PIECES[token]

    if not walk.is_final:
        ending = walk.completion()
        assert ending is not None and walk.distance() == len(ending), text
        text += ending
        assert accepts(walk, ending.decode())
    return text


@pytest.mark.parametrize("schema", WALKS)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_random_texts_are_valid(schema: Any, seed: int) -> None:
    text = walked(schema, ENGINES[seed % 2], seed)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))


EQUAL = [
    (unique({"type": "number"}), "[1.5, 1.50]"),
    (unique({"type": "number"}), "[1, 1.0]"),
    (unique({"type": "number"}), "[0, 0.0]"),
    (unique(True), '[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]'),
    (unique(True), "[[1, {}], [1, {}]]"),
    (unique(True), "[true, true]"),
    (unique({"type": "string"}), '["\\"", "\\""]'),
]
DIFFERENT = [
    (unique(True), "[1, true, 0, false, null]"),
    (unique(True), '["1", 1, "true", true]'),
    (unique(True), "[[1], [[1]], {}, []]"),
    (unique(True), '[{"a": 1}, {"b": 1}, {"a": [1]}, {"a": 1, "b": 1}]'),
    (unique({"type": "number"}), "[1, 10, 0.1, 100, 1.5, 15]"),
    (unique({"type": "string"}), '["", "a", "a\\\\", "\\"", "\\\\"]'),
    (unique({"type": "array", "items": {"type": "integer"}}), "[[1, 1], [1]]"),
]


@pytest.mark.parametrize(("schema", "text"), EQUAL)
def test_equal_items_are_refused(schema: Any, text: str) -> None:
    assert repeats(text) and not accepts(matcher(schema), text)


@pytest.mark.parametrize(("schema", "text"), DIFFERENT)
def test_different_items_are_accepted(schema: Any, text: str) -> None:
    assert accepts(matcher(schema), text)


def test_white_space_makes_no_difference() -> None:
    schema = unique(unique({"enum": [1, 2]}))
    assert accepts(matcher(schema, whitespace=2), "[[1,2], [ 1 ]]")
    assert not accepts(matcher(schema, whitespace=2), "[[1,2], [ 1 ,\n2 ]]")


def test_white_space_hides_no_dead_end() -> None:
    schema = unique({"enum": [1, "a", {"a": 1, "b": [1, 2]}]})
    walk = matcher(schema, whitespace=3)
    for byte in b'["a", { "a": 1 ,"b":[ 1, 2 ]},\n1':
        walk.accept_token(byte)
    assert ord("]") in allowed(walk) and ord(" ") in allowed(walk)
    assert ord(",") not in allowed(walk)


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=10)
def test_rollback_and_fork_restore_masks_and_endings(engine: str, seed: int) -> None:
    draw, walk = random.Random(seed), matcher(unique({"enum": ["a", "b", "ab", "ba"]}), engine)
    seen = []
    while choices := sorted(allowed(walk)):
        seen.append((set(choices), walk.is_final, walk.completion()))
        walk.accept_token(draw.choice(choices))
    twin = walk.fork()
    back = draw.randint(1, len(seen))
    walk.rollback(back)
    assert (allowed(walk), walk.is_final, walk.completion()) == seen[-back]
    assert twin.finished and not allowed(twin)
    with pytest.raises(GrammarError, match="cannot be undone"):
        walk.rollback(len(seen))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_repeated_item_is_refused_and_changes_nothing(engine: str) -> None:
    walk = matcher(unique({"type": "integer", "maximum": 99}), engine)
    for byte in b"[1, 1":
        walk.accept_token(byte)
    before = allowed(walk)
    with pytest.raises(GrammarError, match="repeats an item or name"):
        walk.accept_token(ord("]"))
    assert allowed(walk) == before and ord("]") not in before and ord("0") in before


@pytest.mark.parametrize("engine", ENGINES)
def test_shortest_text_repeats_nothing(engine: str) -> None:
    for schema, text in [
        (unique({"type": "integer", "minimum": 0}, minItems=4), b"[0, 1, 2, 3]"),
        (unique({"type": "string"}, minItems=3), b'["", "a", "b"]'),
    ]:
        ending = matcher(schema, engine).completion()
        assert ending is not None and len(ending) == len(text)
        assert not repeats(ending.decode())


def test_report_shows_valid_texts() -> None:
    schema = unique({"enum": [1, 2, 3]}, minItems=3)
    report = explain(compile_spec(GrammarSpec("json_schema", json.dumps(schema))))
    for text in (report.shortest, report.example):
        jsonschema.validate(json.loads(text or ""), schema)


def test_schemas_without_open_objects_have_no_memory() -> None:
    closed = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    assert not isinstance(matcher(closed), DistinctMatcher)
    assert isinstance(matcher(closed | {"additionalProperties": True}), DistinctMatcher)


TOO_FEW = [
    unique({"enum": [1, 1.0, 2]}, minItems=3),
    unique({"type": "boolean"}, minItems=3),
    unique({"type": "integer", "minimum": 1, "maximum": 3}, minItems=4),
    unique({"type": "number", "minimum": 1, "maximum": 1}, minItems=2),
    unique({"$ref": "#/$defs/x"}, minItems=2) | {"$defs": {"x": {"const": "a"}}},
    {"prefixItems": [{"const": 1}, {"const": 1}], "minItems": 2, "uniqueItems": True},
    {"contains": {"const": 1}, "minContains": 2, "uniqueItems": True},
    unique({"enum": [1, 2, 3]}, contains={"const": 1}, minItems=4),
]


@pytest.mark.parametrize("schema", TOO_FEW)
def test_too_few_items_are_refused(schema: Any) -> None:
    with pytest.raises(GrammarError, match="no JSON value is valid"):
        compile_spec(GrammarSpec("json_schema", json.dumps(schema)))


def test_places_follow_the_path() -> None:
    schema = {
        "$defs": {"list": unique({"type": "string"})},
        "properties": {"a": {"$ref": "#/$defs/list"}, "b": {"items": {"$ref": "#"}}},
        "patternProperties": {"^x": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}},
        "additionalProperties": {"prefixItems": [unique(True)], "items": True},
    }
    root = root_place(json.dumps(schema))
    assert not root.is_distinct and root.member("a").is_distinct and root.member("xy").is_distinct
    assert root.member("b").item(7).member("a") is root.member("a")
    assert root.member("c").item(0).is_distinct and not root.member("c").item(1).is_distinct


def test_memory_ignores_the_boundaries_of_tokens() -> None:
    root = root_place(json.dumps(unique(True)))
    text = b'[1.50, "a\\"b", {"a": [true, null]}, {"b": -0.0}, [1, 15e-1]]'
    for size in (1, 2, 3, 5, 100):
        memory = JsonMemory(root)
        for at in range(0, len(text), size):
            after = memory.advance(text[at : at + size])
            assert after is not None
            memory = after
        assert not memory.stack and not memory.text
    assert JsonMemory(root).advance(b"[1.5, 15e-1]") is None
