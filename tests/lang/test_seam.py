"""The blank between a prompt and a value: allowed, no part of the variable, and warned of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import sgnb as sgl
from sgnb.engine.engine import Engine
from sgnb.errors import OptionError
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.spec import GrammarSpec
from sgnb.lang.primitives.constraint_options import is_scalar, resolve_constraints
from sgnb.sampling import SamplingParams


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with (
        pytest.MonkeyPatch.context() as patch,
        Engine("tiny", device="cpu") as engine,
    ):
        patch.setenv("SGNB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield engine


def run(engine: Engine, prompt: str, **options: Any) -> Any:
    @sgl.function
    def program(s: Any) -> None:
        s += prompt
        s += sgl.gen("x", max_tokens=6, temperature=0, **options)
        s += "!"

    return program.run(backend=engine)


@pytest.mark.parametrize("options", [{"dtype": int}, {"json_schema": {"type": "integer"}}])
def test_the_blank_is_in_the_text_and_not_in_the_value(
    engine: Engine, options: dict[str, Any]
) -> None:
    state = run(engine, "12 + 34 =", **options)
    assert state["x"] == "46" and state.text() == "12 + 34 = 46!"


def test_the_blank_without_kept_tokens(engine: Engine) -> None:
    @sgl.function(keep_tokens=False)
    def program(s: Any) -> None:
        s += "12 + 34 ="
        s += sgl.gen("x", max_tokens=6, temperature=0, dtype=int)

    state = program.run(backend=engine)
    assert state["x"] == "46" and state.text() == "12 + 34 = 46"


@pytest.mark.parametrize("prompt", ["12 + 34 = ", "12 + 34 =\n"])
def test_no_blank_after_white_space(engine: Engine, prompt: str) -> None:
    text = run(engine, prompt, dtype=int).text()
    assert text[len(prompt)].isdigit()


def test_a_stream_has_no_blank(engine: Engine) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "12 + 34 ="
        s += sgl.gen("x", max_tokens=6, temperature=0, dtype=int)

    state = program.run(backend=engine, stream=True)
    assert "".join(state.text_iter("x")) == "46"


def test_a_regex_is_warned_of_once_per_line(engine: Engine) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            run(engine, "12 + 34 =", regex="[0-9]{1,3}").text()
        run(engine, "12 + 34", regex="[0-9]{1,3}").text()
        run(engine, "12 + 34 =", regex=" ?[0-9]{1,3}").text()
    lines = [str(w.message) for w in caught if "begin the pattern with ' ?'" in str(w.message)]
    assert len(lines) == 1 and "the prompt ends with '='" in lines[0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("regex", "[0-9]{1,3}"),
        ("json_schema", '{"type": ["integer", "string"], "maxLength": 3}'),
    ],
)
def test_the_grammar_allows_one_blank(kind: Any, text: str) -> None:
    plain = compile_spec(GrammarSpec(kind, text)).automaton
    blank = compile_spec(GrammarSpec(kind, text, leading_blank=True)).automaton
    assert plain is not None and blank is not None
    for value in (b"1", b"12", b"", b"x", b'"a"', b'" "'):
        assert blank.accepts(value) == blank.accepts(b" " + value) == plain.accepts(value)
        assert not blank.accepts(b"  " + value) and not plain.accepts(b" " + value)


def test_a_blank_before_values_of_llguidance() -> None:
    from sgnb.grammar.compiler import TokenGrammar
    from sgnb.grammar.vocabulary import Vocabulary

    spec = GrammarSpec("json_schema", '{"items": {"$ref": "#"}}', leading_blank=True)
    grammar = TokenGrammar(compile_spec(spec), Vocabulary([bytes([i]) for i in range(256)]))
    for text, fits in ((b"[[]]", True), (b" [[]]", True), (b"  [[]]", False)):
        matcher = grammar.matcher()
        accepted = 0
        for byte in text:
            if not matcher.next_token_bitmask()[byte >> 5] >> (byte & 31) & 1:
                break
            matcher.accept_token(byte)
            accepted += 1
        assert (accepted == len(text) and matcher.is_final) == fits


@pytest.mark.parametrize(
    ("schema", "scalar"),
    [
        ('{"type": "integer"}', True),
        ('{"type": ["string", "null"]}', True),
        ('{"enum": ["a", 1, null]}', True),
        ('{"const": true}', True),
        ('{"anyOf": [{"type": "integer"}, {"type": "null"}]}', True),
        ('{"enum": ["a", []]}', False),
        ('{"type": "object"}', False),
        ('{"type": ["string", "array"]}', False),
        ('{"anyOf": [{"type": "integer"}, {"type": "array"}]}', False),
        ("{}", False),
        ("true", False),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}', False),
    ],
)
def test_scalar_schemas(schema: str, scalar: bool) -> None:
    assert is_scalar(schema) == scalar
    assert resolve_constraints({"json_schema": schema}).get("leading_blank", False) == scalar


@pytest.mark.parametrize("schema", ['{"type": 5}', '{"type": [{}]}'])
def test_an_invalid_schema_is_no_scalar(schema: str) -> None:
    assert not is_scalar(schema)


def test_no_blank_after_thinking() -> None:
    assert "leading_blank" not in resolve_constraints({"dtype": int, "thinking": True})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "has no effect"),
        ({"ebnf": 'root ::= "a"'}, "exclude each other"),
        ({"regex": "a", "thinking": True}, "exclude each other"),
    ],
)
def test_odd_combinations(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SamplingParams(leading_blank=True, **options)
