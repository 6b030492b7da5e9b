"""Prefill and decode in two engines of a fleet: equal answers, and calls survive both engines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.fleet import prefill_pool
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.errors import EngineError, OptionError
from sgnb.events import FleetScaled, WorkerJoined, WorkerLost

from .fleets import events, one_thread
from .remote.conftest import wait_until

__all__ = ["one_thread"]

TOPICS = [{"topic": topic} for topic in ("cat", "house")]


@pytest.fixture
def fleet() -> Iterator[FleetExecutor]:
    with FleetExecutor.load("tiny", replicas=1, prefill=1, on="threads") as fleet:
        yield fleet


@sgl.function
def story(s: Any, topic: str) -> None:
    s += f"Once there was a {topic}. " * 50
    s += "It was" + sgl.gen("first", max_tokens=9, temperature=0)
    forks = s.fork(2)
    for number, fork in enumerate(forks):
        fork += f"Part {number}:" + sgl.gen("part", max_tokens=6, temperature=0)
    forks.join()
    s += sgl.select("end", choices=["good", "bad"])


@sgl.function
def choice(s: Any) -> None:
    s += "A choice between the house and the tree. " * 40
    s += sgl.select("end", choices=["house", "tree"])


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + "A tale of a house and a tree. " * 36
    s += sgl.gen("text", max_tokens=40, temperature=0.8, ignore_eos=True)


def engines(fleet: FleetExecutor) -> tuple[Any, Any]:
    """Return the engine that computes prompts, and the engine that decodes."""
    (prefill,) = fleet._dispatcher.prefills.executors
    return prefill.engine, fleet._executors[0].engine


def check_idle(fleet: FleetExecutor) -> None:
    """Check the absence of calls, and the number of slots of each engine."""
    done = threading.Event()
    fleet._commands.put(done.set)
    assert done.wait(20)
    assert not fleet._dispatcher._groups
    for executor in [*fleet._open().values(), *fleet._dispatcher.prefills.executors]:
        stats = executor.engine.stats()
        assert stats["free"] + stats["cached"] == executor.engine.pool_tokens


def test_programs_give_the_results_of_one_engine(fleet: FleetExecutor) -> None:
    states = story.run_batch(TOPICS, backend=fleet)
    with sgl.Engine("tiny") as engine:
        alone = story.run_batch(TOPICS, backend=engine)
        work = engine.stats()["computed_tokens"]
    assert [state.text() for state in states] == [state.text() for state in alone]
    prefill, decode = (each.stats() for each in engines(fleet))
    assert prefill["requests"] == len(TOPICS)
    assert prefill["computed_tokens"] > 0.7 * work
    assert decode["computed_tokens"] < 0.3 * work
    assert choice.run(backend=fleet)["end"] in ("house", "tree")
    assert engines(fleet)[0].stats()["requests"] == len(TOPICS) + 1
    check_idle(fleet)


def test_without_a_handover_the_worker_computes(
    fleet: FleetExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill, decode = engines(fleet)

    def fail(prefix: Any) -> int:
        raise EngineError("no memory")

    monkeypatch.setattr(decode, "adopt_prefix", fail)
    assert tale.run(0, backend=fleet)["text"]
    assert prefill.stats()["requests"] == 1
    prefill.close()
    assert tale.run(1, backend=fleet)["text"]
    assert decode.stats()["computed_tokens"] > 600
    check_idle(fleet)


def slow_prefill(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold all handovers. Returns the events of the beginning and of the release."""
    began, release, hand_over = threading.Event(), threading.Event(), prefill_pool._hand_over

    def wait(*arguments: Any) -> None:
        began.set()
        assert release.wait(20)
        hand_over(*arguments)

    monkeypatch.setattr(prefill_pool, "_hand_over", wait)
    return began, release


