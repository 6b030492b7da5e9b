"""The report on a grammar: figures, examples, edges, tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sgnb.grammar.automaton_table import allowed_tokens, joint_texts, lines
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.grammar_report import cut, explain
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary

PERSON = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
"age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["name", "age"],
"additionalProperties": false}"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


class Letters:
    """A tokenizer whose tokens are single bytes."""

    vocabulary = Vocabulary([*(bytes([i]) for i in range(256)), b"", b"ab", b'"name":"'])

    def write(self, data: bytes) -> list[int]:
        return list(data)

    def piece(self, token: int) -> bytes:
        return self.vocabulary.pieces[token]


def spec(pattern: str) -> GrammarSpec:
    return GrammarSpec("regex", pattern)


@pytest.mark.parametrize(
    "pattern", ["abc", "[a-z]{3,5}=[0-9]+", "(yes|no)!", ".{0,300}", "é+|漢{2}", "", "a*"]
)
def test_shortest_and_example_match(pattern: str) -> None:
    report = explain(compile_spec(spec(pattern)))
    assert report.shortest is not None
    for text in (report.shortest, report.example):
        assert re.fullmatch(pattern, text), text
    assert len(report.shortest) <= len(report.example)
    assert report == explain(compile_spec(spec(pattern))) or report.seconds, "the same each time"


def test_examples_of_a_schema_parse() -> None:
    report = explain(compile_spec(GrammarSpec("json_schema", PERSON)))
    assert json.loads(report.shortest or "") == {"name": "", "age": 0}
    assert list(json.loads(report.example)) == ["name", "age"]
    assert report.warnings == ()
    assert 0.5 < report.forced < 1


def test_figures() -> None:
    report = explain(compile_spec(spec("ab[01]cd")))
    assert (report.states, report.classes) == (6, 6)
    assert (report.compressed_states, report.compressed_edges) == (3, 2)
    assert report.forced == 0.8
    assert (report.shortest, report.kind, report.source) == ("ab0cd", "regex", "ab[01]cd")
    assert report.line().startswith("regex, 6 states, 2 edges, 80% forced, ")
    text = str(report)
    assert all(word in text for word in ("ab[01]cd", "6", "3 states, 2 edges", "80%", "'ab0cd'"))


def test_warnings_about_tokens() -> None:
    grammar = compile_spec(spec("(yes|yeah|no)"))
    assert explain(grammar).warnings == ()
    warnings = explain(grammar, Letters(), max_tokens=1).warnings
    assert len(warnings) == 2
    assert "share the token 'y'" in warnings[0]
    assert (
        warnings[1] == "the shortest text takes 2 tokens, and max_tokens is 1: the call would fail"
    )


def test_edges_name_what_they_force_and_where_it_comes_from() -> None:
    found = lines(compile_spec(GrammarSpec("json_schema", PERSON)))
    assert found[0].start == 1
    assert found[0].forced and found[0].text == '\'{"name": "\''
    assert {"$, $.name", "$.name", "$.age"} <= {edge.part for edge in found}
    assert any(edge.final for edge in found)
    starts = {edge.start for edge in found}
    assert all(edge.target in starts or edge.final for edge in found)


def test_edges_show_characters() -> None:
    first, *others = lines(compile_spec(spec("[a-cx][^a]!")))
    assert (first.text, first.forced) == ("[a-cx]", False)
    assert [line.text for line in others] == [r"[\x00-`b-\x7f] '!'", "[not ASCII] '!'"]
    assert lines(compile_spec(spec(r"[\n\]-]x")))[0].text == r"[\n\-\]] 'x'"
    assert [line.text for line in lines(compile_spec(spec("(é|ü!)x")))] == ["'éx'", "'ü!x'"]
    assert [line.text for line in lines(compile_spec(spec("[à-ö]x漢?")))] == [
        "[not ASCII] 'x'",
        "'漢'",
    ]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("[^a]", ["[^a]", ""]),
        (".", [r"[^\n]", ""]),
        (r"[^\x00-\x1f\\]", [r"[^\x00-\x1f\\]", ""]),
        ("[0-9é]", ["[0-9]", "'é'"]),
        ("[a-zà-ü]", ["[a-z]", "[not ASCII]"]),
        ("[0-9\x80-\U0010ffff]", ["[0-9]", "[not ASCII]"]),
        ("[^a]!", ["[\\x00-`b-\\x7f] '!'", "[not ASCII] '!'"]),
    ],
)
def test_what_is_all_but_some_is_said_so(pattern: str, texts: list[str]) -> None:
    assert joint_texts(lines(compile_spec(spec(pattern)))) == texts


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("é[à-ü]", ["'é'", "[not ASCII]"]),
        ("[ab]é[à-ü]!", ["[ab] 'é'", "[not ASCII] '!'"]),
        ("[à-ü]{3}", ["[not ASCII]"] * 3),
        ("([à-ü]à)*á", ["[not ASCII] 'à'", "'á'", "[not ASCII] 'à'", "'á'", "'à'"]),
    ],
)
def test_edges_that_end_inside_a_character_lose_nothing(pattern: str, texts: list[str]) -> None:
    assert [line.text for line in lines(compile_spec(spec(pattern)))] == texts


def test_edges_inside_characters_do_not_multiply() -> None:
    assert len(lines(compile_spec(spec("(à[à-ü]|á[á-ü]){20}")))) == 80


def test_only_what_leaves_no_choice_is_forced() -> None:
    assert [line.forced for line in lines(compile_spec(spec("[à-ü]é")))] == [False]
    assert [line.forced for line in lines(compile_spec(spec("éa")))] == [True]


@pytest.mark.parametrize(
    ("pattern", "single"),
    [("abc", True), ("é", True), ("ab?", False), ("[ab]", False), ("", False)],
)
def test_a_grammar_of_one_text(pattern: str, single: bool) -> None:
    assert explain(compile_spec(spec(pattern))).single is single


def test_what_does_not_show_is_escaped() -> None:
    report = explain(compile_spec(spec("(\n|\x1b\u202e)*")))
    assert r"(\n|\x1b\u202e)*" in str(report)
    assert not {"\x1b", "\u202e"} & set(str(report))
    assert cut("日\tx" * 40, 6) == "日\\tx日…"


def test_allowed_tokens() -> None:
    grammar = compile_spec(GrammarSpec("json_schema", PERSON))
    name = lines(grammar)[0].target
    first, second = allowed_tokens(grammar, Letters(), [1, name])
    assert (first.state, first.count, first.some) == (1, 1, (b"{",))
    assert second.state == name
    assert second.count > 90 and len(second.some) == 6


def test_llguidance_is_named_as_the_engine() -> None:
    tree = (
        '{"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}'
    )
    grammar = compile_spec(GrammarSpec("json_schema", tree))
    report = explain(grammar)
    assert report.shortest == "[]"
    [too_long] = explain(grammar, Letters(), 1).warnings[1:]
    assert "takes 2 tokens, and max_tokens is 1" in too_long
    lark = explain(compile_spec(GrammarSpec("ebnf", 'start: %json {"type": "null"}')))
    assert lark.shortest is None and "shortest text" in lark.warnings[0]
    assert "llguidance" in str(report) and "not known" in report.warnings[0]
    assert lines(grammar) == [] == allowed_tokens(grammar, Letters(), [1])


def test_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
