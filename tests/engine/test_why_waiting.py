"""Reasons of waiting requests: one test per reason."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.engine import Engine
from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import Origin
from sgnb.events import RequestWaits, Wait, WaitReason
from sgnb.grammar.compiler import TokenGrammar
from sgnb.sampling import SamplingParams

from .test_scheduler import Simulation


def reported(sim: Simulation, request: Request) -> list[tuple[str, int, int]]:
    return [
        (event.reason, event.needed, event.available)
        for event in sim.events
        if isinstance(event, RequestWaits) and event.request == request.id
    ]


def test_a_new_request_waits_for_the_next_step() -> None:
    sim = Simulation(100)
    request = sim.add([1, 2])
    assert sim.scheduler.why_waiting(request) == Wait(WaitReason.NEXT_STEP)
    sim.step()
    assert sim.scheduler.why_waiting(request) is None and reported(sim, request) == []


def test_step_budget() -> None:
    sim = Simulation(100, max_step_tokens=8)
    sim.add([1] * 20, 4)
    second = sim.add([2] * 4, 4)
    sim.step()
    wait = sim.scheduler.why_waiting(second)
    assert wait == Wait(WaitReason.STEP_BUDGET, 1, 8)
    assert str(wait) == "running requests use all 8 tokens of a step"
    sim.step()
    assert reported(sim, second) == [("step_budget", 1, 8)]  # once


def test_running_limit() -> None:
    sim = Simulation(100, max_running=1)
    sim.add([1] * 4, 4)
    second = sim.add([2] * 4, 4)
    sim.step()
    wait = sim.scheduler.why_waiting(second)
    assert wait == Wait(WaitReason.RUNNING_LIMIT, 2, 1)
    assert str(wait) == "2 requests would run, and the limit is 1"
    for _ in sim.run():
        pass
    assert reported(sim, second) == [("running_limit", 2, 1)]
    assert sim.scheduler.why_waiting(second) is None


def test_memory() -> None:
    sim = Simulation(20)
    sim.add([1] * 12, 4)
    second = sim.add([2] * 10, 4)
    third = sim.add([3], 1)
    sim.step()
    for request in (second, third):  # the third request waits behind the second
        wait = sim.scheduler.why_waiting(request)
        assert wait is not None and wait.reason == WaitReason.MEMORY
        assert wait.needed >= 10 and wait.available <= 8
        assert f"{wait.needed} tokens of KV cache must be free" in str(wait)
    assert [reason for reason, *_ in reported(sim, second)] == ["memory"]
    sim.step()
    assert sim.scheduler.why_waiting(second) is not None


def test_recurrent_states() -> None:
    sim = Simulation(200, states=SlotAllocator(3))
    requests = [sim.add([first] * 40, 30) for first in range(1, 5)]
    sim.step()
    waits = [sim.scheduler.why_waiting(request) for request in requests]
    [wait] = {wait for wait in waits if wait is not None}
    assert wait.reason == WaitReason.STATES and wait.needed > wait.available
    assert "recurrent states must be free" in str(wait)


def test_another_request_computes_the_same_prefix() -> None:
    sim = Simulation(100)
    prompt = [1, 2, 3, 4, 5, 6]
    sim.add(prompt, 4)
    second = sim.add([*prompt, 7], 4)
    sim.step()
    wait = sim.scheduler.why_waiting(second)
    assert wait == Wait(WaitReason.SAME_PREFIX)
    assert "the same prompt prefix" in str(wait)
    sim.step()
    assert sim.scheduler.why_waiting(second) is None


def test_a_compiling_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar: Future[TokenGrammar] = Future()
    with Engine("tiny", device="cpu") as engine:
        monkeypatch.setattr(engine._factory, "_grammar", lambda params: grammar)
        origin = Origin(run="r", branch="0.1", name="x")
        params = SamplingParams(regex="a", max_new_tokens=4)
        [id] = engine.submit(["Say"], [params], [lambda output: None], origins=[origin])
        [waiting] = engine.why_waiting("r", "0")
        assert engine.why_waiting("r", "1") == engine.why_waiting("s", "0") == []
        assert (waiting.request, waiting.branch) == (id, "0.1")
        assert waiting.wait == Wait(WaitReason.GRAMMAR)
        assert str(waiting) == f"request {id} (x): the grammar is compiling"
        engine.abort(id)
        assert engine.why_waiting("r", "0") == []
        events = [record.event for record in engine.log.read().records]
    assert RequestWaits(id, "grammar", 0, 0) in events
