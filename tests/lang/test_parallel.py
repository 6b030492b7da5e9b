"""Calls of programs go on side by side: in a loop, inside a program, in a cell."""

from __future__ import annotations

import _thread
import gc
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sgnb.events import RunFinished, RunStarted
from sgnb.lang import Run, function, gen
from sgnb.lang.core import run as run_module

NEVER = 1e6


class Boom(Exception):
    pass


@function
def tip(s: Any, about: str = "") -> str:
    s += about + gen("tip")
    return about


def fails(call: Any) -> Any:
    return Boom(call.prompt) if "bad" in call.prompt else "fine"


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert true()


def test_run_returns_when_the_code_has_run(make: Any) -> None:
    executor = make("x", delay=NEVER)
    state = tip.run("a", backend=executor)
    assert executor.running == 1 and not executor.events(RunFinished)
    executor.hurry()
    assert state["tip"] == "x" and state.ret_value == "a"
    wait_until(lambda: executor.events(RunFinished))
    assert [event.status for event in executor.events(RunFinished)] == ["done"]


def test_a_loop_of_runs(make: Any) -> None:
    executor = make("x", together=8)
    states = [tip.run(f"{i}", backend=executor) for i in range(8)]
    assert [state.text() for state in states] == [f"{i}x" for i in range(8)]
    assert executor.most_running == 8


def test_calls_inside_a_program(make: Any) -> None:
    executor = make("x", together=9)

    @function
    def essay(s: Any) -> None:
        s += "tips:" + gen("own")
        tips = [tip.run(f"{i}", backend=executor) for i in range(8)]
        s += ", ".join(one["tip"] for one in tips)

    assert essay.run(backend=executor).text() == "tips:x" + ", ".join("x" * 8)
    assert executor.most_running == 9


def test_a_block_waits_for_the_runs_inside_it(make: Any) -> None:
    executor = make("x", delay=0.1)

    @function
    def outer(s: Any) -> None:
        tip.run("a", backend=executor)

    run = outer.run(backend=executor).program.run
    run.join()
    assert not executor.running and len(executor.events(RunFinished)) == 2


def test_an_error_is_raised_by_the_first_read_and_every_other(make: Any) -> None:
    state = tip.run("bad", backend=make(fails, delay=0.05))
    for read in (
        lambda: state["tip"], lambda: state["no such name"], lambda: state.get_meta_info("tip"),
        lambda: state.ret_value, state.sync,
    ):  # fmt: skip
        with pytest.raises(Boom):
            read()
    assert state.text() == "bad" and isinstance(state.error(), Boom)


def test_an_error_of_the_code_is_what_a_batch_and_a_stream_raise(make: Any) -> None:
    @function
    def broken(s: Any, n: int) -> None:
        s += "text" + gen("a")
        if n:
            raise Boom("mine")

    executor = make("x")
    good, bad = broken.run_batch([(0,), (1,)], backend=executor)
    streamed = broken.run(1, stream=True, backend=executor)
    assert good["a"] == "x"
    for state in (bad, streamed):
        for name in ("b", "no such name"):
            with pytest.raises(Boom, match="mine"):
                state[name]


def test_an_inner_error_that_nobody_read_ends_the_cell(make: Any) -> None:
    executor = make(fails)

    @function
    def outer(s: Any, read: bool) -> None:
        inner = tip.run("bad", backend=executor)
        if read:
            assert inner.error() is not None

    outer.run(True, backend=executor).program.run.join()
    with pytest.raises(Boom):
        outer.run(False, backend=executor).program.run.join()


def test_an_error_that_nobody_reads_is_logged_once(
    make: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_watchers", [])  # who lists runs holds the last one

    def run(read: bool) -> None:
        state = tip.run("bad", backend=make(fails))
        wait_until(lambda: state.program.finished)
        if read:
            state.error()

    gc.collect()
    with caplog.at_level(logging.ERROR, "sgnb"):
        run(read=True)
        gc.collect()
        assert not logged(caplog)
        run(read=False)
        wait_until(lambda: gc.collect() >= 0 and logged(caplog))
    assert len(logged(caplog)) == 1


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Of this test: what others left is collected at any time."""
    return [one for one in caplog.records if one.exc_info and one.exc_info[0] is Boom]


def test_an_interrupt_stops_all_that_the_main_thread_began(make: Any) -> None:
    executor = make("x", delay=NEVER)
    states = [tip.run(f"{i}", backend=executor) for i in range(5)]
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(tip.run("bg", backend=executor)))
    thread.start()
    thread.join()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        states[3]["tip"]
    timer.join()
    assert executor.running == 1
    assert [event.status for event in executor.events(RunFinished)] == ["interrupted"] * 5
    executor.hurry()
    assert elsewhere[0]["tip"] == "x"


def test_an_interrupt_in_the_code_stops_the_runs_inside_it(make: Any) -> None:
    executor = make("x", delay=NEVER)

    @function
    def outer(s: Any) -> None:
        tip.run("a", backend=executor)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outer.run(backend=executor)
    assert not executor.running
    assert [event.status for event in executor.events(RunFinished)] == ["interrupted"] * 2


def test_cancelling_a_run_cancels_those_inside_it(make: Any) -> None:
    executor = make("x", delay=NEVER)

    @function
    def outer(s: Any) -> None:
        s += gen("a")
        tip.run("a", backend=executor)

    outer.run(backend=executor).program.run.cancel()
    wait_until(lambda: not executor.running)
    assert len(executor.cancelled) == 2


def test_runs_that_are_over_are_forgotten(make: Any) -> None:
    executor = make("x")

    @function
    def outer(s: Any) -> int:
        for i in range(100):
            tip.run(f"{i}", backend=executor)["tip"]
        return len(s.program.nested)

    assert outer.run(backend=executor).ret_value <= 1


def test_the_waits_of_an_inner_run_tick_the_outer_one(make: Any) -> None:
    executor, ticks = make("x", delay=NEVER), []

    def tick() -> None:
        ticks.append(1)
        executor.hurry()

    @function
    def outer(s: Any) -> None:
        s.program.run.meanwhile = tick
        tip.run("a", backend=executor)["tip"]

    outer.run(backend=executor)
    assert ticks


def test_a_program_with_several_states_ends_after_the_last(make: Any) -> None:
    executor = make("x")
    with Run(executor) as run:
        for i in range(3):
            s = run.state()
            s += f"{i}" + gen("a")
    assert len(executor.events(RunStarted)) == len(executor.events(RunFinished)) == 1


def test_threads_of_a_program_read_what_it_has_appended(make: Any) -> None:
    """They used to wait for the end of the code that waited for them."""
    executor = make("x")

    @function
    def program(s: Any) -> Any:
        group = s.fork(2)
        group += "twice " + gen("a")
        with ThreadPoolExecutor(2) as threads:
            texts = threads.map(lambda branch: branch.text(), group)
            missing = threads.submit(lambda: s["missing"])
            return list(texts), missing.exception()

    state = program.run(backend=executor, stream=True)
    state.program.wait(lambda: state.program.closed, _give_up(time.monotonic() + 5))
    texts, error = state.ret_value
    assert texts == ["twice x", "twice x"] and isinstance(error, KeyError)


def _give_up(deadline: float) -> Callable[[], None]:
    def check() -> None:
        assert time.monotonic() < deadline, "it hangs"

    return check
