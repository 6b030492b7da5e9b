"""Requests of a paused run stop after each token; other requests go on; results never change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.engine.request.request_state import Origin
from sgnb.events import Alternatives, RequestWaits, StepRan
from sgnb.sampling import SamplingParams

PROMPT = "Once upon a time"


@pytest.fixture(scope="module", params=[False, True], ids=["in turn", "overlap"])
def engine(request: Any) -> Iterator[Engine]:
    with Engine("tiny", max_total_tokens=4096, overlap=request.param) as engine:
        yield engine


class Asked:
    """A request of a run, and the outputs so far."""

    def __init__(self, engine: Engine, run: str, **sampling: Any) -> None:
        self.outputs: list[Any] = []
        params = SamplingParams.make({"max_new_tokens": 6, "temperature": 0} | sampling)
        origin = Origin(run, "0", "a")
        [self.id] = engine.submit(
            [PROMPT], [params], [self.outputs.append], stream=True, origins=[origin]
        )

    @property
    def done(self) -> bool:
        return bool(self.outputs) and self.outputs[-1].finish_reason is not None


def until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def tokens(engine: Engine, request: int) -> int:
    """Number of sampled tokens in the log."""
    rows = (r.event.sampled for r in engine.log.read().records if isinstance(r.event, StepRan))
    return sum(row[0] == request for table in rows for row in table)


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"temperature": 1.0, "seed": 5},
        {"regex": r" (there|in)[a-z ]{1,20}\."},
        {"stop": "zebra"},
    ],
)
def test_steps_give_the_text_of_a_run_without_stops(
    engine: Engine, sampling: dict[str, Any]
) -> None:
    plain = Asked(engine, "plain", **sampling)
    until(lambda: plain.done)
    engine.token_stepper.pause("r1")
    asked = Asked(engine, "r1", **sampling)
    after = engine.log.last
    for count in range(1, 100):
        until(lambda: asked.done or engine.token_stepper.stopped_branches("r1") == {"0"})
        if asked.done:
            break
        assert tokens(engine, asked.id) == count
        time.sleep(0.01)
        assert tokens(engine, asked.id) == count, "the request went on by itself"
        assert [w.wait.reason for w in engine.why_waiting("r1", "0")] == ["paused"]
        assert engine.token_stepper.step("r1") == 1
    assert asked.outputs[-1].text == plain.outputs[-1].text
    assert asked.outputs[-1].token_ids == plain.outputs[-1].token_ids
    assert engine.token_stepper.stopped_branches("r1") == set()
    records = [r.event for r in engine.log.read(after).records]
    waits = [e for e in records if isinstance(e, RequestWaits) and e.request == asked.id]
    assert {"paused"} == {e.reason for e in waits} - {"grammar"}
    assert any(isinstance(e, Alternatives) and e.request == asked.id for e in records)
    stats = engine.stats()
    assert stats["free"] + stats["cached"] == stats["pool_tokens"] and not stats["in_flight"]


def test_a_running_request_stops_and_others_go_on(engine: Engine) -> None:
    long = Asked(engine, "r2", max_new_tokens=150, ignore_eos=True)
    until(lambda: len(long.outputs) > 3)
    engine.token_stepper.pause("r2")
    assert engine.token_stepper.stopped_branches("r2") == {"0"}
    count = tokens(engine, long.id)
    other = Asked(engine, "r3", max_new_tokens=20, ignore_eos=True)
    until(lambda: other.done)
    assert tokens(engine, long.id) == count
    assert engine.token_stepper.step("r2") == 1
    until(lambda: tokens(engine, long.id) == count + 1)
    assert engine.token_stepper.resume("r2") == 1
    until(lambda: long.done)
    plain = Asked(engine, "plain", max_new_tokens=150, ignore_eos=True)
    until(lambda: plain.done)
    assert plain.outputs[-1].token_ids == long.outputs[-1].token_ids


@pytest.mark.slow
def test_a_paused_request_takes_no_place_of_others() -> None:
    with Engine("tiny", max_total_tokens=256, max_running_requests=1) as engine:
        engine.token_stepper.pause("r1")
        paused = Asked(engine, "r1", max_new_tokens=200, ignore_eos=True)
        until(lambda: engine.token_stepper.stopped_branches("r1") == {"0"})
        other = Asked(engine, "r2", max_new_tokens=200, ignore_eos=True)
        until(lambda: other.done)
        assert other.outputs[-1].finish_reason == "length"
        engine.token_stepper.resume("r1")
        until(lambda: paused.done)
        assert paused.outputs[-1].finish_reason == "length"


def test_a_stop_below_a_probability(engine: Engine) -> None:
    plain = Asked(engine, "plain", return_logprob=True, max_new_tokens=40, ignore_eos=True)
    until(lambda: plain.done)
    logprobs = [pair[0] for pair in plain.outputs[-1].meta_info["output_token_logprobs"]]
    below = 0.3
    unlikely = [i + 1 for i, value in enumerate(logprobs) if value < -1.2039]
    assert 0 < len(unlikely) < 39
    engine.token_stepper.pause("r4", below)
    asked = Asked(engine, "r4", max_new_tokens=40, ignore_eos=True)
    stops = []
    while True:
        until(lambda: asked.done or engine.token_stepper.stopped_branches("r4"))
        if asked.done:
            break
        stops.append(tokens(engine, asked.id))
        engine.token_stepper.step("r4")
    assert stops == [place for place in unlikely if place < 40]


def test_a_paused_request_ends_with_an_abort_and_with_the_engine() -> None:
    engine = Engine("tiny")
    engine.token_stepper.pause("r1")
    aborted, closed = Asked(engine, "r1"), Asked(engine, "r1")
    until(lambda: len(engine.token_stepper.stopped_branches("r1")) == 1)
    until(lambda: len(engine.why_waiting("r1", "0")) == 2)
    engine.abort([aborted.id])
    until(lambda: aborted.done)
    assert aborted.outputs[-1].finish_reason == "abort"
    engine.close()
    assert closed.done


def test_a_resume_during_the_work_of_the_grammar_is_kept() -> None:
    """The stop that was due after the work is forgotten."""
    with Engine("tiny", max_total_tokens=4096) as engine:
        gate = engine._loop.token_gate
        engine.token_stepper.pause("run")
        asked = Asked(engine, "run", regex=r" (there|in)[a-z ]{1,20}\.")
        until(lambda: engine.token_stepper.stopped_branches("run"))

        def resume_while_due() -> None:
            gate.step("run")
            gate._due.add(asked.id)  # as after a token whose mask is being computed
            gate.resume("run")
            assert not gate._due

        engine._loop.call(resume_while_due)
        until(lambda: asked.done)
