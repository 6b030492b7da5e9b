"""What does not wait for another in a graph is computed beside it, by the engine's steps, where the
program's code waits for one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sgnb as sgl
from sgnb.events import StepRan
from sgnb.lang import function, set_default_executor

COUNT, NEW = 8, 12


def line(name: str) -> Any:
    return sgl.gen(name, max_tokens=NEW, temperature=0, ignore_eos=True)


@function
def forks_read_in_turn(s: Any, topic: str) -> None:
    s += f"Words about {topic}."
    texts = []
    forks = s.fork(COUNT)
    for i, fork in enumerate(forks):
        fork += f"\nWord {i}:" + line("word")
        texts.append(fork["word"])
    forks.join()
    s += ",".join(texts)


@function
def sentence(s: Any, word: str) -> None:
    s += f"A sentence with {word}:" + line("sentence")


@function
def programs_read_in_turn(s: Any, topic: str) -> None:
    for i in range(COUNT):
        s += sentence.run(word=f"{topic} {i}")["sentence"]


@function
def one_needs_the_other(s: Any, topic: str) -> None:
    first, second = s.fork(2)
    first += f"About {topic}:" + line("word")
    second += first["word"] + line("more")
    s += second["more"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with sgl.Engine("tiny") as engine:
        set_default_executor(engine)
        yield engine
    set_default_executor(None)


def steps_of(program: Any, engine: Any) -> tuple[int, str]:
    """The engine's steps that a run takes, and its text."""
    engine.flush_cache()
    before = engine.log.last
    state = program.run(topic="rain")
    text = state.text()
    events = [record.event for record in engine.log.read(before).records]
    return sum(isinstance(event, StepRan) for event in events), text


@pytest.mark.slow
@pytest.mark.parametrize("program", [forks_read_in_turn, programs_read_in_turn])
def test_independent_calls_share_steps(program: Any, engine: Any) -> None:
    in_turn, expected = steps_of(program, engine)
    together, text = steps_of(program.compile(), engine)
    assert text == expected
    assert in_turn == COUNT * NEW
    # One more where the others wait for what they share with the first; and some for a slow thread.
    assert NEW <= together <= NEW + 4


def test_a_call_that_needs_another_one_waits(engine: Any) -> None:
    steps, text = steps_of(one_needs_the_other.compile(), engine)
    assert steps >= 2 * NEW - 1
    assert text == steps_of(one_needs_the_other, engine)[1]
