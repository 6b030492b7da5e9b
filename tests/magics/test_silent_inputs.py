"""Inputs without an effect are said in one line, without the file name of the cell."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import sgnb
from sgnb.errors import SgnbWarning

INPUTS = {
    "--max-tokens 0": (
        "%%sglang --max-tokens 0 -q\ns += 'One, two,' + gen('a')\n",
        "line 2: max_tokens=0 generates no text",
    ),
    "max_tokens=0": (
        "%%sglang -q\ns += 'One, two,'\ns += gen('a', max_tokens=0)\n",
        "line 3: max_tokens=0 generates no text",
    ),
    "max_tokens above the context": (
        "%%sglang -q\ns += 'One, two,' + gen('a', max_tokens=99999, stop=' ')\n",
        "max_tokens=99,999 is above the context of 4,096 tokens",
    ),
    "a body of comments": ("%%sglang -q\n# nothing\n", "the body has no statements"),
    "an empty body": ("%%sglang -q\n\n", "the body has no statements"),
    "--over []": ("%%sglang each q --over [] -q\ns += q\n", "--over [] has no rows"),
    "an empty iterator": ("%%sglang each q --over iter('') -q\ns += q\n", "has no rows"),
    "fsm NoSuchName": ("%sglang fsm NoSuchName", "no variable is called NoSuchName"),
    "no effect": (
        "%%sglang -q\ns += 'One, two,' + gen('a', max_tokens=1, top_logprobs_num=3)\n",
        "line 2: top_logprobs_num=3 has no effect",
    ),
    "--max-tokens replaced": (
        "%%sglang -q --max-tokens 1\ns += 'One, two,'\ns += gen('a', max_tokens=4)\n",
        "line 3: max_tokens=1 has no effect: gen 'a' sets max_tokens=4",
    ),
    "a batch with replaced settings": (
        "%%sglang each q --over ['a', 'b'] -q --seed 5 --top-p 0.5\n"
        "s += q + gen('a', seed=3, max_tokens=1)\ns += gen('b', seed=4, max_tokens=1)\n",
        "line 2: seed=5 has no effect: gen 'a' sets seed=3, and all other calls set their own",
    ),
    "a former name": ("%sglang trace off", "%sglang trace is now called %sglang recording"),
}


@pytest.mark.parametrize("cell, expected", INPUTS.values(), ids=INPUTS)
def test_no_input_is_silent(
    shell: Any, capsys: Any, shows_warnings: None, cell: str, expected: str
) -> None:
    shell("%sglang load tiny")
    capsys.readouterr()
    try:
        shell(cell)
    except Exception as error:
        assert "recording" in str(error)
    shown = capsys.readouterr()
    [line] = [line for line in shown.out.splitlines() if expected in line]
    assert "/tmp" not in line and ".py" not in line
    assert shown.err == ""


@pytest.mark.parametrize(
    "cell",
    [
        "%%sglang -q --max-tokens 1\ns += 'One,' + gen('a')\ns += gen('b', max_tokens=4)\n",
        "%%sglang -q --max-tokens 4\ns += 'One,' + gen('a', max_tokens=4)\n",
        "%%sglang -q --seed 5\ns += 'One,' + gen('a', max_tokens=1)\n",
        "%%sglang -q --temperature 0\ns += 'One,' + select('a', ['x', 'y'])\n",
    ],
)
def test_a_setting_with_an_effect_is_not_questioned(shell: Any, cell: str) -> None:
    shell("%sglang load tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SgnbWarning)
        shell(cell)


def test_settings_of_a_lab_and_a_check_without_an_effect_are_named(shell: Any) -> None:
    shell("%sglang load tiny")
    shell("%%sglang fixed q -q\ns += q + gen('a', max_tokens=4, temperature=0)\n")
    program = shell.ns["fixed"]
    with pytest.warns(SgnbWarning) as caught:
        lab = sgnb.lab(program, rows=[{"q": "One"}], grid={"max_tokens": [1, 2, 4]}).run()
    assert len({pair.answer for pair in lab.cells}) == 1
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    for value, message in zip((1, 2), messages, strict=True):
        assert f"max_tokens={value} has no effect: gen 'a' sets max_tokens=4" in message
    with pytest.warns(SgnbWarning, match="max_tokens=3 has no effect"):
        sgnb.check(program, [{"q": "One"}], expect=lambda state, row: True, max_tokens=3)


def test_prompt_scores_need_no_text(shell: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SgnbWarning)
        shell("%%sglang -q\ns += 'One, two,' + gen('a', max_tokens=0, return_logprob=True)\n")
