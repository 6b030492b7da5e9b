"""Warnings of decisions on texts that hold an argument, which a graph would repeat."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import sgnb as sgl
from sgnb.lang import function

from .test_graph import line_of


@function
def within_one(s: Any, word: str) -> None:
    s += word
    s += "yes" if "x" in f"<{word}>" else "no"  # here: a comparison


@function
def behind_a_name(s: Any, word: str) -> None:
    text = f"<{word}>"
    text = "{}: {}".format("a", text)
    s += text
    s += text.ljust(20)  # here: ljust()


@function
def of_generated_data(s: Any, word: str) -> None:
    s += word + sgl.gen("a")
    answer = "%s, %s!" % (s["a"], word)  # noqa: UP031
    if answer == "a, b!":  # here: a comparison
        s += "b"


@function
def its_length(s: Any, word: str) -> None:
    line = ", ".join(["a", word])
    s += "-" * len(line)  # here: len()


@pytest.mark.parametrize("program", [within_one, behind_a_name, of_generated_data, its_length])
def test_a_decision_that_the_graph_repeats(program: Any) -> None:
    with pytest.warns(UserWarning, match="of a text made of an argument") as told:
        program.trace()
    [warning] = told
    assert warning.lineno == line_of(program, "# here: ")
    assert f"{what_of(program)} of a text" in str(warning.message)


def what_of(program: Any) -> str:
    text: str = program._code.source
    return text.partition("# here: ")[2].partition("\n")[0]


@pytest.mark.parametrize("program", [within_one, behind_a_name, its_length])
def test_a_value_is_no_argument(program: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.trace(word="x")


def test_what_is_only_put_together() -> None:
    @function
    def program(s: Any, word: str, count: int = 2) -> None:
        text = f"<{word}>"
        text = f"{count}".rjust(3) + "".join(["a", text]) + f" {text}"
        s += text
        known = f"{count}"
        if known == "2" and len(known) == 1:
            s += known.strip()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.trace()
