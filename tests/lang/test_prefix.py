"""`f.cache()`: what all runs begin with, computed ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sgnb as sgl
from sgnb.errors import TraceError
from sgnb.lang import function

from .fake import FakeExecutor

RULES = "Answer in one word. Use small letters. Say nothing else. Be kind. "


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with sgl.Engine("tiny") as engine:
        yield engine


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").flush_cache()


@function
def asks(s: Any, question: str) -> None:
    s += RULES
    s += f"Question: {question}\nAnswer:" + sgl.gen("answer", max_tokens=2)


@function
def chats(s: Any, question: str) -> None:
    s += sgl.system(RULES)
    s += sgl.user(f"Question: {question}")
    s += sgl.assistant(sgl.gen("answer", max_tokens=2))


@function
def decides(s: Any, question: str) -> None:
    s += RULES + sgl.gen("first", max_tokens=2)
    if s["first"] == "x":
        s += question
    s += sgl.gen("answer", max_tokens=2)


@function
def nothing_first(s: Any, question: str) -> None:
    s += question + RULES + sgl.gen("answer", max_tokens=2)


@function
async def awaited(s: Any, question: str) -> None:
    s += RULES + question + sgl.gen("answer")


@pytest.mark.parametrize("program", [asks, chats, decides, asks.compile()])
def test_the_first_run_finds_the_constant_prefix(program: Any, engine: Any) -> None:
    tokens = program.cache(engine)
    assert tokens > len(RULES.split())
    assert engine.stats()["cached"] == tokens
    first = "first" if program is decides else "answer"
    state = program.run("Why?", backend=engine)
    state.sync()
    assert tokens - 1 <= state.get_meta_info(first)["cached_tokens"] <= tokens


def test_bound_and_given_arguments_belong_to_it(engine: Any) -> None:
    tokens = asks.cache(engine)
    assert asks.bind(question="Why is it so?").cache(engine) > tokens + 5
    assert asks.cache(engine, question="Why is it so?") > tokens + 5


def test_the_default_backend(engine: Any) -> None:
    sgl.set_default_backend(engine)
    try:
        assert asks.cache() > 0
    finally:
        sgl.set_default_backend(None)


def test_nothing_to_compute(engine: Any, fake: FakeExecutor) -> None:
    assert nothing_first.cache(engine) == 0
    assert asks.cache(fake) == 0 and not fake.calls, "it has no cache"
    with pytest.raises(TraceError, match="async def"):
        awaited.cache(engine)


def test_a_batch_computes_it_once_without(engine: Any) -> None:
    def computed(ahead: bool) -> int:
        engine.flush_cache()
        tokens = asks.cache(engine) if ahead else 0
        states = asks.run_batch([{"question": f"{i}?"} for i in range(6)], backend=engine)
        metas = [state.get_meta_info("answer") for state in states]
        return tokens + sum(meta["prompt_tokens"] - meta["cached_tokens"] for meta in metas)

    assert computed(False) <= computed(True) <= computed(False) + 6
