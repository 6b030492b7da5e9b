"""Checks at the line of `gen`, compared with the compilation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import TokenGrammar, compile_spec
from sgnb.grammar.early_check import LONGEST, check_ebnf, check_schema
from sgnb.grammar.spec import GrammarSpec
from sgnb.grammar.vocabulary import Vocabulary
from sgnb.lang.primitives.expressions import gen

BYTES = Vocabulary([bytes([value]) for value in range(255)])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "type at #/type: 'strin'"),
        ({"items": {"minLength": "x"}}, "minLength at #/items/minLength"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "'#/$defs/b' is not in the schema"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": []}}}, "anyOf at #/$defs/a/anyOf"),
        ({"items": {"$ref": "http://other/"}}, "is not in the schema"),
    ],
)
def test_invalid_schemas(schema: dict[str, Any], message: str) -> None:
    """The compilation has the same error."""
    text = json.dumps(schema)
    with pytest.raises(GrammarError) as early:
        check_schema(text)
    assert message in early.value.message
    with pytest.raises(GrammarError) as late:
        compile_spec(GrammarSpec("json_schema", text))
    assert early.value.message == late.value.message
    with pytest.raises(GrammarError):
        gen("x", json_schema=schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"unused": {"type": "any"}}, "type": "null"},
        {"type": "object", "minProperties": 3},
        {"contentEncoding": "x-unknown"},
        {"properties": {"a": {"$ref": "#"}}},
        {"maximum": 1e300},
        True,
    ],
)
def test_schemas_for_an_engine_or_a_service(schema: Any) -> None:
    """What only the engine refuses, and what no value reaches, passes."""
    gen("x", json_schema=schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('root ::= "a" | b', "line 1, column 16: no rule 'b'"),
        ("root ::= root", "describes no text"),
        ('start: "a" | nothere', "unknown name"),
        ("start: <|end|>", "special token"),
        ('other: "a"', "start"),
    ],
)
def test_invalid_grammars(text: str, message: str) -> None:
    with pytest.raises(GrammarError) as early:
        check_ebnf(text)
    assert message in early.value.message
    with pytest.raises(GrammarError) as late:
        TokenGrammar(compile_spec(GrammarSpec("ebnf", text)), BYTES)
    assert early.value.message == late.value.message
    with pytest.raises(GrammarError):
        gen("x", ebnf=text)


def test_valid_and_long_grammars() -> None:
    check_ebnf('root ::= "(" root ")" | [a-z]+')
    check_ebnf('start: "a" start?')
    many = "\n".join(f'r{i} ::= "{i}"' for i in range(LONGEST // 10))
    check_ebnf(f'root ::= r0 "x"\n{many}')
    with pytest.raises(GrammarError, match="no rule"):
        check_ebnf(f"root ::= missing\n{many}")
