"""The shortest texts of rules, and ends of JSON texts with llguidance."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import START, build
from sgnb.grammar.compiler import CompiledGrammar, TokenGrammar, compile_spec
from sgnb.grammar.llguidance_backend.cfg_matcher import write_schema
from sgnb.grammar.llguidance_backend.ebnf import write_ebnf
from sgnb.grammar.llguidance_backend.ending import (
    MOST_STRINGS,
    JsonEndings,
    _JsonPosition,
    required_names,
    string_endings,
)
from sgnb.grammar.llguidance_backend.gbnf import parse_gbnf
from sgnb.grammar.llguidance_backend.shortest import (
    least_length,
    remaining_texts,
    shortest_text,
)
from sgnb.grammar.matcher import Matcher
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.syntax import (
    NOTHING,
    Chars,
    Intersect,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Without,
    alternate,
    concat,
)
from sgnb.grammar.vocabulary import Vocabulary

from .trees import trees

BYTES = Vocabulary([bytes([value]) for value in range(255)])
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "kind": {"enum": ["leaf", "branch"]},
        "below": {"type": "array", "items": {"$ref": "#"}},
        "when": {"type": "string", "format": "date"},
        "size": {"type": "number", "minimum": 100},
    },
    "required": ["kind", "when", "size"],
    "additionalProperties": {"type": "string", "minLength": 2},
}
SCHEMAS: list[dict[str, Any]] = [
    TREE,
    {"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 2}, {"type": "boolean"}]},
    {"type": "object", "minProperties": 1},
    {"properties": {"a": True, "id": {"type": "string", "pattern": "^[a-z]+:[0-9]{4}$"}},
     "required": ["id", "ключ", 'a"b'], "type": "object",
     "additionalProperties": {"type": ["null", "array"]}},
    {"type": "object", "properties": {"to": {"type": "string", "format": "email"},
     "below": {"$ref": "#"}}, "required": ["to"], "additionalProperties": False},
]  # fmt: skip


def grammar(schema: dict[str, Any]) -> TokenGrammar:
    text = json.dumps(schema)
    rules = translate(text)
    spec, shortest = GrammarSpec("json_schema", text), shortest_text(rules)
    lark = write_schema(rules).lark
    return TokenGrammar(CompiledGrammar(spec, None, lark, 0.0, shortest=shortest), BYTES)


@given(trees)
def test_as_short_as_the_automatons(tree: Node) -> None:
    try:
        automaton = build(Rules(tree))
    except Exception:
        return
    found = shortest_text(Rules(tree))
    assert found is not None and len(found) == automaton.distance[START]
    assert automaton.final[automaton.step(START, found)]


@pytest.mark.parametrize(
    ("rules", "shortest"),
    [
        (Rules(Reference("a"), {"a": concat(Literal("("), Reference("b"), Literal(")")),
                                "b": alternate(Reference("a"), Literal("long"))}), b"(long)"),
        (Rules(Reference("a"), {"a": concat(Literal("x"), Reference("a"))}), None),
        (Rules(alternate(NOTHING, Repeat(Literal("ab"), 3, None))), b"ababab"),
        (Rules(Repeat(Literal("ab"), 10**9, None)), None),
        (Rules(Intersect((parse("[ab]{3,}"), parse(".*b.{4}")))), b"baaaa"),
        (Rules(Without(parse("a*"), parse("a{0,2}"))), b"aaa"),
        (Rules(Chars(((0xE9, 0xE9), (0x20AC, 0x20AC)))), "é".encode()),
    ],
)  # fmt: skip
def test_shortest_texts(rules: Rules, shortest: bytes | None) -> None:
    found = shortest_text(rules)
    assert (found and len(found)) == (shortest and len(shortest))


def test_of_grammars() -> None:
    assert write_ebnf('root ::= "(" root ")" | "end"')[1] == b"end"
    assert write_ebnf('start: "a" start?')[1] == b"a"


def test_required_names() -> None:
    schema = {"required": ["a", 'b"'], "properties": {"required": {"required": ["é"]}}, "x": [1]}
    assert set(required_names(json.dumps(schema))) == {b'a"', b'b\\""', 'é"'.encode()}
    assert required_names("true") == ()


def test_a_long_end_is_that_of_a_shortest_text() -> None:
    """No search would find it: forty members that are required, each with a pattern of its own."""
    numbered = {f"k{i}": {"type": "string", "pattern": f"^[b-y]{{40}}{i}$"} for i in range(40)}
    schema = {
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#"}, **numbered},
        "required": ["a", *numbered],
    }  # fmt: skip
    matcher = grammar(schema).matcher()
    for byte in b'{"a": "so it':
        matcher.accept_token(byte)
    end = matcher.completion()
    assert end is not None and len(end) > 800
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(json.loads(b'{"a": "so it' + end))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_text_ends_from_anywhere(schema: dict[str, Any]) -> None:
    """In few bytes, after any bytes that are allowed."""
    made, rng = grammar(schema), random.Random(1)
    validator = jsonschema.Draft202012Validator(schema)
    shortest = made.matcher().completion()
    assert shortest is not None and validator.is_valid(json.loads(shortest))
    for _ in range(6):
        matcher, text = made.matcher(), b""
        for _ in range(60):
            end = matcher.completion()
            assert end is not None and validator.is_valid(json.loads(text + end)), text
            assert matcher.distance() == len(end) < 150
            allowed = np.flatnonzero(BYTES.unpacked(matcher.next_token_bitmask()))
            if not len(allowed):
                break
            token = int(rng.choice(allowed.tolist()))
            text += bytes([token])
            matcher.accept_token(token)


def test_an_end_that_is_followed_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = grammar(TREE).matcher()
    for token in b'{"kind": "':
        matcher.accept_token(token)
    end = matcher.completion()
    assert end is not None
    monkeypatch.setattr(JsonEndings, "find", lambda *_: pytest.fail("again"))
    twin = matcher.fork()
    for at, token in enumerate(end):
        assert twin.completion() == end[at:]
        twin.accept_token(token)
    assert twin.is_final and matcher.completion() == end


@given(trees)
def test_the_least_length_is_a_bound(node: Node) -> None:
    """The oracle is the automaton; without sets the bound is exact."""
    rules = Rules(node)
    try:
        automaton = build(rules)
    except GrammarError:
        return
    shortest = int(automaton.distance[START])
    bound = least_length(rules)
    assert bound <= shortest
    if "Intersect" not in repr(node) and "Without" not in repr(node):
        assert bound == shortest


@pytest.mark.parametrize(
    ("schema", "least"),
    [
        ({"type": "string", "minLength": 10**9}, 10**9 + 2),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 10**9}, 3 * 10**9),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 3}, 0),
        ({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "minItems": 9}]}, 4),
        ({"properties": {"a": {"minLength": 10**6}}, "required": ["a"]}, 10**6 + 9),
    ],
)
def test_least_lengths_of_any_size(schema: dict[str, Any], least: int) -> None:
    assert least_length(translate(json.dumps(schema))) == least


UNANCHORED = [
    {"pattern": "(foo|bar).{30}z"},
    {"allOf": [{"pattern": "[a-m]{3}.*[0-9]"}, {"pattern": "x.{20}y"}, {"pattern": "q.{9}[^a]"}]},
    {"pattern": r"\]\}\}\}\]\]"},
    {"pattern": "x{3}[0-9]{2}!", "maxLength": 60},
    {"pattern": r"<<[a-z]+>> ok\?", "minLength": 12},
]


@pytest.mark.slow
@pytest.mark.parametrize("string", UNANCHORED)
@pytest.mark.parametrize("seed", range(4))
def test_an_unanchored_pattern_ends_from_anywhere(string: dict[str, Any], seed: int) -> None:
    """A search byte by byte never comes across the pattern; the endings of the string do."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", **string}, "b": {"$ref": "#"}},
        "required": ["a"],
    }
    validator = jsonschema.Draft202012Validator(schema)
    matcher, rng = grammar(schema).matcher(), random.Random(seed)
    text = b'{"a": "'
    for byte in text:
        matcher.accept_token(byte)
    for _ in range(20):
        end = matcher.completion()
        assert end is not None and len(end) < 80
        assert validator.is_valid(json.loads(text + end))
        words = matcher.next_token_bitmask()
        letters = [byte for byte in b"abx ]}<>0\\" if words[byte >> 5] >> (byte & 31) & 1]
        if not letters:
            break
        byte = rng.choice(letters)
        matcher.accept_token(byte)
        text += bytes([byte])


