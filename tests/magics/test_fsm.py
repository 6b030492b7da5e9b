"""`%sglang fsm` and `sgnb.fsm`: what a grammar looks like before anything runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb.errors import GrammarError, OptionError
from sgnb.magics.commands import Commands
from sgnb.magics.fsm import FsmReport, spec_of
from sgnb.magics.magic_options import LineCall
from sgnb.magics.session import SESSION
from sgnb.magics.table import Table


@dataclass
class Person:
    name: str
    age: int


SCHEMA = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


@pytest.mark.parametrize(
    ("line", "argument", "tokens"),
    [
        ("fsm [a-z]+", "[a-z]+", False),
        ("fsm  a  b ", "a  b", False),
        (r"fsm -?\d+ --tokens", r"-?\d+", True),
        ("fsm --tokens it's (fine", "it's (fine", True),
        ("fsm 'quoted --tokens'", "quoted --tokens", False),
        ("fsm " + SCHEMA + " --tokens", SCHEMA, True),
    ],
)
def test_the_rest_of_the_line_is_the_pattern(line: str, argument: str, tokens: bool) -> None:
    call = LineCall.parse(line)
    assert (call.argument, call.options) == (argument, {"tokens": True} if tokens else {})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fsm", "REGEX_OR_SCHEMA"),
        ("fsm --tokens", "REGEX_OR_SCHEMA"),
        ("fsm [a-z] --token", "did you mean '--tokens'"),
    ],
)
def test_mistakes_on_the_line(line: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        LineCall.parse(line)
    assert said in str(caught.value)


def test_a_regex(shell: Any) -> None:
    report = shell("%sglang fsm (yes|yes sure)!{1,3}")
    assert isinstance(report, FsmReport)
    assert (report.grammar.spec.kind, report.grammar.spec.text) == ("regex", "(yes|yes sure)!{1,3}")
    text = repr(report)
    assert all(word in text for word in ("states", "forced text", "shortest", "'yes!'", "' sure!'"))
    html = report._repr_html_()
    assert html.count("<table>") == 2
    assert "&#x27;yes" in html


def test_what_a_name_or_a_brace_means(shell: Any) -> None:
    shell.ns.update(Person=Person, People=list[Person], pattern="[0-9]{2}", number=5)
    assert shell("%sglang fsm Person").grammar.spec.kind == "json_schema"
    assert shell("%sglang fsm People").report.shortest == "[]"
    assert shell("%sglang fsm pattern").grammar.spec.text == "[0-9]{2}"
    assert shell("%sglang fsm number").grammar.spec.text == "number"
    assert shell("%sglang fsm '[0-9]'").grammar.spec.text == "[0-9]"
    assert shell(f"%sglang fsm {SCHEMA}").report.shortest in ('{"ok": true}', '{"ok": false}')


def test_python_twin() -> None:
    report = sgnb.fsm({"enum": ["red", "green"]})
    assert report.report.shortest == '"red"'
    assert [line for line in repr(report).splitlines() if "'\"'" in line]
    assert sgnb.fsm(SCHEMA).grammar.spec.kind == "json_schema"
    assert sgnb.fsm(Person).report.warnings[0].startswith("$.name has no maxLength")


def test_tokens_of_the_current_engine(shell: Any) -> None:
    report = sgnb.fsm("(Paris|Rome)", tokens=True)
    lines = repr(report).splitlines()
    header = next(i for i, line in enumerate(lines) if "allowed tokens" in line)
    state, count, *some = lines[header + 1].split()
    assert state == "1" and int(count) == len(some) >= 2
    assert {piece[1] for piece in some} == {"P", "R"}
    assert report._repr_html_().count("<table>") == 3


def test_a_bad_pattern_is_a_short_error(shell: Any) -> None:
    lines = shell.fails("%sglang fsm a(?=b)")
    assert lines[0].startswith("GrammarError") and "column" in "".join(lines)
    with pytest.raises(GrammarError):
        sgnb.fsm({"type": "strin"})


def test_a_grammar_of_the_library_says_so() -> None:
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}},
    }
    report = sgnb.fsm(tree)
    assert "llguidance" in repr(report) and "<ul>" in report._repr_html_()
    assert list(report.to_dot().body) == ["\t1 [shape=circle]\n"]


def test_text_is_escaped() -> None:
    html = sgnb.fsm("<img src=x>[a-z]+")._repr_html_()
    assert "<img" not in html and "&lt;img" in html


def test_a_large_automaton_is_cut() -> None:
    report = sgnb.fsm("[ab]{600}")
    assert "and 576 more edges" in repr(report) and "and 576 more edges" in report._repr_html_()
    assert report.to_dot().source.count("->") == 500


def test_to_dot() -> None:
    source = sgnb.fsm('"a[bc]"').to_dot().source
    assert source.count("doublecircle") == 1
    assert source.count("->") == 2
    assert "penwidth=3" in source


def test_tokens_and_columns_of_wide_characters(shell: Any) -> None:
    text = repr(shell("%sglang fsm 日本|[あ-ん]{2} --tokens"))
    assert "\ufffd" not in text and "b'\\xe" in text
    assert repr(Table([{"a": "日本", "b": 1}, {"a": "xyz", "b": 2}])) == "a     b\n日本  1\nxyz   2"


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Pretends a notebook's kernel; the list gets what is displayed."""
    shown: list[dict[str, str]] = []
    monkeypatch.delenv("SGNB_STATIC", raising=False)
    monkeypatch.setattr("sgnb.magics.fsm.in_kernel", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    return shown


def test_a_notebook_shows_the_drawing_then_the_tables(outputs: list[dict[str, str]]) -> None:
    report = sgnb.fsm("<img src=x>[a-z]+", tokens=True)
    report._ipython_display_()
    _, live, picture, tables = outputs
    assert list(live) == ["application/vnd.jupyter.widget-view+json"]
    assert picture["text/plain"] == repr(report)
    svg = picture["image/svg+xml"]
    assert "sgnb-static-" in svg and "how many tokens may follow" in svg
    assert "<img" not in svg and "&lt;img src=x&gt;" in svg
    assert (tables["text/html"], tables["text/plain"]) == (report._repr_html_(), "")
    assert report.drawing and report.drawing.allowed[0] >= 1
    assert f">{report.drawing.allowed[-1]:,}<" in svg


def test_without_a_page_there_is_the_picture(
    outputs: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGNB_STATIC", "1")
    sgnb.fsm("[ab]c")._ipython_display_()
    assert ["image/svg+xml" in output for output in outputs] == [True, False]


def test_what_has_no_drawing_is_shown_as_usual(shell: Any, outputs: list[dict[str, str]]) -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    shown, _ = shell.ipython.display_formatter.format(sgnb.fsm(tree))
    assert outputs == [] and "llguidance" in shown["text/html"]


def test_a_terminal_shows_the_text(shell: Any) -> None:
    report = sgnb.fsm("[ab]c")
    shown, _ = shell.ipython.display_formatter.format(report)
    assert shown["text/plain"] == repr(report)


def test_the_figures_say_how_large_the_drawing_is() -> None:
    report = sgnb.fsm("[a-zà-ÿ]+(é|ü)x")
    assert report.drawing and len(report.drawing.states) < report.report.compressed_states
    size = f"{len(report.drawing.states)} states, {len(report.drawing.starts)} edges"
    assert report.facts()["in characters"] == size
    assert "in characters" not in sgnb.fsm("").facts()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (int, "regex", r"[-+]?[0-9]+[ \n]*"),
        (["a.b", "c"], "regex", r"a\.b|c"),
        (re.compile("x", re.IGNORECASE), "regex", "(?i)x"),
        ('root ::= "a" root | "b"', "ebnf", 'root ::= "a" root | "b"'),
        ("[0-9]", "regex", "[0-9]"),
    ],
)
def test_what_gen_takes(value: Any, kind: str, text: str) -> None:
    spec = spec_of(value)
    assert (spec.kind, spec.text) == (kind, text)
    assert sgnb.fsm(value).report.shortest is not None


