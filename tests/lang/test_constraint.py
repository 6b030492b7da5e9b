"""What a generation's text must be: settled and checked at the line that wrote it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import TypedDict

from sgnb.errors import GrammarError, OptionError
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.lang import SglFunction, gen, gen_int, gen_string
from sgnb.lang.ir import Gen
from sgnb.sampling import SamplingParams

from .fake import FakeExecutor


@dataclass
class Wand:
    wood: str
    length: float


class Town(TypedDict):
    name: str


def options(node: Any) -> dict[str, Any]:
    assert isinstance(node, Gen)
    hash(node.options)
    return dict(node.options)


@pytest.mark.parametrize("dtype", [int, "int"])
def test_an_int_is_a_regex_and_stops(dtype: Any) -> None:
    assert options(gen("a", dtype=dtype)) == {
        "regex": r"[-+]?[0-9]+[ \n]*",
        "stop": (" ", "\n"),
        "leading_blank": True,
    }
    assert options(gen("a", dtype=dtype, stop="x"))["stop"] == ("x", " ", "\n")
    assert options(gen("a", dtype=dtype, stop=["x", "y"]))["stop"] == ("x", "y", " ", "\n")


def test_the_other_dtypes() -> None:
    assert options(gen(dtype=float)) == {
        "regex": r"[-+]?[0-9]*\.?[0-9]+[ \n]*",
        "stop": (" ", "\n"),
        "leading_blank": True,
    }
    assert options(gen(dtype=bool)) == {"regex": "(True|False)", "leading_blank": True}
    assert options(gen(dtype=str)) == {"regex": r'"[\w\d\s]*"', "leading_blank": True}


def test_gen_int_and_gen_string_are_gen() -> None:
    assert gen_int("a", 5, temperature=0) == gen("a", 5, temperature=0, dtype=int)
    assert gen_string("a", stop="x") == gen("a", stop="x", dtype=str)
    node = gen_int("a")
    assert isinstance(node, Gen)
    assert node.location.file == __file__


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"dtype": "flaot"}, "did you mean 'float'"),
        ({"dtype": list}, "dtype=list is not known\n.*known: bool, float, int, str"),
        ({"dtype": "str", "json_schema": {}}, "dtype=str and json_schema exclude"),
        ({"regex": "a", "ebnf": "start: /b/"}, "regex and ebnf exclude"),
        ({"regex": 5}, "regex=5"),
        ({"ebnf": ["a"]}, "ebnf="),
        ({"json_whitespace": 2}, "needs json_schema"),
        ({"json_schema": {}, "json_whitespace": -1}, "json_whitespace=-1"),
        ({"json_strict": False}, "needs json_schema"),
        ({"json_schema": {}, "json_strict": "no"}, "json_strict='no'"),
        ({"thinking": True}, "thinking=True has no effect"),
        ({"regex": "a", "thinking": ""}, "the text that ends the thinking section"),
        ({"regex": "a", "jump_forward": 2}, "jump_forward=2"),
    ],
)
def test_gen_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=r"(?s)" + said):
        gen(**arguments)


@pytest.mark.parametrize("pattern", ["(a", "a(?=b)", r"(a)\1"])
def test_a_bad_pattern_fails_at_its_line_each_time(pattern: str) -> None:
    for _ in range(2):
        with pytest.raises(GrammarError, match="column"):
            gen("a", regex=pattern)


@pytest.mark.parametrize("schema", ['{"type": ', "[1]", {"const": object()}, FakeExecutor])
def test_a_bad_schema_fails_at_its_line(schema: Any) -> None:
    with pytest.raises(GrammarError, match="json_schema"):
        gen("a", json_schema=schema)


def test_a_schema_is_text_whatever_it_came_as() -> None:
    plain = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"enum": [1, None]}}}
    text = json.dumps(plain)
    assert (
        options(gen(json_schema=plain)) == options(gen(json_schema=text)) == {"json_schema": text}
    )
    wand = json.loads(options(gen(json_schema=Wand))["json_schema"])
    assert list(wand["properties"]) == ["wood", "length"]
    assert json.loads(options(gen(json_schema=Town))["json_schema"])["required"] == ["name"]
    assert options(gen(json_schema=True)) == {"json_schema": "true"}


def test_a_schema_that_changed_is_another_schema() -> None:
    schema = {"enum": [1]}
    before = options(gen(json_schema=schema))
    schema["enum"].append(2)
    assert options(gen(json_schema=schema)) != before


def test_calls_carry_the_grammar(fake: FakeExecutor) -> None:
    def program(s: Any) -> None:
        s += gen("a", regex="[ab]+", thinking=True, jump_forward=False)
        s += gen("b", json_schema=Wand, json_whitespace=1, json_strict=False)
        s += gen("c", ebnf='root ::= "x"')
        s += gen("d")

    SglFunction(program).run(backend=fake).sync()
    a, b, c, d = (call.params for call in fake.calls)
    assert (a.regex, a.thinking_end, a.jump_forward) == ("[ab]+", "</think>", False)
    wand = options(gen(json_schema=Wand))["json_schema"]
    assert b.grammar == GrammarSpec("json_schema", wand, 1, strict=False)
    assert c.ebnf == 'root ::= "x"'
    assert d.grammar is None and d.jump_forward


def test_a_grammar_is_no_default_of_a_run(fake: FakeExecutor) -> None:
    def program(s: Any) -> None:
        s += gen("a")

    function = SglFunction(program)
    with pytest.raises(OptionError, match=r"no argument 'regex'\n.*gen\(\.\.\., regex=\.\.\.\)"):
        function.run(backend=fake, regex="a")
    with pytest.raises(OptionError, match="no argument 'json_schema'"):
        function.run_batch([{}], backend=fake, json_schema={})
    function.run(backend=fake, jump_forward=False)
    assert not fake.calls[0].params.jump_forward


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (Wand("oak", 1.0), "is not a schema\n.*a dataclass"),
        (5, "json_schema=5 is not a schema\n"),
        ("{a", "json_schema='{a' is not JSON: Expecting property name"),
        ("[1]", r"json_schema='\[1\]' is not a schema\n.*a JSON object, true or false"),
        ('{"not":' * 5000 + "{}" + "}" * 5000, "nested too deeply"),
        ({"const": "\ud800"}, "half of a surrogate pair"),
        ({"const": {1, 2}}, "cannot be written as JSON"),
        (list["Nobody"], "Nobody"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_what_is_no_schema(schema: Any, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        gen("a", json_schema=schema)


def test_a_dict_that_is_nested_too_deeply() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(GrammarError, match="nested too deeply"):
        gen("a", json_schema=schema)


@pytest.mark.parametrize(
    ("pattern", "text", "matching"),
    [
        (re.compile("[0-9]+"), "[0-9]+", "12"),
        (re.compile("yes|no", re.IGNORECASE), "(?i)yes|no", "YeS"),
        (re.compile("(?i)yes"), "(?i)yes", "YES"),
        (re.compile("a.b", re.DOTALL), "(?s)a.b", "a\nb"),
        (re.compile(r"\d", re.ASCII), r"(?a)\d", "7"),
    ],
)
def test_a_compiled_regex_is_its_text(pattern: re.Pattern[str], text: str, matching: str) -> None:
    assert options(gen(regex=pattern)) == {"regex": text}
    assert SamplingParams(regex=pattern).regex == text  # type: ignore[arg-type]
    automaton = compile_spec(GrammarSpec("regex", text)).automaton
    assert automaton is not None and pattern.fullmatch(matching)
    assert automaton.accepts(matching.encode())


def test_a_compiled_regex_of_bytes_is_refused() -> None:
    with pytest.raises(OptionError, match=r"must be a string or a pattern of re\.compile"):
        SamplingParams(regex=re.compile(b"a"))  # type: ignore[arg-type]
