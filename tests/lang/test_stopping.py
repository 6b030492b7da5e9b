"""Errors read by a program, stopped calls, and timeouts."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sgnb
from sgnb.errors import Aborted, OptionError, TimedOut, TraceError
from sgnb.events import BranchFinished, GenerationDone, RunFinished
from sgnb.lang import CompiledProgram, Graph, Run, function, gen, select, separate_reasoning
from sgnb.lang.core import stopping
from sgnb.lang.core.timers import call_later
from sgnb.lang.executor import Delta, Result


class Boom(Exception):
    pass


def failing(*names: str) -> Any:
    """Answers that fail for the variables `names`."""
    errors = {name: Boom(name) for name in names}
    return lambda call: errors.get(call.name, f"<{call.name}>")


def stalling(executor: Any, *names: str, text: str = "so far") -> Any:
    """Let calls for `names` bring `text`, and then nothing before they are cancelled."""
    generate = executor.generate

    def stall(call: Any, sink: Any) -> Any:
        if call.name not in names:
            return generate(call, sink)
        executor.calls.append(call)
        if call.stream:
            sink(Delta(text, lambda: {"completion_tokens": 2}))
        return lambda: sink(Result((text,), error=Aborted("stopped")))

    executor.generate = stall
    return executor


ABORT = {"type": "abort", "message": "stopped"}


READS: dict[str, Callable[[Any], Any]] = {
    "a variable": lambda s: s["bad"],
    "history": lambda s: s.history("bad"),
    "meta": lambda s: s.get_meta_info("bad"),
    "sync": lambda s: s.sync(),
    "a stream": lambda s: list(s.text_iter()),
    "a stream of a name": lambda s: list(s.text_iter("bad")),
}


@pytest.mark.parametrize("how", READS)
def test_a_branch_whose_error_was_caught_does_not_fail_its_join(make: Any, how: str) -> None:
    executor = make(failing("bad"))
    with Run(executor) as run:
        s = run.state()
        group = s.fork(3)
        group += [gen("x"), gen("y") + gen("bad") + gen("x"), gen("x")]
        with pytest.raises(Boom):
            READS[how](group[1])
        group.join()
        s += gen("after")
        assert (s["x"], s["y"], s["bad"]) == (["<x>", "<x>"], ["<y>"], [])
        assert s["after"] == "<after>"
    assert executor.events(RunFinished)[0].status == "done"


def test_try_this_else_that(make: Any) -> None:
    service, engine = make(failing("answer")), make("yes")

    @function
    def ask(s: Any) -> None:
        s += "Well? "
        first = s.fork(1)
        first += gen("answer", backend=service)
        if first[0].error() is None:
            s.keep(first[0])
        else:
            first.join("concate_and_append")
            s += gen("answer")

    state = ask.run(backend=engine)
    assert state.text() == "Well? yes" and state["answer"] == "yes"
    assert ask.run(backend=engine).text() == ask.run(backend=make("yes")).text()


def test_the_text_of_a_failed_branch_is_not_appended(make: Any) -> None:
    with Run(make(failing("bad"))) as run:
        s = run.state()
        group = s.fork(3)
        group += [" A", sgnb.user("B" + gen("bad")), " C" + gen("x")]
        assert isinstance(group[1].error(), Boom)
        group.join("concate_and_append")
        s += "."
    assert s.text() == " A C<x>." and s.messages() == []


def test_a_failed_branch_cannot_be_kept(make: Any) -> None:
    with pytest.raises(Boom), Run(make(failing("bad"))) as run:
        s = run.state()
        fork = s.fork(1)[0]
        fork += gen("bad")
        assert fork.error() is not None
        s.keep(fork)


def test_an_error_that_is_read_after_the_join_has_failed_it(make: Any) -> None:
    with pytest.raises(Boom), Run(make(failing("bad"))) as run:
        s = run.state()
        group = s.fork(2)
        group += gen("bad")
        with pytest.raises(Boom):
            group.join()
            s.sync()
        assert group[0].error() is not None and group[1].error() is not None
        with pytest.raises(Boom):
            s["bad"]


@pytest.mark.parametrize("when", ["at any time", "before the fork", "read before the fork"])
def test_the_error_of_a_branch_in_a_branch(make: Any, when: str) -> None:
    executor = make(failing("bad"))
    with Run(executor) as run:
        s = run.state()
        child = s.fork(1)[0]
        child += gen("bad")
        if when == "before the fork":
            wait_until(lambda: child._branch.error is not None)
        if when == "read before the fork":
            assert isinstance(child.error(), Boom)
        never_begun = child.fork(2)
        never_begun += gen("x")
        with pytest.raises(Boom):
            never_begun[1].fork(1)[0].sync()
        with pytest.raises(Boom):
            never_begun[1]["x"]
        s += gen("after")
    assert executor.events(RunFinished)[0].status == "done"
    assert s["after"] == "<after>"


def test_no_error_is_read_before_it_happens(make: Any) -> None:
    with pytest.raises(Boom), Run(make(failing("bad"))) as run:
        s = run.state()
        s += gen("a")
        assert s.error() is None
        s += gen("bad")


@function
def two_branches(s: Any) -> None:
    group = s.fork(2)
    group += [gen("x"), gen("bad")]
    group.join()
    s += gen("after")


@function
def unjoined(s: Any) -> None:
    group = s.fork(2)
    group += [gen("x"), gen("bad")]
    s += gen("after")


@pytest.mark.parametrize("program", [two_branches, unjoined])
def test_a_graph_fails_where_its_program_does(make: Any, program: Any) -> None:
    ended = []
    for runs in (program, program.compile(), CompiledProgram(saved(program.trace()))):
        executor = make(failing("bad"))
        with pytest.raises(Boom):  # `run` fails if the branch ends before the join
            runs.run(backend=executor).sync()
        ended.append(sorted(e.error for e in executor.events(BranchFinished)))
    assert ended[0] == ended[1] == ended[2]


def saved(graph: Graph) -> Graph:
    return Graph.from_json(graph.to_json())


def test_what_a_handler_may_catch_is_no_graph(make: Any) -> None:
    def fork_of(s: Any) -> Any:
        group = s.fork(2)
        group += [gen("x"), gen("bad")]
        return group

    @function
    def catches(s: Any) -> None:
        group = fork_of(s)
        try:
            group[1]["bad"]
        except Boom:
            s += "else "
        group.join()
        s += gen("y")

    @function
    def joins(s: Any) -> None:
        try:
            fork_of(s).join()
        except Boom:
            s["failed"] = True

    @function
    def reads_elsewhere(s: Any) -> None:
        try:
            s += "a"
        except Boom:
            s += "b"
        else:
            s += fork_of(s)[0]["x"]
        finally:
            s += fork_of(s)[0]["x"]

    for program, said in ((catches, r"s\['bad'\]"), (joins, r"join\(\)")):
        with pytest.raises(TraceError, match=f"an error that {said} raises inside `try`"):
            program.trace()
    graph = catches.trace(partial=True)
    assert graph.stopped and "else" not in str(graph)
    assert catches.run(backend=make(failing("bad"))).text() == "else <y>"
    executor = make(failing())
    assert reads_elsewhere.compile().run(backend=executor).text() == "a<x><x>"


@function
def in_turn(s: Any) -> None:
    s += "Q " + gen("whole") + " " + gen("a") + gen("never")


def stopped_by_cancel(executor: Any, program: Any = in_turn, calls: int = 2) -> Any:
    """Cancel a program in its `calls`-th call, and return the state."""
    state = program.run(stream=True, backend=executor)
    wait_until(lambda: len(executor.calls) >= calls and state._branch.partial)
    state.cancel()
    return state


def wait_until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_the_text_so_far_is_the_value_after_a_cancel(make: Any) -> None:
    executor = stalling(make("yes"), "a")
    state = stopped_by_cancel(executor)
    assert (state["whole"], state["a"]) == ("yes", "so far")
    assert state.get_meta_info("a") == {"completion_tokens": 2, "finish_reason": ABORT}
    assert state.get_meta_info("whole")["finish_reason"] == {"type": "stop"}
    assert isinstance(state.error(), Aborted) and state.text() == "Q yes so far"
    assert state.snapshot().variables == {"whole": "yes", "a": "so far"}
    for read in (state.sync, lambda: state["never"], lambda: list(state.text_iter("never"))):
        with pytest.raises(Aborted):
            read()
    assert executor.names() == ["whole", "a"]
    wait_until(lambda: executor.events(RunFinished))
    assert executor.events(RunFinished)[0].status == "interrupted"
    assert executor.events(GenerationDone)[-1].text == "so far"
    assert executor.events(BranchFinished)[-1].error.startswith("Aborted: stopped")


def test_streams_end_with_the_text_so_far(make: Any) -> None:
    state = stopped_by_cancel(stalling(make("yes"), "a"))

    async def read(name: str | None) -> list[Any]:
        return [piece async for piece in state.text_async_iter(name)]

    for name, text in ((None, "Q yes so far"), ("a", "so far"), ("whole", "yes")):
        assert "".join(state.text_iter(name)) == text
        assert "".join(asyncio.run(read(name))) == text


def test_a_stream_ends_while_the_code_of_a_stopped_program_runs(make: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @function
    def waits(s: Any) -> None:
        s += "x"
        begun.set()
        go_on.wait(60)
        s += gen("late")

    state = waits.run(stream=True, backend=make())
    begun.wait(60)
    state.cancel()
    assert list(state.text_iter()) == ["x"]
    with pytest.raises(Aborted):
        list(state.text_iter("late"))
    assert state.done
    go_on.set()


def test_several_samples_reasoning_and_tools(make: Any) -> None:
    def look(word: str) -> str:
        """Looks up."""
        return word

    @function
    def samples(s: Any) -> None:
        s += gen("a", n=3)

    @function
    def reasons(s: Any) -> None:
        s += separate_reasoning(gen("a"), "qwen3")

    @function
    def calls(s: Any) -> None:
        s += "Q" + gen("a", tools=[look])

    def after_cancel(program: Any, text: str) -> Any:
        return stopped_by_cancel(stalling(make(), "a", text=text), program, calls=1)

    state = after_cancel(samples, "one")
    assert state["a"] == ["one", "", ""]
    assert [meta["finish_reason"] for meta in state.get_meta_info("a")] == [ABORT] * 3
    state = after_cancel(reasons, "<think>Hm.</think> So")
    assert (state["a"], state["a_reasoning_content"], state.text()) == ("So", "Hm.", "So")
    state = after_cancel(calls, "I will")
    assert state["a"] == "I will" and state.get_meta_info("a")["finish_reason"] == ABORT


def test_an_executor_that_never_answers(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "DRAIN_SECONDS", 0.02)
    executor = make()

    def silent(call: Any, sink: Any) -> Any:
        sink(Delta("so far"))
        return lambda: None

    executor.generate = silent
    state = stopped_by_cancel(executor, calls=0)
    assert list(state.text_iter("whole")) == ["so far"]
    assert "did not answer in time" in state.get_meta_info("whole")["finish_reason"]["message"]

    @function
    def limited(s: Any) -> None:
        s += gen("a", timeout=0.01)

    assert limited.run(backend=executor)["a"] == "so far"


def test_an_error_of_the_code_is_no_partial_value(make: Any) -> None:
    @function
    def fails(s: Any) -> None:
        s += gen("a")
        raise Boom("mine")

    state = fails.run(stream=True, backend=stalling(make(), "a"))
    with pytest.raises(Boom):
        state["a"]
    with pytest.raises(Boom):
        list(state.text_iter())


@function
def limited(s: Any) -> None:
    s += "Q " + gen("a", timeout=0.02) + gen("never")


def test_a_timeout_ends_its_generation_alone(make: Any) -> None:
    executor = stalling(make("yes"), "a")
    program = limited.trace()
    for runs in (limited, limited.compile(), CompiledProgram(saved(program))):
        state = runs.run(backend=executor)
        assert state["a"] == "so far"
        message = "gen 'a' took longer than its timeout of 0.02 s"
        assert state.get_meta_info("a")["finish_reason"] == {"type": "abort", "message": message}
        error = state.error()
        assert isinstance(error, TimedOut) and isinstance(error, TimeoutError)
        assert error.message == message and error.__notes__[0].startswith("in gen 'a', at ")
        with pytest.raises(TimedOut):
            state["never"]
    assert "gen('a', timeout=0.02)" in str(program)
    assert executor.events(RunFinished)[0].status == "error"
    assert message in executor.events(BranchFinished)[0].error
    assert "never" not in executor.names()


def test_an_answer_in_time_has_no_timeout(make: Any) -> None:
    executor = stalling(make("yes"), "c")

    @function
    def program(s: Any) -> None:
        s += gen("a", timeout=60) + select("b", ["x", "y"], timeout=60)
        s += gen("d", choices=["u", "v"], timeout=60) + gen("c")

    state = program.run(stream=True, backend=executor)
    wait_until(lambda: state._branch.partial)
    for number in range(3):
        stopping._expire(state._branch, number)
    assert (state["a"], state["b"], state["d"], state.done) == ("yes", "x", "u", False)
    state.cancel()
    assert isinstance(state.error(), Aborted)


def test_a_select_that_times_out_has_no_value(make: Any) -> None:
    @function
    def program(s: Any) -> None:
        s += "Q" + select("b", ["x", "y"], timeout=0.02)

    state = program.run(backend=make(delay=1e6))
    with pytest.raises(TimedOut, match="select 'b' took longer"):
        state["b"]


def test_rows_and_forks_time_out_one_by_one(make: Any) -> None:
    executor = make(lambda call: "yes", delay=lambda call: 1e6 if "slow" in call.prompt else 0.0)

    @function
    def row(s: Any, word: str) -> None:
        s += word + gen("a", timeout=0.5 if word == "slow" else 60)

    states = row.run_batch([(word,) for word in ("quick", "slow", "quick")], backend=executor)
    assert [state["a"] for state in states] == ["yes", "", "yes"]
    assert [type(state.error()) for state in states] == [type(None), TimedOut, type(None)]

    @function
    def forks(s: Any) -> None:
        group = s.fork(2)
        group += ["slow" + gen("a", timeout=0.02), "quick" + gen("a", timeout=60)]
        assert group[0].error() is not None
        group.join()
        s += gen("after")

    state = forks.run(backend=executor)
    assert (state["a"], state["after"]) == (["", "yes"], "yes")


NO_TIMEOUTS = [0, -1, math.nan, math.inf, True, "5", [5], 10**400, np.array([1.0, 2.0])]


@pytest.mark.parametrize("timeout", NO_TIMEOUTS, ids=str)
def test_what_is_no_timeout(fake: Any, timeout: Any) -> None:
    for call in (
        lambda: gen("a", timeout=timeout),
        lambda: gen("a", tools=[math.sqrt], timeout=timeout),
        lambda: select("a", ["x"], timeout=timeout),
    ):
        with pytest.raises(OptionError):
            call()
    state = in_turn.run(backend=fake)
    if not isinstance(timeout, int) or timeout is True or timeout < 0:
        with pytest.raises(OptionError, match="give seconds, 0 or more"):
            state.wait(timeout)


def test_numbers_that_are_timeouts() -> None:
    for timeout in (1, 0.5, np.float32(0.5), np.int64(3)):
        assert gen("a", timeout=timeout).timeout == timeout  # type: ignore[union-attr]
    assert gen("a", timeout=None).timeout is None


def test_a_state_is_waited_for_and_done(make: Any) -> None:
    executor = make("yes", delay=1e6)
    state = in_turn.run(backend=executor)
    assert not state.done and not state.wait(0) and not state.wait(timeout=0.02)
    executor._delay = lambda call: 0.0
    executor.hurry()
    assert state.wait(timeout=60) and state.wait() and state.done
    assert state["never"] == "yes"
    failed = in_turn.run(backend=make(failing("a")))
    assert failed.wait(60) and failed.done
    with pytest.raises(Boom):
        failed.sync()


def test_the_error_of_a_fork_without_a_join_is_the_error_of_the_run(make: Any) -> None:
    """Reads of the run's state wait for all forks."""

    @function
    def unjoined(s: Any) -> None:
        s.fork(1)[0] += gen("bad")

    executor = make(failing("bad"), delay=1e6)
    state = unjoined.run(backend=executor)
    assert not state.wait(timeout=0.02) and not state.done
    executor.hurry()
    assert isinstance(state.error(), Boom)
    assert state.wait(60) and state.done


