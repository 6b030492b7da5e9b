"""Workers that start and end while programs run, with engines in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends.any_engine import AnyEngine
from sgnb.backends.fleet import dispatcher, scaling, worker_supply
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.scaling import Scaler
from sgnb.backends.fleet.worker_source import LocalSource, Scaling
from sgnb.backends.fleet.worker_supply import WorkerSupply
from sgnb.backends.local import LocalExecutor
from sgnb.errors import EngineError, OptionError
from sgnb.events import CallRouted, FleetScaled, WorkerJoined, WorkerLost

from .fleets import events
from .remote.conftest import wait_until

OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 4096}


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=20, temperature=0, ignore_eos=True)


ROWS = [{"number": number} for number in range(30)]


def changes(fleet: FleetExecutor) -> list[tuple[int, str]]:
    return [(event.worker, event.change) for event in events(fleet, FleetScaled)]


def supply_of(fleet: FleetExecutor) -> WorkerSupply:
    supply = fleet._dispatcher._supply
    assert supply is not None
    return supply


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short wait starts a worker at once, and a short pause ends it."""
    for module in (dispatcher, worker_supply):
        monkeypatch.setattr(module, "SCALING_SECONDS", 0.02)
    monkeypatch.setattr(scaling, "WAIT_SECONDS", 1e-4)
    monkeypatch.setattr(scaling, "CATCH_UP_SECONDS", 1e-4)
    monkeypatch.setattr(scaling, "IDLE_SECONDS", 0.2)


class ListedSource:
    """Starts of engines by given functions; a LocalSource for the rest."""

    def __init__(self, *starts: Callable[[], AnyEngine]) -> None:
        self._starts = list(starts)
        self.local = LocalSource("tiny", OPTIONS, "threads")

    def start(self, worker: int) -> AnyEngine:
        return self._starts.pop(0)() if self._starts else self.local.start(worker)

    def stop(self, engine: AnyEngine) -> None:
        self.local.stop(engine)

    def close(self) -> None:
        self.local.close()


class InterruptedEngine:
    """An engine whose end is interrupted."""

    closed = False

    def close(self) -> None:
        self.closed = True
        raise KeyboardInterrupt


def test_an_interrupted_close_ends_all_engines() -> None:
    engines: list[Any] = [InterruptedEngine() for _ in range(4)]
    source = LocalSource("tiny", OPTIONS, "threads")
    source._engines.update(engines)
    with pytest.raises(KeyboardInterrupt):
        source.close()
    assert all(engine.closed for engine in engines)


def refuse() -> AnyEngine:
    raise EngineError("no memory is left")


def opened(least: int, most: int, source: ListedSource) -> FleetExecutor:
    engines = [source.local.start(worker) for worker in range(least)]
    return FleetExecutor(engines, Scaling(source, Scaler(least, most)))


@pytest.mark.usefixtures("soon")
def test_a_fleet_grows_and_shrinks() -> None:
    with FleetExecutor.load("tiny", replicas=(1, 2), on="threads", **OPTIONS) as fleet:
        assert fleet.state == "1 worker of 1 to 2"
        supply_of(fleet).scaler._start_seconds = 0.0
        states = tale.run_batch(ROWS, backend=fleet)
        alone = tale.run_batch(ROWS, backend=fleet.any_engine)
        assert [state["text"] for state in states] == [state["text"] for state in alone]
        wait_until(lambda: (1, "stop") in changes(fleet) or (0, "stop") in changes(fleet))
        (_, start), *_, (stopped, _) = changes(fleet)
        assert start == "start"
        assert "an expected wait of" in events(fleet, FleetScaled)[0].reason
        (lost,) = events(fleet, WorkerLost)
        assert (lost.worker, lost.reason) == (stopped, "not needed")
        wait_until(lambda: fleet._executors[stopped].engine.closed)
        assert len(fleet.stats()) == 1
        assert tale.run(0, backend=fleet)["text"] == alone[0]["text"]
        assert fleet.encode([]) is not None


@pytest.mark.usefixtures("soon")
def test_a_failed_start_is_reported_once_and_loses_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ListedSource(refuse, refuse)
    with caplog.at_level(logging.WARNING), opened(1, 2, source) as fleet:
        states = tale.run_batch(ROWS, backend=fleet)
        wait_until(lambda: (1, "fail") in changes(fleet))
        assert all(state["text"] for state in states)
        supply_of(fleet).failed(1, "no memory is left")
        assert changes(fleet).count((1, "fail")) == 1
        assert caplog.text.count("worker 1 of the fleet failed: no memory is left") == 1
    source.close()


def test_a_worker_that_ends_while_it_returns_is_replaced() -> None:
    def ended() -> AnyEngine:
        engine = sgl.Engine("tiny", **OPTIONS)
        engine.close()
        return engine

    source = ListedSource(ended)
    with opened(2, 2, source) as fleet:
        tale.run_batch(ROWS, backend=fleet)
        fleet._executors[0].engine.close()
        assert tale.run(1, backend=fleet)["text"]
        wait_until(lambda: len(events(fleet, WorkerJoined)) == 3)
        assert changes(fleet) == [(0, "start"), (0, "fail"), (0, "start")]
        assert not fleet._executors[0].engine.closed
        before = len(events(fleet, CallRouted))
        tale.run_batch(ROWS, backend=fleet)
        assert {event.worker for event in events(fleet, CallRouted)[before:]} == {0, 1}
    source.close()


