"""Batches: input order, few threads, and one program's failure is its own."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from sgnb.errors import OptionError
from sgnb.events import BranchStarted, RunFinished, RunStarted
from sgnb.lang import function, gen, pool


@function
def simple(s: Any, q: str) -> str:
    s += f"{q}: " + gen("a")
    return q.upper()


@function
def reads_twice(s: Any, q: str) -> None:
    s += q + gen("a")
    s += s["a"] + gen("b")
    s["both"] = s["a"] + s["b"]


def test_results_come_in_order(make: Any) -> None:
    executor = make("x", delay=lambda call: 0.03 if call.prompt < "5" else 0.0)
    states = simple.run_batch([{"q": str(i)} for i in range(10)], temperature=0.0, backend=executor)
    assert [state.text() for state in states] == [f"{i}: x" for i in range(10)]
    assert states[3].ret_value == "3"
    assert {call.params.temperature for call in executor.calls} == {0.0}
    assert len({state.run_id for state in states}) == 1
    assert [event.branch for event in executor.events(BranchStarted)] == [str(i) for i in range(10)]
    assert executor.events(RunStarted)[0].total == 10
    assert executor.events(RunFinished)[0].status == "done"


class Frame:
    """What is asked of a data frame, pandas' or another's."""

    columns = ("q",)

    def to_dict(self, orient: str) -> list[dict[str, str]]:
        assert orient == "records"
        return [{"q": "a"}, {"q": "b"}]


@pytest.mark.parametrize("batch", [[("a",), ("b",)], Frame(), iter([{"q": "a"}, ["b"]])])
def test_what_a_batch_may_be(make: Any, batch: Any) -> None:
    assert [state.text() for state in simple.run_batch(batch, backend=make("x"))] == [
        "a: x",
        "b: x",
    ]


def test_what_is_no_batch(fake: Any) -> None:
    with pytest.raises(OptionError, match=r"test_batch\.py:\d+: 5 is no batch"):
        simple.run_batch(5, backend=fake)


def test_an_empty_batch(fake: Any) -> None:
    assert simple.run_batch([], backend=fake) == []
    assert list(simple.run_batch([], generator_style=True, backend=fake)) == []
    assert fake.events() == []


def test_programs_that_never_read_share_one_thread(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pool, "PATIENCE_SECONDS", math.inf
    )  # a slow machine must not look like a held-up worker
    threads = set()

    @function
    def program(s: Any, q: str) -> None:
        threads.add(threading.get_ident())
        s += q + gen("a")

    executor = make("x", together=300)
    program.run_batch([{"q": "x"}] * 300, backend=executor)
    assert len(threads) == 1
    assert executor.most_running == 300


def test_programs_that_read_share_num_threads(make: Any) -> None:
    executor = make("x", delay=0.002)
    before, most = threading.active_count(), 0

    @function
    def program(s: Any, q: str) -> None:
        nonlocal most
        reads_twice(s, q)
        most = max(most, threading.active_count())

    states = program.run_batch(
        [{"q": f"{i} "} for i in range(500)], num_threads=8, backend=executor
    )
    assert [state["both"] for state in states] == ["xx"] * 500
    assert states[499].text() == "499 xxx"
    assert 4 <= executor.most_running <= 8
    assert most <= before + 8


def test_a_tool_that_blocks_does_not_hold_up_the_batch(make: Any) -> None:
    gate = threading.Barrier(3, timeout=60)

    @function
    def program(s: Any) -> None:
        gate.wait()

    program.run_batch([{}] * 3, backend=make())


def test_a_batch_inside_a_batch(make: Any) -> None:
    executor = make("x", delay=0.001)

    @function
    def outer(s: Any, n: int) -> int:
        return len(
            reads_twice.run_batch(
                [{"q": str(i)} for i in range(n)], num_threads=2, backend=executor
            )
        )

    states = outer.run_batch([{"n": n} for n in range(6)], num_threads=2, backend=executor)
    assert [state.ret_value for state in states] == list(range(6))


def test_generator_style_gives_states_as_they_finish(make: Any) -> None:
    executor = make(
        "x", delay=lambda call: 0.0 if call.prompt.startswith("0") else 1000, together=2
    )
    states = simple.run_batch([{"q": "0"}, {"q": "1"}], generator_style=True, backend=executor)
    assert next(states).text() == "0: x"
    assert executor.running == 1
    executor.hurry()
    assert next(states).text() == "1: x"
    assert list(states) == []


def test_leaving_a_generator_stops_the_rest(make: Any) -> None:
    executor = make(
        "x", delay=lambda call: 0.0 if call.prompt.startswith("0") else 1000, together=5
    )
    states = simple.run_batch(
        [{"q": str(i)} for i in range(5)], generator_style=True, backend=executor
    )
    next(states)
    states.close()
    assert len(executor.cancelled) == 4
    assert executor.events(RunFinished)[0].status == "interrupted"


def test_a_failing_program_fails_alone(make: Any) -> None:
    executor = make(lambda call: ValueError("bad") if call.prompt.startswith("2") else "x")
    states = simple.run_batch([{"q": str(i)} for i in range(4)], backend=executor)
    assert [state.text() for state in states] == ["0: x", "1: x", "2: ", "3: x"]
    for read in (lambda: states[2]["a"], lambda: states[2].ret_value, states[2].sync):
        with pytest.raises(ValueError, match="bad"):
            read()
    assert (
        executor.events(RunFinished)[0].message == "1 of 4 programs failed, first: ValueError: bad"
    )


def test_when_every_program_fails_the_batch_does(make: Any) -> None:
    @function
    def broken(s: Any, q: str) -> None:
        s += gen("a")
        raise NameError(q)

    with pytest.raises(NameError, match="0"):
        broken.run_batch([{"q": str(i)} for i in range(3)], backend=make())


def test_progress(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    simple.run_batch([{"q": "a"}] * 3, progress_bar=True, backend=make("x", delay=0.15))
    said = capsys.readouterr().err
    assert "\r0/3 programs" in said
    assert said.endswith("\r3/3 programs\n")


@pytest.mark.parametrize("threads", [0, "many", 1.5, True])
def test_num_threads(fake: Any, threads: Any) -> None:
    with pytest.raises(OptionError, match="num_threads"):
        simple.run_batch([{"q": "a"}], num_threads=threads, backend=fake)


def test_num_threads_of_numpy(fake: Any) -> None:
    [state] = simple.run_batch([{"q": "a"}], num_threads=np.int64(2), backend=fake)
    state.sync()
