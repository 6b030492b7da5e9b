"""`%%sglang --step` and `--until`: paused cells, in Python."""

from __future__ import annotations

import time
from typing import Any

import pytest

import sgnb
from sgnb.errors import EngineError, OptionError
from sgnb.magics.session import SESSION

BODY = 's += "Once"\ns += gen("a", max_tokens=4, ignore_eos=True)\ns += "."\n'


@pytest.fixture
def loaded(shell: Any) -> Any:
    sgnb.load("tiny")
    return shell


def paused(run: Any) -> bool:
    deadline = time.monotonic() + 30
    while not run.paused and run.status == "running":
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return bool(run.paused)


def test_a_cell_pauses_before_the_first_append(loaded: Any) -> None:
    loaded("%%sglang --step --temperature 0 -o stepped\n" + BODY)
    state = loaded.ns["stepped"]
    assert paused(state.run) and state._branch.text == ""
    count = 1
    while state.run.step():
        count += 1
    assert count == 6
    loaded("%%sglang --temperature 0 -o plain -q\n" + BODY)
    assert state["a"] == loaded.ns["plain"]["a"]
    assert state.status == "done"


@pytest.mark.parametrize("until", ["3", "p<0.999999"])
def test_a_cell_pauses_where_the_line_says(loaded: Any, until: str) -> None:
    loaded(f'%%sglang --until "{until}" --temperature 0 -o stepped\n' + BODY)
    state = loaded.ns["stepped"]
    assert paused(state.run)
    if until == "3":
        assert state._branch.text == "Once"
    else:
        assert [w.wait.reason for w in sgnb.why_waiting(state)] == ["paused"]
    report = sgnb.why_slow(state)
    time.sleep(0.1)
    assert sgnb.why_slow(state).seconds["paused"] >= report.seconds["paused"] + 0.1
    state.run.resume()
    assert state.wait(timeout=30) and state["a"]


def test_the_buttons_of_a_view(loaded: Any) -> None:
    loaded("%%sglang --step --temperature 0 -o stepped\n" + BODY)
    run = loaded.ns["stepped"].run
    assert paused(run)
    SESSION.runs.steer("token", run.id)
    assert paused(run)
    SESSION.runs.steer("call", run.id)
    assert paused(run)
    assert run.states[0]._branch.variables["a"]
    SESSION.runs.steer("cancel", run.id)
    while run.status == "running":
        time.sleep(0.002)
    assert run.status == "interrupted"
    with pytest.raises(OptionError, match="is not running"):
        SESSION.runs.steer("token", run.id)


def test_a_new_run_of_a_name_ends_the_paused_one(loaded: Any) -> None:
    loaded("%%sglang story --step\n" + BODY)
    first = loaded.ns["s"].run
    assert paused(first)
    loaded("%%sglang story --step\n" + BODY)
    deadline = time.monotonic() + 30
    while first.status == "running":
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert first.status == "interrupted"
    loaded.ns["s"].cancel()


def test_a_closed_engine_leaves_no_paused_run(loaded: Any) -> None:
    loaded("%%sglang --step -o stepped\n" + BODY)
    run = loaded.ns["stepped"].run
    assert paused(run) and run.step() and run.step()
    with pytest.raises(EngineError, match="in use"):
        sgnb.unload()
    sgnb.engines.get().engine.close()
    deadline = time.monotonic() + 30
    while run.status == "running":
        assert time.monotonic() < deadline, "the run is still paused"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--step --until 3", "exclude each other"),
        ("--until x", "is not a condition"),
        ("--until p<2", "is not a condition"),
        ("--step --dry", "exclude each other"),
        ("--step --vs nocache", "exclude each other"),
    ],
)
def test_lines_that_make_no_sense(loaded: Any, line: str, message: str) -> None:
    assert message in "\n".join(loaded.fails(f"%%sglang {line}\n" + BODY))