@given(st.text('ab"\\\n{}[]:, é', max_size=12), st.data())
def test_the_open_string(value: str, data: st.DataObject) -> None:
    """From its quote on, whether the text is read at once or in steps."""
    text = json.dumps({"k": value}, ensure_ascii=False).encode()
    begin = text.index(b": ") + 2
    length = data.draw(st.integers(begin + 1, len(text) - 2))
    cut = data.draw(st.integers(0, length))
    whole = _JsonPosition.after(text[:length])
    assert whole.in_string and whole.opened == text[begin:length]
    stepped = _JsonPosition.after(text[:cut]).then(text[cut:length])
    assert (stepped.in_string, stepped.opened) == (True, whole.opened)


def test_endings_of_strings_are_few_and_small() -> None:
    many = {"properties": {f"p{i}": {"pattern": f"a{i}"} for i in range(99)}}
    assert len(string_endings(json.dumps(many))) == MOST_STRINGS
    odd = {
        "items": [{"pattern": "("}, {"pattern": "a" * 30000}, {"pattern": 3}, {"format": "date"}]
    }
    [date] = string_endings(json.dumps(odd))
    assert date.completion(b'"2024-02-2') == b'0"'
    assert date.completion(b'"2023-02-3') is None
    both = string_endings(json.dumps({"allOf": [{"pattern": "ab"}, {"minLength": 4}, True]}))[0]
    assert both.completion(b'"a') == b'b  "'


