"""Random programs give the text of a plain sequential interpreter, whenever and in whatever order
results arrive."""

from __future__ import annotations

import itertools
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.lang import Run, gen
from sgnb.lang.executor import Call
from sgnb.sampling import SamplingParams

from .fake import FakeExecutor, answer_by_hash

# A program is a list of steps: text, ("gen",), ("read",) of the last generation, ("fork", programs
# of the children, how they are joined).
simple_steps = st.one_of(st.text("ab<\n", max_size=3), st.just(("gen",)), st.just(("read",)))
programs = st.recursive(
    st.lists(simple_steps, max_size=5),
    lambda inner: st.lists(
        st.one_of(
            simple_steps,
            st.tuples(
                st.just("fork"),
                st.lists(inner, min_size=1, max_size=3),
                st.sampled_from(["gather_variable", "concate_and_append", None]),
            ),
        ),
        max_size=6,
    ),
    max_leaves=12,
)


def run_it(s: Any, program: list[Any], names: Any) -> None:
    last = None
    joins = []
    for step in program:
        if isinstance(step, str):
            s += step
        elif step[0] == "gen":
            last = next(names)
            s += gen(last)
        elif step[0] == "read" and last is not None:
            s += f"[{s[last]}]"
        elif step[0] == "fork":
            group = s.fork(len(step[1]))
            for child, inner in zip(group, step[1], strict=True):
                run_it(child, inner, names)
            joins.append((group, step[2]))
            if step[2]:
                group.join(step[2])


def interpret(text: str, program: list[Any], names: Any) -> str:
    last = ""
    for step in program:
        if isinstance(step, str):
            text += step
        elif step[0] == "gen":
            last = answer_by_hash(Call(text, SamplingParams(), "", "", next(names)))
            text += last
        elif step[0] == "read" and last:
            text += f"[{last}]"
        elif step[0] == "fork":
            children = [interpret(text, inner, names) for inner in step[1]]
            if step[2] == "concate_and_append":
                text += "".join(child[len(text) :] for child in children)
    return text


def names() -> Any:
    return (f"n{i}" for i in itertools.count())


@settings(max_examples=60, deadline=None)
@given(program=programs, seed=st.integers(0, 1000), slowest=st.sampled_from([0.0, 0.003]))
def test_timing_changes_nothing(program: list[Any], seed: int, slowest: float) -> None:
    wait = random.Random(seed)
    executor = FakeExecutor(delay=lambda call: wait.random() * slowest)
    try:
        with Run(executor) as run:
            s = run.state()
            run_it(s, program, names())
        assert s.text() == interpret("", program, names())
    finally:
        executor.close()
