"""Words check their arguments at the line that wrote them, and are values that can be joined and
used again."""

from __future__ import annotations

from typing import Any

import pytest

from sgnb.errors import OptionError
from sgnb.lang import assistant, gen, select, user
from sgnb.lang.ir import Concat, ExpressionError, Gen, RoleBegin, RoleEnd, Select, Text


def test_gen_takes_the_names_of_sampling() -> None:
    node = gen("a", max_tokens=3, min_tokens=1, stop=["x"], logit_bias={5: -1.0})
    assert isinstance(node, Gen)
    options = dict(node.options)
    assert options == {
        "max_new_tokens": 3,
        "min_new_tokens": 1,
        "stop": ("x",),
        "logit_bias": ((5, -1.0),),
    }
    hash(node.options)


def test_gen_knows_its_line() -> None:
    node = gen("a")
    assert node.location.file == __file__
    assert node.location.line == test_gen_knows_its_line.__code__.co_firstlineno + 1


def test_a_generator_of_stops_is_read_once() -> None:
    assert dict(gen(stop=(c for c in "ab")).options) == {"stop": ("a", "b")}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_token": 3}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"top_p": 1.5}, "top_p"),
        ({"name": 5}, "name=5"),
        ({"name": ""}, "name=''"),
        ({"choices": ["a"], "max_tokens": 3}, "max_tokens=3"),
        ({"choices_method": "greedy_token_selection"}, "no effect without choices"),
    ],
)
def test_gen_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        gen(**arguments)


def test_a_minimum_alone_is_not_measured_against_the_usual_maximum() -> None:
    assert dict(gen(min_tokens=500).options) == {"min_new_tokens": 500}  # type: ignore[union-attr]


def test_choices_make_a_select() -> None:
    node = gen("a", choices=["x", "y"], temperature=0.5, seed=1)
    assert isinstance(node, Select)
    assert (node.choices, node.temperature, node.seed) == (("x", "y"), 0.5, 1)
    assert node == select("a", ["x", "y"], 0.5, "token_length_normalized", 1)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ([], "nothing"),
        (["a", "a"], "twice"),
        (["a", 1], "1 cannot"),
        ([""], "'' cannot"),
        ("yes", "one string"),
    ],
)
def test_select_refuses(choices: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        select("a", choices)


def test_select_refuses_an_unknown_method() -> None:
    with pytest.raises(OptionError, match="greedy_token_selection"):
        select("a", ["x"], choices_method="greedy_token_selectoin")


def test_expressions_join() -> None:
    a = gen("a")
    assert "x" + a + "y" == Concat((Text("x"), a, Text("y")))
    assert user("x" + a) == Concat((RoleBegin("user"), Text("x"), a, RoleEnd("user")))
    assert assistant() == Concat((RoleBegin("assistant"), Text(""), RoleEnd("assistant")))


@pytest.mark.parametrize("value", [None, 5, ["a"]])
def test_only_text_and_words_join(value: Any) -> None:
    with pytest.raises(ExpressionError, match="cannot be appended") as caught:
        gen("a") + value
    assert isinstance(caught.value, ValueError)
    assert f"{__file__}:" in str(caught.value)


def test_an_error_uses_the_word_that_was_typed() -> None:
    with pytest.raises(OptionError, match=r"^max_tokens=-3 .*\n.*max_tokens must be"):
        gen("answer", max_tokens=-3)
