"""Ctrl-C: the calls of the run are cancelled, what they brought is kept, and control is back at
once."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from typing import Any

import pytest

from sgnb.events import RunFinished
from sgnb.lang import Run, function, gen
from sgnb.lang.core import run as run_module
from sgnb.lang.core import stopping
from sgnb.lang.core.program import Program
from sgnb.lang.core.waits import Waits

from ..interrupts import LOCKS, in_time, interrupted_at


@function
def program(s: Any, n: int = 0) -> None:
    s += gen("a")
    s += s["a"] + gen("b")


NEVER = 1e6
"""Seconds: a run that waits for such an answer does not end."""


def interrupt_soon(executor: Any, calls: int = 1) -> None:
    """Once so many calls have been made, and the main thread has had time to wait for them."""

    def watch() -> None:
        while len(executor.calls) < calls:
            time.sleep(0.01)
        time.sleep(0.15)
        _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def check(executor: Any) -> None:
    assert executor.running == 0
    assert executor.events(RunFinished)[0].status == "interrupted"


def test_a_run(make: Any) -> None:
    executor = make(delay=NEVER)
    interrupt_soon(executor)
    with pytest.raises(KeyboardInterrupt):
        program.run(backend=executor)
    check(executor)
    assert executor.names() == ["a"]


def test_the_partial_text_is_kept_and_the_next_run_works(make: Any) -> None:
    executor, letters = make("abcdefghij" * 1000, delay=0.02), []
    generate = executor.generate

    def noted(call: Any, sink: Any) -> Any:
        def note(item: Any) -> None:
            sink(item)
            letters.append(item)
            if len(letters) == 4:
                _thread.interrupt_main()

        return generate(call, note)

    executor.generate = noted
    with pytest.raises(KeyboardInterrupt), Run(executor, stream=True) as run:
        s = run.state()
        s += "> " + gen("a") + gen("never")
    check(executor)
    assert s.text().startswith("> ab")
    assert executor.names() == ["a"]
    executor._delay = lambda call: 0.0
    assert program.run(backend=executor)["b"].startswith("abc")


def test_waits_of_the_main_thread_call_meanwhile_and_no_others(make: Any) -> None:
    executor, threads = make(delay=NEVER), []

    def note() -> None:
        threads.append(threading.current_thread())
        if len(threads) == 2:
            executor._delay = lambda call: 0.25
            executor.hurry()

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
    executor = make(delay=NEVER)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        run.meanwhile = interrupted
        s = run.state()
        s += gen("a")
        s["a"]
    check(executor)


def test_a_batch(make: Any) -> None:
    executor = make(delay=NEVER)
    before = threading.active_count()
    interrupt_soon(executor, calls=4)
    with pytest.raises(KeyboardInterrupt):
        program.run_batch([{"n": i} for i in range(50)], num_threads=4, backend=executor)
    check(executor)
    assert len(executor.calls) == 4
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_forks_waiting_for_their_parent(make: Any) -> None:
    executor = make(delay=NEVER)
    interrupt_soon(executor)
    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        s = run.state()
        s += gen("a")
        group = s.fork(3)
        group += gen("b")
        group.join()
        s["b"]
    check(executor)


def test_a_result_before_its_call_returns_leaves_the_next_call_stoppable(make: Any) -> None:
    executor = make(delay=lambda call: 0.0 if call.name == "a" else NEVER)
    generate = executor.generate

    def slow_to_return(call: Any, sink: Any) -> Any:
        cancel = generate(call, sink)
        if call.name == "a":
            time.sleep(0.05)
        return cancel

    executor.generate = slow_to_return
    interrupt_soon(executor, calls=2)
    with pytest.raises(KeyboardInterrupt), Run(executor) as run:
        s = run.state()
        s += gen("a") + gen("b")
    check(executor)
    assert s["a"]


def test_an_executor_that_does_not_answer(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "DRAIN_SECONDS", 0.2)
    executor = make()
    executor.generate = lambda call, sink: lambda: executor.cancelled.append(call)
    interrupt_soon(executor, calls=0)
    with pytest.raises(KeyboardInterrupt):
        program.run(backend=executor)
    check(executor)


def untraced(executor: Any) -> Any:
    """Exclude the locks of the fake executor from the interrupted places."""
    generate = executor.generate

    def generate_untraced(call: Any, sink: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return generate(call, sink)
        finally:
            sys.settrace(tracer)

    executor.generate = generate_untraced
    return executor


def test_at_any_place_of_sending_a_call(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No executor answers a call that was not sent, so the run does not wait for the answer."""
    monkeypatch.setattr(run_module, "DRAIN_SECONDS", 1000)
    monkeypatch.setattr(stopping, "DRAIN_SECONDS", 1000)
    executor = untraced(make("abc"))
    where = [Program.send, Program._send]

    def run() -> None:
        program.run(backend=executor).sync()

    number = 1
    while in_time(lambda n=number: interrupted_at(n, run, where, calls=True)):  # type: ignore[misc]
        number += 1
    wait_until(lambda: executor.running == 0)
    assert number > 10


def test_at_any_place_where_threads_meet(make: Any) -> None:
    """A lock that an interrupt leaves taken would keep the executor's thread for ever."""
    executor = untraced(make("abc", delay=0.005))
    where = [*LOCKS, Program.wait, Waits.wait, Program.close]
    number, interrupted = 1, True
    while interrupted:
        before = len(executor.events(RunFinished))

        def run() -> None:
            program.run(backend=executor).sync()

        interrupted = in_time(lambda n=number: interrupted_at(n, run, where, calls=True))  # type: ignore[misc]
        wait_until(lambda n=before: len(executor.events(RunFinished)) > n)  # type: ignore[misc]
        status = executor.events(RunFinished)[before].status
        # One in the code's last steps finds the run over.
        assert status == "done" or (interrupted and status == "interrupted"), f"line {number}"
        number += 1
    check(executor)
    assert number > 20
