"""Warnings of a grammar: what can go on for ever, and texts that collide."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.grammar.automaton.automaton import Automaton, build
from sgnb.grammar.grammar_warnings import all_texts, collisions, compare, cycles, endless, seam
from sgnb.grammar.regex import parser as regex
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.syntax import Rules


class Pairs:
    """A tokenizer whose tokens are pairs of bytes."""

    def write(self, data: bytes) -> Sequence[int]:
        return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]

    def piece(self, token: int) -> bytes:
        return token.to_bytes(2).lstrip(b"\0")


def of(pattern: str) -> Automaton:
    return build(Rules(regex.parse(pattern)))


def of_schema(text: str) -> Automaton:
    return build(translate(text))


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("abc|d{2,5}", []),
        ("[a-z]{1,500}x", []),
        ("[a-z]+", ["[a-z]+"]),
        ("x.*y[0-9]+", [".*", "[0-9]+"]),
        ("(?:ab|cd)*!", ["(?:ab|cd)*"]),
        ("(?:[ab][cd])*", ["a part with [ab] and [cd]"]),
    ],
)
def test_endless_parts_of_a_regex(pattern: str, parts: list[str]) -> None:
    lines = endless(of(pattern), "regex")
    found = [line.partition(" can repeat until max_tokens")[0] for line in lines]
    assert sorted(found) == sorted(parts)


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        (
            '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}',
            ["$.a has no maxLength"],
        ),
        (
            '{"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}, '
            '"required": ["a"]}',
            [],
        ),
        ('{"type": "array", "items": {"type": "boolean"}}', ["$ has no maxItems or maxProperties"]),
        ('{"type": "array", "items": {"type": "boolean"}, "maxItems": 4}', []),
        (
            '{"type": "array", "items": {"type": "string"}}',
            ["$ has no maxItems or maxProperties", "$[] has no maxLength"],
        ),
        ('{"enum": ["a", 1, null]}', []),
        (
            '{"type": "array", '
            '"items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}',
            ["$ has no maxItems or maxProperties"],
        ),
        (
            '{"type": "array", '
            '"items": {"type": "array", "items": {"type": "boolean"}}, "maxItems": 2}',
            ["$[] has no maxItems or maxProperties"],
        ),
    ],
)
def test_endless_parts_of_a_schema(schema: str, lines: list[str]) -> None:
    found = [line.partition(";")[0] for line in endless(of_schema(schema), "json_schema")]
    assert sorted(found) == lines


def test_what_a_stop_ends_is_not_endless() -> None:
    automaton = of("[0-9]{1,3}[ \n]*")
    assert len(endless(automaton, "regex")) == 1
    assert len(endless(automaton, "regex", [" "])) == 1
    assert endless(automaton, "regex", [" ", "\n"]) == []


def test_many_endless_parts_are_counted() -> None:
    lines = endless(of(":".join(f"{letter}+" for letter in "abcdefgh")), "regex")
    assert len(lines) == 6
    assert lines[-1] == "and 3 more unbounded parts"


@given(st.sets(st.text("ab", max_size=4), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_all_texts_are_the_texts(texts: set[str]) -> None:
    automaton = of("|".join(sorted(texts, key=lambda text: -len(text))))
    assert all_texts(automaton, 32) == sorted(text.encode() for text in texts)
    assert all_texts(automaton, len(texts) - 1) is None


@given(st.text("ab()|*", max_size=8))
@settings(max_examples=200, deadline=None)
def test_there_is_a_cycle_exactly_when_texts_have_no_longest(pattern: str) -> None:
    try:
        automaton = of(pattern)
    except ValueError:
        return
    reached = {1}
    for _ in range(
        automaton.states
    ):  # a path as long as there are states must visit one of them twice
        reached = {target for state in reached for target in automaton.table[state].tolist()} - {0}
    assert bool(cycles(automaton)) == bool(reached)


def test_texts_that_begin_another() -> None:
    lines = collisions(of("yes|no|yes sure|nothing"))
    assert [line.partition(":")[0] for line in lines] == [
        "'no' begins 'nothing'",
        "'yes' begins 'yes sure'",
    ]
    assert collisions(of("yes|no")) == []
    assert collisions(of("yes|yes+")) == [], "not a choice between few texts"


def test_texts_that_share_a_token() -> None:
    lines = collisions(of("(Paris|Parma|Rome)"), Pairs())
    assert len(lines) == 1
    assert lines[0].startswith("'Paris', 'Parma' share the token 'Pa'")
    assert collisions(of('x="(Paris|Rome)"'), Pairs()) == [], "what all begin with is no choice"


def test_compare_needs_no_automaton() -> None:
    assert compare([b"b", b"a"]) == []
    assert len(compare([b"ab", b"a"])) == 1
    assert len(compare([b"ab", b"ac"], [[1, 2], [1, 3]], Pairs())) == 0, (
        "they differ after the common token"
    )
    assert len(compare([b"ab", b"ac", b"d"], [[1, 2], [1, 3], [4]], Pairs())) == 1


@pytest.mark.parametrize(
    ("pattern", "last", "said"),
    [
        ("[0-9]{1,4}", b"=", "ends with '=' and the text cannot begin with the blank"),
        (" ?[0-9]{1,4}", b"=", ""),
        ("[0-9]{1,4}", b" ", ""),
        ("[0-9]{1,4}", b"\n", ""),
        ("[0-9]{0,4}", b"=", ""),
        ("[0-9]{1,4}", b"", ""),
        ("true|false", b" ", "tokens such as ' true' begin: leave it out of the prompt"),
        ("[a-z]+", b"wor", ""),
    ],
)
def test_the_seam_between_prompt_and_text(pattern: str, last: bytes, said: str) -> None:
    pieces = [b"", b" ", b"=", b"word", b"1", b"\n", b"\n ", b" true"]
    lines = seam(of(pattern), "regex", last, pieces)
    assert len(lines) == bool(said) and said in "".join(lines)


def test_a_schema_cannot_begin_with_a_blank() -> None:
    automaton = of_schema('{"type": "object", "properties": {"a": {"type": "null"}}}')
    for last in (b":", b" "):
        [line] = seam(automaton, "json_schema", last, [b' {"', b"{"])
        assert line.endswith("end the prompt with a line break")
    assert seam(automaton, "json_schema", b"\n", [b' {"', b"{"]) == []
