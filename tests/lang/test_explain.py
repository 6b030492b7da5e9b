"""What programs are told to take before they run, against what they took."""

from __future__ import annotations

import re
import xml.dom.minidom
from typing import Any

import pytest

import sgnb as sgl
from sgnb.errors import OptionError, TraceError
from sgnb.lang import function

from . import test_zoo as zoo
from .bounded import explain
from .fake import FakeExecutor
from .test_bounds import LONG
from .test_graph_zoo import NOT_TRACED

engine = zoo.engine  # the fixture


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in zoo.ZOO if name != "async"])
def test_a_program_takes_what_was_told(name: str, engine: Any) -> None:
    """As far as no answer stands in its prompts to the token, and never more."""
    found = list(explain(name, engine))
    assert found
    for explanation in found:
        assert explanation.usage is not None
        for call, took in zip(explanation.calls, explanation.usage, strict=True):
            if call.begins == 0:
                assert took is not None
                assert took.prompt_tokens == call.prompt_tokens
                assert took.hit_tokens == call.hit_tokens
        total = explanation.totals
        assert (explanation.bound is None) == bool(explanation.note) == (name in NOT_TRACED)
        assert explanation.bound is None or total["slots_took"] <= total["slots"]
        for figure in ("prompt", "hits", "new"):
            assert total[f"{figure}_took"] <= total[figure]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
        for name in zoo.ZOO
        if name not in NOT_TRACED
    ],
)
def test_hits_of_answers_that_go_on_to_their_limits(name: str, engine: Any) -> None:
    """One token beside what was told where an answer was tokenized anew."""
    for explanation in explain(name, engine, limits=True):
        for call, took in zip(explanation.calls, explanation.usage or (), strict=True):
            assert took is not None
            assert abs(took.hit_tokens - call.hit_tokens) <= 1
            assert took.new_tokens == call.new_tokens
            assert abs(took.forced_tokens - call.forced_tokens) <= 1
        total = explanation.totals
        waits = total["requests"]  # for each other, a step where prompts begin to differ
        assert total["passes"] <= total["passes_took"] <= total["passes"] + waits


@function
def program(s: Any, text: str) -> None:
    s += f"<b>{text}" + sgl.gen("a", max_tokens=9)
    forks = s.fork(2)
    forks[0] += "x" + sgl.gen("<i>", max_tokens=5)
    forks[1] += "y" + sgl.gen("c", max_tokens=2)
    forks.join()
    s += sgl.gen("d", regex="(yes|no)!!!!!!", max_tokens=20)


def test_the_longest_chain(engine: Any) -> None:
    explanation = program.compile().explain("one")
    assert [(call.name, call.begins, call.passes) for call in explanation.calls] == [
        ("a", 0, 9),
        ("<i>", 9, 5),
        ("c", 9, 2),
        ("d", 14, explanation.calls[3].passes),
    ]
    assert [call.name for call in explanation.calls if call.critical] == ["a", "<i>", "d"]
    assert explanation.totals["passes"] == 14 + explanation.calls[3].passes
    assert explanation.calls[3].forced_tokens > 0


def test_what_the_cache_has_now(engine: Any) -> None:
    engine.flush_cache()
    compiled = program.compile()
    assert compiled.explain("two").calls[0].hit_tokens == 0
    compiled.run("two").sync()
    first = compiled.explain("two").calls[0]
    assert first.hit_tokens == first.prompt_tokens - 1


def test_a_row_of_a_batch_has_its_own_figures(engine: Any) -> None:
    engine.flush_cache()
    compiled = program.compile()
    texts = ["five", "six and a half"]
    before = [compiled.explain(text) for text in texts]
    states = compiled.run_batch([(text,) for text in texts])
    for one, state in zip(before, states, strict=True):
        after = one.after(state)
        assert after.totals["requests"] == 4 == sum(took is not None for took in after.usage or ())
        assert after.rows[0]["prompt took"] == after.rows[0]["prompt"]


def test_as_text_data_and_picture(engine: Any) -> None:
    before = program.explain("three", temperature=0)
    after = before.after(program.run("three", temperature=0))
    assert list(before.rows[0]) == [
        "call", "line", "requests", "prompt", "hits", "new", "forced", "passes",
    ]  # fmt: skip
    assert 1 <= after.rows[0]["new took"] <= before.rows[0]["new"] == 9
    assert re.search(r"of the KV cache at one time: at most \d+ slots$", str(before))
    assert re.search(r"at most \d+ \(took \d+\) slots$", str(after))
    for one in (before, after):
        shown = one._repr_mimebundle_()
        assert shown["text/plain"] == str(one)
        picture = xml.dom.minidom.parseString(shown["image/svg+xml"])
        names = [text.firstChild.data for text in picture.getElementsByTagName("text")]
        assert names == ["a", "<i>", "c", "d"]


def test_what_is_no_state_is_refused(engine: Any) -> None:
    with pytest.raises(OptionError, match="after\\(None\\): this is no state"):
        program.explain("three").after(None)  # type: ignore[arg-type]


def test_without_a_graph_code_ends_where_a_stand_in_ends_it(engine: Any) -> None:
    @function
    def counting(s: Any) -> None:
        s += "A number:" + sgl.gen("n", max_tokens=3)
        s += "x" * int(s["n"]) + sgl.gen("more", max_tokens=3)

    explanation = counting.explain()
    assert [call.name for call in explanation.calls] == ["n"]
    assert "int() of s['n']" in explanation.note
    assert "its code ended on a stand-in: ValueError" in explanation.note


def test_an_executor_without_dry_runs_explains_graphs_alone() -> None:
    def measuring(s: Any) -> None:
        s += "A" + sgl.gen("a", max_tokens=3)
        s += "B" * len(s["a"])

    assert program.explain("four", backend=FakeExecutor()).totals["calls"] == 4
    with pytest.raises(TraceError, match="len"):
        function(measuring).explain(backend=FakeExecutor())
