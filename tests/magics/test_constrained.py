"""Cells whose generations have to parse, on the real engine with the bundled model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Town:
    name: str
    people: int


def cell(words: str) -> str:
    return f'%%sglang --show none --seed 1 --max-tokens 48\ns += "Say: "\ns += {words}\n'


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        ('gen("a", regex="(red|green) [0-9]{3}")', "(red|green) [0-9]{3}"),
        ('gen("a", dtype=float, max_tokens=8)', r"[-+]?[0-9]*\.?[0-9]*"),
        ('gen("a", dtype=bool)', "True|False"),
        ('gen_int("a", 4)', "[-+]?[0-9]+"),
        ('gen("a", ebnf=\'root ::= "(" root ")" | "x"\', max_tokens=400)', r"\(*x\)*"),
    ],
)
def test_the_text_is_as_asked(shell: Any, words: str, pattern: str) -> None:
    assert re.fullmatch(pattern, shell(cell(words))["a"])


def test_a_type_of_the_notebook_is_a_schema(shell: Any) -> None:
    shell.ns["Town"] = Town
    state = shell(cell('gen("town", json_schema=Town, max_tokens=200)'))
    if state.get_meta_info("town")["finish_reason"]["type"] == "stop":
        assert list(json.loads(state["town"])) == ["name", "people"]
    assert state["town"].startswith('{"name": "')


def test_the_text_after_a_thinking_section(shell: Any) -> None:
    state = shell(cell('gen("a", regex="[ab]{2}", thinking="e", max_tokens=200)'))
    assert re.fullmatch("[ab]{2}", state["a"])
    assert state.get_meta_info("a")["reasoning"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('gen("a", regex="x(?=y)")', "look-ahead"),
        ('gen("a", regex="(x")', "column 1"),
        ('gen("a", json_schema="{")', "not JSON"),
        ('gen("a", json_schema={"type": "strin"})', "strin"),
        ('gen("a", dtype=complex)', "dtype=complex"),
    ],
)
def test_a_mistake_names_the_line_of_the_cell(shell: Any, words: str, said: str) -> None:
    shown = "\n".join(shell.fails(cell(words)))
    assert said in shown
    assert f"Cell In[{shell.ipython.execution_count - 1}], line 3" in shown