def test_a_fixed_fleet_replaces_an_ended_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without calls too. Calls continue on the other worker during the start."""
    monkeypatch.setattr(dispatcher, "WATCH_SECONDS", 0.02)
    start, resume = LocalSource.start, threading.Event()
    with FleetExecutor.load("tiny", replicas=2, on="threads", **OPTIONS) as fleet:
        tale.run_batch(ROWS, backend=fleet)
        monkeypatch.setattr(LocalSource, "start", lambda *args: resume.wait(20) and start(*args))
        fleet._executors[0].engine.close()
        wait_until(lambda: changes(fleet) == [(0, "start")])
        assert (fleet.state, fleet.closed) == ("1 worker, 1 starting", False)
        assert tale.run(1, backend=fleet)["text"]
        assert events(fleet, CallRouted)[-1].worker == 1
        resume.set()
        wait_until(lambda: fleet.state == "2 workers")
        before = len(events(fleet, CallRouted))
        tale.run_batch(ROWS, backend=fleet)
        assert {event.worker for event in events(fleet, CallRouted)[before:]} == {0, 1}


def test_a_worker_that_ends_again_and_again_is_given_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scaling, worker_supply):
        monkeypatch.setattr(module, "MAX_ENDS", 2)
    source = ListedSource()
    with caplog.at_level(logging.WARNING), opened(1, 1, source) as fleet:
        for number in range(scaling.MAX_ENDS):
            assert tale.run(number, backend=fleet)["text"]
            fleet._executors[0].engine.close()
        with pytest.raises(EngineError, match="0: ended 2 times within 10 minutes and is given up"):
            tale.run(1, backend=fleet)["text"]
        assert changes(fleet) == [(0, "start")] * (scaling.MAX_ENDS - 1) + [(0, "fail")]
        assert (fleet.state, fleet.closed) == ("0 workers, 1 given up", True)
        assert caplog.text.count("worker 0 of the fleet failed") == 1
    source.close()


def test_a_call_that_ends_its_workers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet goes on."""
    monkeypatch.setattr(dispatcher, "MAX_LOSSES", 3)
    source = ListedSource()
    with opened(2, 2, source) as fleet:
        generate = LocalExecutor.generate

        def end(executor: LocalExecutor, call: Any, sink: Any) -> Any:
            if call.run == state.run_id:
                executor.engine.close()
            return generate(executor, call, sink)

        gate = threading.Event()
        fleet._commands.put(lambda: gate.wait(20) and None)
        state = tale.run(0, backend=fleet)
        monkeypatch.setattr(LocalExecutor, "generate", end)
        gate.set()
        with pytest.raises(EngineError, match="3 workers ended during the call; worker"):
            state["text"]
        assert tale.run(1, backend=fleet)["text"]
        assert len(events(fleet, WorkerLost)) == 3
    source.close()


def test_without_a_worker_the_error_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "MAX_PAUSE_SECONDS", 0.1)
    source = ListedSource(refuse, refuse, refuse)
    with opened(1, 1, source) as fleet:
        assert tale.run(1, backend=fleet)["text"]
        fleet._executors[0].engine.close()
        with pytest.raises(EngineError, match="have ended; worker 0: no memory is left"):
            tale.run(1, backend=fleet)["text"]
        wait_until(lambda: len(events(fleet, WorkerJoined)) == 2)
        assert tale.run(1, backend=fleet)["text"]
    source.close()


@pytest.mark.usefixtures("soon")
def test_a_pinned_worker_stays() -> None:
    def pinned() -> AnyEngine:
        engine = sgl.Engine("tiny", **OPTIONS)
        engine.generate("A pinned prompt", max_new_tokens=1)
        engine.pin("A pinned prompt")
        return engine

    first, source = pinned(), ListedSource(pinned)
    with first, FleetExecutor([first], Scaling(source, Scaler(1, 2))) as fleet:
        tale.run_batch(ROWS, backend=fleet)
        wait_until(lambda: len(fleet._executors) == 2)
        joined, supply = fleet.log.now(), supply_of(fleet)
        wait_until(lambda: supply._scaled_at > joined + 3 * scaling.IDLE_SECONDS)
        assert "stop" not in {change for _, change in changes(fleet)}
        fleet._executors[1].engine.unpin()
        wait_until(lambda: (1, "stop") in changes(fleet))
        assert not first.closed
    source.close()


def test_a_start_that_ends_after_the_fleet_leaves_no_engine() -> None:
    resume, made = threading.Event(), []
    source = LocalSource("tiny", OPTIONS, "threads")

    def start() -> None:
        resume.wait(20)
        with pytest.raises(EngineError, match="the fleet is closed"):
            source.start(1)
        made.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    source.close()
    resume.set()
    thread.join(60)
    assert made and not source._engines


def test_bounds_are_checked() -> None:
    for replicas in ((0, 2), (3, 2), (1, 2, 3), (1, True), (1.0, 2)):
        with pytest.raises(OptionError, match="replicas"):
            FleetExecutor.load("tiny", replicas=replicas)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="prefill=1 needs a fixed number of workers"):
        FleetExecutor.load("tiny", replicas=(1, 2), prefill=1)
