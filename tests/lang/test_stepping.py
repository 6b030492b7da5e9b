"""Paused runs: stops before appends and calls, after tokens, at lines and below probabilities."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.errors import Aborted, EngineError, OptionError
from sgnb.events import BranchPaused, BranchResumed, StepRan
from sgnb.lang import Run, function, gen, select, watch
from tests.viz.random_programs import random_program


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    import sgnb.backends  # noqa: F401  # lets programs run on engines

    with Engine("tiny", context_length=512, max_total_tokens=4096) as engine:
        yield engine


def started(program: Any, engine: Engine, until: Any = None, **options: Any) -> Any:
    """Run a program that is paused before the first append. The code runs on a thread."""
    found: list[Run] = []
    stop_watching = watch(lambda run: (found.append(run), run.pause(until))[0])
    try:
        state = program.run(backend=engine, stream=True, temperature=0, **options)
    finally:
        stop_watching()
    return state


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@function
def story(s: Any) -> None:
    s += "Once"
    s += " upon"
    s += gen("a", max_tokens=4, ignore_eos=True)
    s += "." + gen("b", max_tokens=3, ignore_eos=True)


def test_each_append_call_and_token_is_a_stop(engine: Engine) -> None:
    plain = story.run(backend=engine, temperature=0)
    expected = plain.text()
    after = engine.log.last
    state = started(story, engine)
    run = state.program.run
    wait_until(lambda: run.paused)
    texts = [state._branch.text]
    tokens = []
    while run.step():
        texts.append(state._branch.text)
        rows = (r.event for r in engine.log.read(after).records if isinstance(r.event, StepRan))
        tokens.append(sum(len(event.sampled) for event in rows))
    assert state.text() == expected and state["a"] == plain["a"]
    assert texts[:4] == ["", "Once", "Once upon", "Once upon"]
    assert tokens == [0, 0, 1, 2, 3, 4, 4, 5, 6][: len(tokens)]
    assert len(tokens) == 9
    paused = [r.event for r in engine.log.read(after).records if isinstance(r.event, BranchPaused)]
    assert [event.before for event in paused] == [
        "text 'Once'", "text ' upon'", "gen 'a'", "text '.'", "gen 'b'"
    ]  # fmt: skip
    first = story.func.__code__.co_firstlineno
    assert [event.line - first for event in paused] == [2, 3, 4, 5, 5]
    resumed = [r for r in engine.log.read(after).records if isinstance(r.event, BranchResumed)]
    assert len(resumed) == len(paused)
    assert run.status == "done" and not run.paused and not run.step()


def test_a_step_by_call(engine: Engine) -> None:
    state = started(story, engine)
    run = state.program.run
    wait_until(lambda: run.paused)
    assert run.step("call")
    assert state.value("a") if hasattr(state, "value") else state._branch.variables["a"]
    assert "b" not in state._branch.variables
    assert not run.step("call")
    assert state["b"] == story.run(backend=engine, temperature=0)["b"]


@pytest.mark.slow
def test_a_stop_inside_a_call_and_a_resume(engine: Engine) -> None:
    @function
    def long(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=300, ignore_eos=True)

    state = long.run(backend=engine, temperature=0)
    run = state.program.run
    run.pause()
    wait_until(lambda: run.paused)
    other = story.run(backend=engine, temperature=0)
    assert other.text()
    assert run.paused and run.step()
    run.resume()
    assert state["a"] == long.run(backend=engine, temperature=0)["a"]


def test_a_stop_at_a_line(engine: Engine) -> None:
    line = story.func.__code__.co_firstlineno + 4
    state = started(story, engine, line)
    run = state.program.run
    wait_until(lambda: run.paused)
    assert state._branch.text == "Once upon"
    run.resume(until=line + 1)
    wait_until(lambda: run.paused)
    assert state._branch.variables["a"]
    run.resume(until=line)
    assert state["b"]


def test_a_stop_below_a_probability(engine: Engine) -> None:
    after = engine.log.last
    state = started(story, engine, "p < 0.5")
    run = state.program.run
    stops = 0
    while True:
        wait_until(lambda: run.paused or run.status == "done")
        if run.status == "done":
            break
        stops += 1
        rows = [r.event for r in engine.log.read(after).records if isinstance(r.event, StepRan)]
        assert rows[-1].sampled[0].logprob < -0.693
        run.resume("p < 0.5")
    assert state["b"] and stops


@pytest.mark.parametrize("programs", [6, pytest.param(16, marks=pytest.mark.slow)])
def test_stops_change_no_run(engine: Engine, programs: int) -> None:
    total = 0
    for seed in range(programs):
        program = random_program(seed, forks=seed % 2 == 1)
        engine.flush_cache()
        expected = program.run(backend=engine, temperature=0).text()
        engine.flush_cache()
        state = started(program, engine)
        wait_until(lambda state=state: state.program.run.paused)
        kinds = ["token", "call"] if seed % 3 else ["token"]
        count = 0
        while state.program.run.step(kinds[count % len(kinds)]):
            count += 1
        assert state.text() == expected, seed
        total += count
    assert total > 6 * programs


def test_a_cancelled_run_leaves_nothing_behind(engine: Engine) -> None:
    for steps in (0, 2, 4):
        state = started(story, engine)
        run = state.program.run
        wait_until(lambda run=run: run.paused)
        for _ in range(steps):
            run.step()
        run.cancel()
        wait_until(lambda run=run: run.status != "running")
        assert run.status == "interrupted" and not run.paused
        assert isinstance(state.error(), Aborted)
    assert engine.why_waiting(run.id, "0") == []
    stats = engine.stats()
    assert stats["free"] + stats["cached"] == stats["pool_tokens"]


def test_an_interrupt_ends_a_paused_run(engine: Engine) -> None:
    state = started(story, engine)
    run = state.program.run
    wait_until(lambda: run.paused)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    # A run that only waits for tokens of a branch that does not stop.
    run.gate.wait = lambda: _never(run)  # type: ignore[method-assign, union-attr]
    with pytest.raises(KeyboardInterrupt):
        run.step()
    wait_until(lambda: run.status != "running")
    assert run.status == "interrupted"


def _never(run: Run) -> bool:
    from sgnb.lang.core.stepping import StepGate

    class Busy(StepGate):
        paused = False  # type: ignore[assignment]

    return Busy(run).wait(10)


def test_an_interrupt_of_a_read_ends_a_paused_run(engine: Engine) -> None:
    stop_watching = watch(lambda run: run.pause())
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        state = story.run(backend=engine)
    finally:
        stop_watching()
    with pytest.raises(KeyboardInterrupt):
        _ = state["a"]
    assert state.program.run.status == "interrupted"


def test_a_select_and_a_model_without_stops_after_tokens(engine: Engine) -> None:
    @function
    def choice(s: Any) -> None:
        s += "The sky is" + select("c", [" blue", " green"])

    state = started(choice, engine)
    run = state.program.run
    run.gate._stepper = None
    wait_until(lambda: run.paused)
    assert run.step() and not run.step()
    assert state["c"] == choice.run(backend=engine, temperature=0)["c"]


@pytest.mark.parametrize("until", ["x", "p<2", "p<0", -1, 0, True, 1.5, "p<0.1 or more"])
def test_wrong_conditions(engine: Engine, until: Any) -> None:
    state = story.run(backend=engine)
    run = state.program.run
    with pytest.raises(OptionError, match="is not a condition"):
        run.pause(until)
    with pytest.raises(OptionError, match="is not a condition"):
        run.resume(until)
    with pytest.raises(OptionError, match="unknown"):
        run.step("line")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="is not paused"):
        run.step()
    state.wait()


def test_a_closed_engine_leaves_no_run_waiting() -> None:
    with Engine("tiny", context_length=512, max_total_tokens=4096) as engine:
        state = started(story, engine)
        run = state.program.run
        wait_until(lambda: run.paused)
    with pytest.raises(EngineError, match="closed"):
        run.resume()
    assert not run.paused
    assert state.text().startswith("Once") and isinstance(state.error(), EngineError)


@pytest.mark.parametrize("at_a_line", [False, True])
def test_a_permit_ends_with_the_next_command(engine: Engine, at_a_line: bool) -> None:
    """A step by call lets appends pass up to the call, unless another command comes first."""
    go_on = threading.Event()

    @function
    def waits(s: Any) -> None:
        s += "Once"
        go_on.wait(30)
        s += " upon"
        s += gen("a", max_tokens=2, ignore_eos=True)

    state = started(waits, engine)
    run = state.program.run
    wait_until(lambda: run.paused)
    run.step("call", wait=False)
    wait_until(lambda: "Once" in state.program.root.text)
    if at_a_line:
        run.resume(waits.func.__code__.co_firstlineno + 4)
    else:
        run.pause()
    go_on.set()
    wait_until(lambda: run.paused)
    assert state.program.root.text == "Once"
    run.resume()
    assert state.text().startswith("Once upon")
