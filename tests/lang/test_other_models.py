"""Calls that name a backend: each goes there and nowhere else, and the run's log says so."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest

from sgnb import function, gen, select
from sgnb.events import ModelAnswered, ModelAsked
from sgnb.lang import Run

from ..interrupts import interrupt_in
from .fake import FakeExecutor

NEVER = 1e6


def test_every_call_goes_to_the_model_that_it_names(make: Any) -> None:
    """Random programs: calls, choices and forks over three models."""
    for seed in range(60):
        rng = random.Random(seed)
        executors = [make(), make(), make()]
        expected: list[Counter[str]] = [Counter(), Counter(), Counter()]
        numbers = iter(range(10_000))

        def call(
            rng: random.Random = rng, executors: Any = executors, expected: Any = expected,
            numbers: Any = numbers,
        ) -> Any:  # fmt: skip
            model = rng.randrange(3)
            name = f"v{next(numbers)}"
            expected[model][name] += 1
            backend = executors[model] if model or rng.random() < 0.5 else None
            if rng.random() < 0.3:
                return select(name, ["a", "b"], backend=backend)
            return gen(name, backend=backend)

        with Run(executors[0]) as run:
            state = run.state()
            for _ in range(rng.randint(1, 4)):
                state += "text " + call()
                forks = state.fork(rng.randint(1, 3))
                for fork in forks:
                    fork += "more " + call()
                forks.join(rng.choice(["gather_variable", "concate_and_append"]))
        called = [Counter(executor.names()) for executor in executors]
        assert called == expected
        asked = executors[0].events(ModelAsked)
        assert Counter(event.name for event in asked) == called[1] + called[2]
        assert len(executors[0].events(ModelAnswered)) == len(asked)
        assert not any(one.events(ModelAsked) for one in executors[1:])
        models = {event.name: event.engine for event in asked}
        joined = [log() for log, _ in executors[0].log.joined]
        for model in (1, 2):
            assert all(joined[models[name] - 1] is executors[model].log for name in called[model])


def test_the_runs_own_backend_by_name_is_no_other_model(make: Any) -> None:
    own = make("x")
    with Run(own) as run:
        state = run.state()
        state += "A" + gen("a", backend=own) + select("b", ["c"], backend=own)
    assert own.names() == ["a", "b"] and not own.events(ModelAsked)
    assert run.others.backends == []


def test_a_batch_and_going_on_from_a_state(make: Any) -> None:
    drafter, judge = make(lambda call: f"draft {call.branch}"), make()

    @function
    def drafts(s: Any, topic: str) -> None:
        s += f"Of {topic}:" + gen("draft")
        s += " Good:" + select("good", ["yes", "no"], backend=judge)

    states = drafts.run_batch([{"topic": str(i)} for i in range(20)], backend=drafter)
    assert (len(drafter.calls), len(judge.calls)) == (20, 20)
    assert {call.prompt for call in judge.calls} == {f"Of {i}:draft {i} Good:" for i in range(20)}

    @function
    def again(s: Any) -> None:
        s += " Better:" + gen("better", backend=judge) + gen("last")

    state = again.run(backend=drafter, continue_from=states[3])
    state.sync()
    assert state["good"] == "no" and judge.calls[-1].prompt == states[3].text() + " Better:"
    assert judge.names()[-1] == "better" and drafter.names()[-1] == "last"


def test_an_interrupt_stops_the_calls_of_all_models(make: Any) -> None:
    own, other = make(delay=NEVER), make(delay=NEVER)
    with pytest.raises(KeyboardInterrupt), Run(own) as run:
        state = run.state()
        forks = state.fork(2)
        forks[0] += gen("a")
        forks[1] += gen("b", backend=other)
        while not (own.calls and other.calls):
            time.sleep(0.001)
        interrupt_in(0.05)
        forks.join()
        state["a"]
    assert run.status == "interrupted"
    assert [call.name for call in own.cancelled] == ["a"]
    assert [call.name for call in other.cancelled] == ["b"]


def test_the_error_of_one_model_is_told_and_the_other_goes_on(make: Any) -> None:
    own, other = make("x"), make(lambda call: ValueError("no such model"))
    with pytest.raises(ValueError, match="no such model") as caught, Run(own) as run:
        state = run.state()
        forks = state.fork(2)
        forks[0] += gen("a") + gen("c")
        forks[1] += gen("b", backend=other) + gen("d")
        assert forks[0]["c"] == "x"
        forks[1]["b"]
    assert "gen 'b'" in caught.value.__notes__[0]
    assert sorted(own.names()) == ["a", "c"] and run.status == "error"
    assert len(own.events(ModelAnswered)) == 1


def test_usage_is_told_as_the_backend_counts(make: Any) -> None:
    class Counting(FakeExecutor):
        model_name = "somewhere/counting"

        def generate(self, call: Any, sink: Any) -> Any:
            counts = {"prompt_tokens": 7, "completion_tokens": 3}

            def counted(message: Any) -> None:
                for meta in message.meta:
                    meta.update(counts)
                sink(message)

            return super().generate(call, counted)

    own, other = make(), Counting()
    with Run(own) as run:
        state = run.state()
        state += gen("a", n=2, backend=other)
    other.close()
    (asked,), (answered,) = own.events(ModelAsked), own.events(ModelAnswered)
    assert (asked.name, asked.number, asked.model, asked.engine) == ("a", 1, "counting", 1)
    assert (answered.prompt_tokens, answered.cached_tokens, answered.output_tokens) == (14, 0, 6)