def test_async_programs_wait_too(make: Any) -> None:
    executor = make("yes", delay=1e6)

    @function
    async def program(s: Any) -> list[bool]:
        s += gen("a")
        waits = [await s.wait(timeout=0), await s.wait(timeout=0.02), s.done]
        executor.hurry()
        return [*waits, await s.wait(timeout=60), await s.wait(), s.done]

    assert asyncio.run(program.arun(backend=executor)).ret_value == [False] * 3 + [True] * 3


def test_a_trace_does_not_wait() -> None:
    @function
    def waits(s: Any) -> None:
        s += gen("a")
        s.wait(timeout=1)

    @function
    def looks(s: Any) -> None:
        s += gen("a")
        assert s.done

    for program, said in ((waits, "a wait for it"), (looks, "s.done")):
        with pytest.raises(TraceError, match=said):
            program.trace()


def test_saved_rows_are_done(make: Any, tmp_path: Any) -> None:
    for executor in (make("yes"), make()):
        (state,) = in_turn.run_batch([{}], save=tmp_path / "rows", backend=executor)
        assert state.wait(timeout=0) and state.done and state["a"] == "yes"


def test_timers_go_on_after_an_action_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()
    call_later(0.0, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    call_later(0.01, called.set)
    assert called.wait(60)
    assert "ZeroDivisionError" in caplog.text
