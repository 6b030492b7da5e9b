"""Words check their arguments at the line that wrote them, and are values that can be joined and
used again."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

from sgnb.errors import GrammarError, OptionError
from sgnb.lang import Run, assistant, gen, select, user
from sgnb.lang.ir import Concat, ExpressionError, Gen, RoleBegin, RoleEnd, Select, Text
from sgnb.sampling import SamplingParams


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
        ({"choices_method": "greedy_token_selectoin"}, "did you mean 'greedy_token_selection'"),
    ],
)
def test_gen_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        gen(**arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"choices": ["a"], "max_tokens": 3}, "max_tokens=3 has no effect with choices"),
        ({"choices": ["a"], "regex": "a"}, "regex='a' has no effect with choices"),
        ({"choices_method": "greedy_token_selection"}, "has no effect without choices"),
        ({"dtype": int, "regex": "a+"}, "regex='a.' has no effect with dtype=int"),
    ],
)
def test_what_has_no_effect_is_said(arguments: dict[str, Any], said: str) -> None:
    with pytest.warns(UserWarning, match=rf"test_primitives.py:\d+: .*{said}"):
        gen(**arguments)


def test_an_option_that_needs_another_is_said_at_its_line(fake: Any) -> None:
    with Run(fake, defaults={"top_logprobs_num": 3}) as run:
        s = run.state()
        s += gen("a", return_logprob=True)
        with pytest.warns(UserWarning, match=r"py:\d+: top_logprobs_num=3 .* return_logprob"):
            s += gen("b")
    assert fake.calls[0].params.top_logprobs_num == 3


def test_arguments_stand_in_sglangs_order() -> None:
    assert list(signature(gen).parameters)[:23] == [
        "name", "max_tokens", "min_tokens", "n", "stop", "stop_token_ids", "stop_regex",
        "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty",
        "ignore_eos", "return_logprob", "logprob_start_len", "top_logprobs_num",
        "return_text_in_logprobs", "dtype", "choices", "choices_method", "regex", "json_schema",
    ]  # fmt: skip


def test_none_is_not_given(fake: Any) -> None:
    plain = select("a", ["x", "y"])
    given = select("a", ["x", "y"], temperature=None, choices_method=None)
    assert (given.temperature, given.method) == (plain.temperature, plain.method)
    with Run(fake, defaults={"temperature": 0.5, "stop": None, "max_new_tokens": None}) as run:
        s = run.state()
        s += gen("a", temperature=None, stop=None) + user(None) + assistant()
    params = fake.calls[0].params
    assert (params.temperature, params.stop, params.max_new_tokens) == (0.5, (), 128)
    assert SamplingParams(top_p=None) == SamplingParams()  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        s += gen("a", np.int64(3), min_tokens=np.int32(2), temperature=np.float32(0.5))
        s += select("b", np.array(["x", "y"]), np.float64(0.5), seed=np.int64(3))
        group = s.fork(np.int64(2), [0, 0])
        group.join()
    assert (fake.calls[0].params.max_new_tokens, fake.calls[0].params.min_new_tokens) == (3, 2)
    assert s["b"] in ("x", "y") and len(group) == 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "without its"),
        ("^a", "anchor"),
        ("a*", "empty text"),
        ("(?=a)b", "look-ahead"),
    ],
)
def test_a_stop_regex_is_checked_at_its_line(pattern: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        gen("a", stop_regex=pattern)


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
        (["a", "a"], "repeated"),
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
