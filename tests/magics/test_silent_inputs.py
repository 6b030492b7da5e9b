"""Inputs without an effect are said in one line, without the file name of the cell."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

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


def test_prompt_scores_need_no_text(shell: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SgnbWarning)
        shell("%%sglang -q\ns += 'One, two,' + gen('a', max_tokens=0, return_logprob=True)\n")
