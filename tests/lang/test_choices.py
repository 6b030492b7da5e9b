"""The three methods on the worked example, and drawing instead of taking the best."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.errors import OptionError, ProgramError
from sgnb.lang import (
    ChoicesDecision,
    ChoicesSamplingMethod,
    Run,
    gen,
    needs_unconditional,
    select,
    token_length_normalized,
)
from sgnb.lang.core.choices import METHODS, pick
from sgnb.lang.executor import ChoiceScore, ScoreCall

EXAMPLE = [ChoiceScore((1, 2), (-0.1, -3.0), (None, -4.0)), ChoiceScore((3,), (-0.5,), (None,))]


@pytest.mark.parametrize(
    ("method", "winner", "scores"),
    [
        ("token_length_normalized", 1, [-1.55, -0.5]),
        ("greedy_token_selection", 0, [2.0, 0.0]),
        ("unconditional_likelihood_normalized", 0, [0.45, -0.5]),
    ],
)
def test_worked_example(method: str, winner: int, scores: list[float]) -> None:
    got = METHODS[method](EXAMPLE)
    assert got == pytest.approx(scores)
    assert pick(got, 0.0, None) == winner


def test_greedy_pads_a_short_choice_with_its_mean() -> None:
    short, long = ChoiceScore((1,), (-1.0,)), ChoiceScore((1, 2), (-1.0, -0.9))
    assert METHODS["greedy_token_selection"]([short, long]) == [1.0, 2.0]


@pytest.mark.parametrize("ids", [(1, 2, 3), (-1, -1, -1)])
def test_greedy_keeps_choices_with_the_same_tokens(ids: tuple[int, int, int]) -> None:
    """Rows of a batch may differ in the last bits, and services may report texts without ids."""
    first, second, third = ids
    short = ChoiceScore((first, second), (-1.0, -0.2), texts=("To", "kyo"))
    long = ChoiceScore(ids, (-1.0 + 1e-7, -0.2 - 1e-7, -9.0), texts=("To", "kyo", " and"))
    other = ChoiceScore((first, third), (-1.0, -5.0), texts=("To", "rino"))
    for choices in permutations([(short, 3.0), (long, 2.0), (other, 1.0)]):
        scores = METHODS["greedy_token_selection"]([choice for choice, _ in choices])
        assert scores == [score for _, score in choices]


def test_equal_scores_give_the_first() -> None:
    assert pick([1.0, 1.0], 0.0, None) == 0


def test_temperature_draws_by_score_and_repeats_with_a_seed() -> None:
    drawn = Counter(pick([0.0, -1.0], 1.0, seed) for seed in range(2000))
    assert 0.69 < drawn[0] / 2000 < 0.77  # 1 / (1 + 1/e) = 0.731
    assert pick([0.0, -1.0], 1.0, 7) == pick([0.0, -1.0], 1.0, 7)
    assert pick([-1e6, 0.0], 1e-6, 0) == 1


def test_a_select_appends_its_winner_and_tells_every_score(make: Any) -> None:
    executor = make(logprobs=lambda choice: [-1.0] if choice == "no" else [-2.0, -4.0])
    with Run(executor) as run:
        s = run.state()
        s += "Sure? " + select("sure", ["yes", "no"])
    assert s.text() == "Sure? no"
    assert s["sure"] == "no"
    meta = s.get_meta_info("sure")
    assert meta["choices"] == ("yes", "no")
    assert meta["scores"] == (-3.0, -1.0)
    assert meta["choice_scores"][0].logprobs == (-2.0, -4.0)
    assert executor.calls == [ScoreCall("Sure? ", ("yes", "no"), False, run.id, "0", "sure")]


def test_only_methods_that_need_it_ask_for_the_unconditional_pass(fake: Any) -> None:
    @needs_unconditional
    def mine(choices: Any) -> list[float]:
        return [sum(u or 0.0 for u in choice.unconditional) for choice in choices]

    with Run(fake) as run:
        s = run.state()
        s += select("a", ["x", "yz"], choices_method=mine)
        s += select("b", ["x", "yz"], choices_method=token_length_normalized)
        s += select("c", ["x", "yz"], choices_method="unconditional_likelihood_normalized")
    assert [call.unconditional for call in fake.calls] == [True, False, True]
    assert s.get_meta_info("a")["scores"] == (0.0, -1.0)


def test_a_method_that_fails_fails_the_select(fake: Any) -> None:
    def broken(choices: Any) -> list[float]:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught, Run(fake) as run:
        s = run.state()
        s += select("a", ["x"], choices_method=broken)
    assert "select 'a'" in caught.value.__notes__[0]


def test_a_method_that_exits_fails_the_select(make: Any) -> None:
    """And not the thread that serves all programs."""
    executor = make()
    for _ in range(4):  # more than the executor has threads
        with pytest.raises(ProgramError, match="=exit raised") as caught, Run(executor) as run:
            s = run.state()
            s += select("a", ["x"], choices_method=sys.exit)
        assert "select 'a'" in caught.value.__notes__[0]
    with Run(executor) as run:
        s = run.state()
        s += select("a", ["x"])
    assert s["a"] == "x"


def test_a_slow_method_keeps_no_other_program_waiting(make: Any) -> None:
    executor, others = make(), threading.Event()

    def slow(choices: Any) -> list[float]:
        assert others.wait(30), "the others have to wait for it"
        return [1.0]

    runs = [Run(executor) for _ in range(4)]
    states = [run.state() for run in runs]
    for s in states:
        s += select("a", ["x"], choices_method=slow)
    with Run(executor) as run:
        s = run.state()
        s += gen("b") + select("c", ["y"])
    assert s["c"] == "y"
    others.set()
    for run, s in zip(runs, states, strict=True):
        with run:
            assert s["a"] == "x"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "values",
    [[], [1.0], ["a", "b"], [[1], [2]], [1j, 2j], [None, None], [math.nan, 1.0], None, 5],
)
def test_values_of_the_wrong_kind_fail_the_select(
    fake: Any, values: Any, temperature: float
) -> None:
    """At temperature 0 too, where strings, lists and NaN can be compared."""
    with (
        pytest.raises(ProgramError, match="choices_method=<lambda> gave") as caught,
        Run(fake) as run,
    ):
        s = run.state()
        s += select("a", ["x", "y"], temperature, choices_method=lambda choices: values)
    assert "select 'a'" in caught.value.__notes__[0]


def test_every_methods_winner_and_sglangs_shapes(make: Any) -> None:
    """The worked example: the methods disagree, and the meta information says so."""
    executor = make(logprobs=lambda choice: [-0.1, -3.0] if choice == "ab" else [-0.5])
    with Run(executor) as run:
        s = run.state()
        s += "Q" + select("short", ["ab", "c"])
        s += select("greedy", ["ab", "c"], choices_method="greedy_token_selection")
        s += select("all", ["ab", "c"], choices_method="unconditional_likelihood_normalized")
    meta = s.get_meta_info("short")
    assert meta["decisions"] == {"token_length_normalized": "c", "greedy_token_selection": "ab"}
    assert meta["normalized_prompt_logprobs"] == [pytest.approx(-1.55), -0.5]
    assert meta["input_token_logprobs"] == [
        [(-0.1, 97, None), (-3.0, 98, None)],
        [(-0.5, 99, None)],
    ]
    assert meta["output_token_logprobs"] == [[], []]
    assert s.get_meta_info("greedy")["greedy_logprob_matrix"] == [[-0.1, -3.0], [-0.5, -0.5]]
    meta = s.get_meta_info("all")
    assert len(meta["decisions"]) == 3
    assert meta["unconditional_token_logprobs"] == [
        [(None, 97, None), (-1.0, 98, None)],
        [(None, 99, None)],
    ]
    assert meta["normalized_unconditional_prompt_logprobs"] == [pytest.approx(-1.05), -0.5]


class Longest(ChoicesSamplingMethod):
    """As it is written for SGLang."""

    @property
    def requires_unconditional_logprobs(self) -> bool:
        return True

    def __call__(
        self, *, choices: Any, unconditional_token_logprobs: Any = None, **others: Any
    ) -> ChoicesDecision:
        assert set(others) == {
            "normalized_prompt_logprobs",
            "input_token_logprobs",
            "output_token_logprobs",
        }
        assert [row[0][0] for row in unconditional_token_logprobs] == [None] * len(choices)
        return ChoicesDecision(max(choices, key=len), {"mine": len(choices)})


def test_a_method_written_for_sglang(make: Any) -> None:
    executor = make()
    with Run(executor) as run:
        s = run.state()
        s += select("a", ["x", "yz"], choices_method=Longest())
    assert executor.calls[0].unconditional
    assert (s["a"], s.get_meta_info("a")["mine"]) == ("yz", 2)
    with pytest.warns(UserWarning, match="temperature=0.5 has no effect"):
        select("a", ["x", "yz"], 0.5, choices_method=Longest())

    class Wrong:
        requires_unconditional_logprobs = False

        def __call__(self, **given: Any) -> ChoicesDecision:
            return ChoicesDecision("w")

    with pytest.raises(ProgramError, match="'w', which is no choice"), Run(executor) as run:
        s = run.state()
        s += select("a", ["x", "yz"], choices_method=Wrong())


@pytest.mark.parametrize("values", [np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])], ids=type)
def test_values_of_numpy_and_torch_are_numbers(fake: Any, values: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        s += select("a", ["x", "y"], torch.tensor(0.0), choices_method=lambda choices: values)
    assert s["a"] == "y"
    scores = s.get_meta_info("a")["scores"]
    assert scores == (1.0, 2.0)
    assert {type(score) for score in scores} == {float}


class Incomparable:
    """A choices_method, as an object of a library may be."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, choices: Any) -> list[float]:
        return [1.0 for _ in choices]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")


def test_a_method_that_cannot_be_compared_does_not_hang_the_program(make: Any) -> None:
    with Run(make()) as run:
        s = run.state()
        s += select("a", ["x"], choices_method=Incomparable())
    assert s["a"] == "x"


def test_choices_that_are_none() -> None:
    with pytest.raises(OptionError, match="choices=None is no list"):
        select("a", None)  # type: ignore[arg-type]