@pytest.mark.parametrize("stage", ["handover", "decode"])
def test_calls_survive_the_worker(
    fleet: FleetExecutor, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The engine that computes prompts becomes a worker."""
    with sgl.Engine("tiny") as engine:
        expected = [tale.run(number, backend=engine, seed=7)["text"] for number in range(2)]
    began, release = slow_prefill(monkeypatch)
    _, decode = engines(fleet)
    states = [tale.run(number, backend=fleet, seed=7, stream=True) for number in range(2)]
    assert began.wait(20)
    if stage == "decode":
        release.set()
        for state in states:
            next(state.text_iter("text"))
    decode.close()
    release.set()
    assert [state["text"] for state in states] == expected
    assert len(events(fleet, WorkerLost)) == 1
    assert [event.worker for event in events(fleet, WorkerJoined)] == [0, 1]
    check_idle(fleet)


def test_calls_survive_the_engine_of_the_prompts(
    fleet: FleetExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, release = slow_prefill(monkeypatch)
    prefill, _ = engines(fleet)
    states = [tale.run(number, backend=fleet) for number in range(3)]
    assert began.wait(20)
    prefill.close()
    release.set()
    assert all(state["text"] for state in states)
    assert not events(fleet, WorkerLost)
    check_idle(fleet)


def test_an_engine_of_the_prompts_is_replaced(fleet: FleetExecutor) -> None:
    prefill, decode = engines(fleet)
    prefill.close()
    assert tale.run(0, backend=fleet)["text"]
    wait_until(lambda: fleet._dispatcher.prefills.executors)
    assert [(event.worker, event.change) for event in events(fleet, FleetScaled)] == [(1, "start")]
    assert fleet.state == "1 worker"
    replacement, same = engines(fleet)
    assert replacement is not prefill and same is decode
    assert tale.run(1, backend=fleet)["text"]
    assert replacement.stats()["requests"] == 1
    check_idle(fleet)


def test_an_engine_that_became_a_worker_is_replaced(fleet: FleetExecutor) -> None:
    """The fleet has a worker and an engine for prompts again, on the places of the first two."""
    for _ in range(2):
        (prefill,) = fleet._dispatcher.prefills.executors
        (worker,) = fleet._dispatcher.workers.values()
        worker.executor.engine.close()
        assert tale.run(0, backend=fleet)["text"]
        (promoted,) = fleet._dispatcher.workers.values()
        assert promoted.executor is prefill
        wait_until(lambda: fleet._dispatcher.prefills.executors)
        assert {promoted.number, *fleet._dispatcher.prefills.numbers} == {0, 1}
    computed = tale.run(2, backend=fleet)
    assert computed["text"]
    assert fleet._dispatcher.prefills.executors[0].engine.stats()["requests"] == 1
    check_idle(fleet)


def test_a_stopped_call_ends_its_prefill(fleet: FleetExecutor) -> None:
    prefill, decode = engines(fleet)
    resume = threading.Event()
    prefill.before_next_step(lambda: resume.wait(20))
    state = tale.run(0, backend=fleet)
    wait_until(lambda: any(g.routed.sent for g in list(fleet._dispatcher._groups.values())))
    state.cancel()
    resume.set()
    assert state["text"] == ""
    assert isinstance(state.error(), sgl.errors.Aborted)
    check_idle(fleet)
    assert decode.stats()["requests"] == 0


def test_a_close_ends_calls_in_the_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    began, release = slow_prefill(monkeypatch)
    with FleetExecutor.load("tiny", replicas=1, prefill=1, on="threads") as fleet:
        state = tale.run(0, backend=fleet)
        assert began.wait(20)
    with pytest.raises(EngineError, match="the fleet is closed"):
        state["text"]
    release.set()


@pytest.mark.parametrize("value", [-1, True, "1"])
def test_bad_numbers_are_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="prefill"):
        FleetExecutor.load("tiny", prefill=value)


def test_engines_without_a_handover_are_refused() -> None:
    with pytest.raises(OptionError, match=r"cannot compute .* prefix_cache is off"):
        FleetExecutor.load("tiny", replicas=1, prefill=1, on="threads", prefix_cache=False)


def test_ray_is_refused() -> None:
    with pytest.raises(OptionError, match="not allowed with on='ray'"):
        FleetExecutor.load("tiny", prefill=1, on="ray")


@pytest.mark.slow
def test_engines_in_processes_hand_over(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_HOSTS", str(tmp_path))
    options = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}
    with FleetExecutor.load("tiny", replicas=1, prefill=1, **options) as fleet:
        states = story.run_batch(TOPICS, backend=fleet)
        prefill, decode = (each.stats() for each in engines(fleet))
        assert decode["computed_tokens"] < 0.3 * prefill["computed_tokens"]
        check_idle(fleet)
    with sgl.Engine("tiny", **options) as engine:
        alone = story.run_batch(TOPICS, backend=engine)
    assert [state.text() for state in states] == [state.text() for state in alone]