def test_choices_that_are_no_strings() -> None:
    with pytest.raises(OptionError, match="choices=1"):
        spec_of(["a", 1])


def test_a_mistyped_name_is_questioned() -> None:
    names = {"person": {"type": "object"}, "mood": ["good", "bad"], "_person": 1}
    commands = Commands(names, SESSION)

    def show(argument: str) -> Any:
        return commands.fsm(LineCall("fsm", "", argument, {}))

    with pytest.raises(OptionError, match="persn is no variable") as raised:
        show("persn")
    assert "did you mean 'person'" in raised.value.hint and "(persn)" in raised.value.hint
    assert show("mood").report.shortest == "bad"
    assert show("int").grammar.spec.kind == "regex"
    assert show("(persn)").report.shortest == "persn" == show("persn|persn").report.shortest
    assert show("hello").report.shortest == "hello"


LARK = 'start: "[" item ("," item)* "]"\nitem: /[a-z]+/ | start\n'
GBNF = 'root ::= "[" item ("," item)* "]"\nitem ::= [a-z]+ | root\n'


@pytest.mark.parametrize("text", [LARK, GBNF])
def test_the_rules_and_an_example_of_a_grammar(text: str) -> None:
    report = sgnb.fsm(text)
    assert report.grammar.spec.kind == "ebnf"
    names = [rule.name for rule in report.report.rules]
    assert names == ["start" if text is LARK else "root", "item"]
    assert re.fullmatch(r"[\[\]a-z,]+", report.report.example)
    assert "item" in repr(report.table()) and "item" in report._repr_html_()
    assert repr(report.report.example) in repr(report)


def test_more_rules_than_shown() -> None:
    text = "\n".join(f'r{i} ::= "{i}"' for i in range(30))
    report = sgnb.fsm(f"root ::= r1\n{text}")
    assert "and 7 more rules" in repr(report)


def test_the_rules_of_a_schema_are_those_of_llguidance() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}
    report = sgnb.fsm(tree)
    assert report.report.shortest == "[]" and report.report.rules[0].name == "start"
    assert report.report.example.startswith("[")


@pytest.mark.parametrize("name", ["Persn", "patern", "integr", "strr", "box.pattern", 'box["a"]'])
def test_a_mistyped_name_and_an_expression_are_questioned(shell: Any, name: str) -> None:
    shell.ns.update(Person=Person, pattern="[0-9]{2}", box={"a": "x"})
    lines = shell.fails(f"%sglang fsm {name}")
    assert lines[0].startswith("OptionError") and f"({name})" in "".join(lines)
    assert shell(f"%sglang fsm ({name})").grammar.spec.text == f"({name})"
