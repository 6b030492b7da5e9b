"""Ctrl-C: the calls of the run are cancelled, what they brought is kept, and control is back at
once."""

from __future__ import annotations

import _thread
import threading
import time
from typing import Any

import pytest

from sgnb.events import RunFinished
from sgnb.lang import Run, function, gen
from sgnb.lang import run as run_module


@function
def program(s: Any, n: int = 0) -> None:
    s += gen("a")
    s += s["a"] + gen("b")


def interrupt_soon() -> None:
    threading.Timer(0.15, _thread.interrupt_main).start()


def check(executor: Any, began: float) -> None:
    assert time.monotonic() - began < 2
    assert executor.running == 0
    assert executor.events(RunFinished)[0].status == "interrupted"


def test_a_run(make: Any) -> None:
    executor, began = make(delay=30), time.monotonic()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        program.run(backend=executor)
    check(executor, began)
    assert executor.names() == ["a"]


def test_the_partial_text_is_kept_and_the_next_run_works(make: Any) -> None:
    executor, began = make("abcdefghij" * 20, delay=0.02), time.monotonic()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), Run(executor, stream=True) as run:
        s = run.state()
        s += "> " + gen("a") + gen("never")
    check(executor, began)
    assert s.text().startswith("> ab")
    assert executor.names() == ["a"]
    executor._delay = lambda call: 0.0
    assert program.run(backend=executor)["b"].startswith("abc")


def test_waits_of_the_main_thread_call_meanwhile_and_no_others(make: Any) -> None:
    executor, threads = make(delay=0.25), []

    def note() -> None:
        threads.append(threading.current_thread())

    def elsewhere(s: Any) -> None:
        s += gen("b")
        s["b"]

    with Run(executor) as run:
        run.meanwhile = note
        s = run.state()
        s += gen("a")
        assert s["a"]
        assert len(threads) >= 2
        other = threading.Thread(target=elsewhere, args=(s,))
        before = len(threads)
        other.start()
        other.join()
        assert len(threads) == before
    assert set(threads) == {threading.main_thread()}


def test_an_interrupt_in_meanwhile_stops_the_run(make: Any) -> None:
    executor, began = make(delay=30), time.monotonic()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        run.meanwhile = interrupted
        s = run.state()
        s += gen("a")
        s["a"]
    check(executor, began)


def test_a_batch(make: Any) -> None:
    executor, began = make(delay=30), time.monotonic()
    before = threading.active_count()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        program.run_batch([{"n": i} for i in range(50)], num_threads=4, backend=executor)
    check(executor, began)
    assert len(executor.calls) == 4
    deadline = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_forks_waiting_for_their_parent(make: Any) -> None:
    executor, began = make(delay=30), time.monotonic()
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        s = run.state()
        s += gen("a")
        group = s.fork(3)
        group += gen("b")
        group.join()
        s["b"]
    check(executor, began)


def test_a_result_before_its_call_returns_leaves_the_next_call_stoppable(make: Any) -> None:
    executor, began = make(delay=lambda call: 0.0 if call.name == "a" else 30), time.monotonic()
    generate = executor.generate

    def slow_to_return(call: Any, sink: Any) -> Any:
        cancel = generate(call, sink)
        if call.name == "a":
            time.sleep(0.05)
        return cancel

    executor.generate = slow_to_return
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        s = run.state()
        s += gen("a") + gen("b")
    check(executor, began)
    assert s["a"]


def test_an_executor_that_does_not_answer(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "DRAIN_SECONDS", 0.2)
    executor, began = make(), time.monotonic()
    executor.generate = lambda call, sink: lambda: None
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        program.run(backend=executor)
    check(executor, began)