def matcher_of(compiled: CompiledGrammar, text: bytes = b"") -> Matcher:
    matcher = TokenGrammar(compiled, BYTES).matcher()
    for byte in text:
        matcher.accept_token(byte)
    return matcher


GBNF = {
    "list": 'root ::= "[" item ("," item)* "]"\nitem ::= [a-z]+ | root\n',
    "arithmetic": 'root ::= term ([-+] term)*\nterm ::= [0-9]+ | "(" root ")"\n',
    "ambiguous": 'root ::= part\npart ::= part part | "(" part ")" | [a-z]+ | [a-z ]+ part "!!"\n',
    "counted": 'root ::= "<" (word " "){5} root? ">"\nword ::= "yes" | "yeti" | "no"\n',
}


@pytest.mark.parametrize("name", GBNF)
@pytest.mark.parametrize("seed", range(4))
def test_recursive_rules_end_from_anywhere(name: str, seed: int) -> None:
    compiled = compile_spec(GrammarSpec("ebnf", GBNF[name]))
    matcher, rng = matcher_of(compiled), random.Random(seed)
    for _ in range(40):
        end = matcher.completion()
        assert end is not None
        twin = matcher.fork()
        for byte in end:
            twin.accept_token(byte)
        assert twin.is_final
        allowed = np.flatnonzero(BYTES.unpacked(matcher.next_token_bitmask()))
        if not len(allowed):
            break
        matcher.accept_token(int(rng.choice(allowed.tolist())))


def test_remaining_texts() -> None:
    rules = parse_gbnf('root ::= "(" root ")" | "ab"{3} [c-d] | "x" "yz"*')
    assert remaining_texts(rules, 9) == [b")", b"c", b"ab", b"x)"]
    assert remaining_texts(rules, 2) == [b")", b"c"]


def test_a_regex_too_large_for_an_automaton_ends_from_anywhere() -> None:
    compiled = compile_spec(GrammarSpec("regex", "(.*(foo|bar).{20}z.*){2}"))
    assert compiled.automaton is None
    for text in (b"", b"fo", b"abar" + b"-" * 9, b"foo" + b"x" * 20 + b"zz"):
        end = matcher_of(compiled, text).completion()
        assert end is not None and re.fullmatch(compiled.spec.text, (text + end).decode())
        assert len(text + end) <= 48 + len(text)


def test_least_lengths_of_grammars() -> None:
    assert write_ebnf('root ::= "ab"{1000000000000} root?')[2] == 2 * 10**12
    assert write_ebnf('root ::= "(" root ")" | "end"')[2] == 3
