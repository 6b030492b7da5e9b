"""Batches: input order, few threads, and one program's failure is its own."""

from __future__ import annotations

import asyncio
import csv
import gc
import itertools
import json
import math
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from sgnb.errors import Aborted, OptionError, ProgramError, RecordError
from sgnb.events import BranchStarted, RowsNumbered, RunFinished, RunStarted
from sgnb.lang import SavedState, function, gen, pool, watch
from sgnb.lang.batches import batch_run

from .test_interrupts import NEVER, interrupt_soon

INTRODUCTION = "Hello "


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


@pytest.mark.parametrize(
    "batch",
    [
        [("a",), ("b",)],
        (("a",), {"q": "b"}),
        {"q": ["a", "b"]},
        {"q": iter("ab")},
        Frame(),
        pandas.DataFrame({"label": [1, 2], "q": ["a", "b"]}),
        iter([{"q": "a"}, ["b"]]),
    ],
)
def test_what_a_batch_may_be(make: Any, batch: Any) -> None:
    assert [state.text() for state in simple.run_batch(batch, backend=make("x"))] == [
        "a: x",
        "b: x",
    ]


def test_what_is_no_batch(fake: Any) -> None:
    with pytest.raises(OptionError, match=r"test_batch\.py:\d+: 5 is no batch"):
        simple.run_batch(5, backend=fake)
    with pytest.raises(OptionError, match="'abc' is no batch"):
        simple.run_batch("abc", backend=fake)
    with pytest.raises(OptionError, match="column 'q' is 'a'"):
        simple.run_batch({"q": "a"}, backend=fake)
    with pytest.raises(OptionError, match="different lengths"):
        reads_twice.run_batch({"q": ["a"], "r": []}, backend=fake)


def test_an_empty_batch(fake: Any) -> None:
    assert simple.run_batch([], backend=fake) == simple.run_batch({}, backend=fake) == []
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
    assert "0/3 [" in said
    assert "100%" in said and "| 3/3 [" in said


def test_progress_of_an_iterator(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"q": str(i)} for i in range(3))
    states = simple.run_batch(
        rows, progress_bar=True, generator_style=True, backend=make("x", delay=0.05)
    )
    assert len(list(states)) == 3
    assert "3program [" in capsys.readouterr().err


@pytest.mark.parametrize("threads", [0, "many", 1.5, True])
def test_num_threads(fake: Any, threads: Any) -> None:
    with pytest.raises(OptionError, match="num_threads"):
        simple.run_batch([{"q": "a"}], num_threads=threads, backend=fake)


def test_num_threads_of_numpy(fake: Any) -> None:
    [state] = simple.run_batch([{"q": "a"}], num_threads=np.int64(2), backend=fake)
    state.sync()


class Endless:
    """Rows without end; says how many were asked for."""

    def __init__(self) -> None:
        self.read = 0

    def __iter__(self) -> Iterator[dict[str, str]]:
        return self

    def __next__(self) -> dict[str, str]:
        self.read += 1
        return {"q": f"{self.read - 1}"}


def test_an_endless_iterator_is_read_as_rows_are_needed(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_run, "WINDOW", 8)
    rows, executor = Endless(), make("x", delay=lambda call: 0.0 if call.prompt < "2" else NEVER)
    states = simple.run_batch(rows, generator_style=True, backend=executor)
    assert [next(states).text() for _ in range(2)] == ["0: x", "1: x"]
    assert rows.read <= 10
    executor._delay = lambda call: 0.0
    executor.hurry()
    assert [next(states).text() for _ in range(100)] == [f"{i}: x" for i in range(2, 102)]
    assert rows.read <= 110
    states.close()
    assert executor.events(RunFinished)[0].status == "interrupted"


def test_a_slow_iterator_holds_up_no_result(make: Any) -> None:
    """A row may even depend on the answers before it."""
    answers: list[str] = ["start"]

    def rows() -> Iterator[tuple[str]]:
        while len(answers) < 4:
            yield (answers[-1],)

    for state in simple.run_batch(rows(), generator_style=True, backend=make("x", delay=0.01)):
        answers.append(state.text())
    assert answers[1] == "start: x" and len(answers) >= 4


def test_states_that_were_handed_over_are_not_kept(make: Any) -> None:
    states = simple.run_batch(Endless(), generator_style=True, backend=make("x"))
    first = weakref.ref(next(states).program)
    for _ in range(3):
        next(states)
    deadline = time.monotonic() + 60  # a thread may just be leaving it
    while first() is not None and time.monotonic() < deadline:
        gc.collect()
    assert first() is None
    states.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_an_iterator_that_ends(make: Any, is_async: bool) -> None:
    @function
    async def asynchronous(s: Any, q: str) -> str:
        s += f"{q}: " + gen("a")
        await s["a"]
        await asyncio.sleep(0.001)
        return q.upper()

    executor = make("x", delay=0.001)
    program = asynchronous if is_async else simple
    rows = ((f"r{i}",) for i in range(30))
    states = program.run_batch(rows, backend=executor)
    assert [state.ret_value for state in states] == [f"R{i}" for i in range(30)]
    assert executor.events(RunStarted)[0].total == 0
    assert executor.events(RunFinished)[0].status == "done"
    assert program.run_batch(iter(()), backend=executor) == []


def test_an_iterator_that_fails(make: Any) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"q": "a"}
        assert done.wait(60)
        raise ZeroDivisionError

    @function
    def program(s: Any, q: str) -> None:
        s += q + gen("a")
        s.sync()
        done.set()

    done = threading.Event()
    with pytest.raises(ZeroDivisionError) as caught:
        program.run_batch(rows(), backend=make("x"))
    assert [state.text() for state in vars(caught.value)["states"]] == ["ax"]


@pytest.mark.parametrize("sized", [True, False])
def test_an_interrupt_leaves_the_states(make: Any, sized: bool) -> None:
    executor = make("x", delay=lambda call: 0.0 if call.prompt < "3" else NEVER)
    interrupt_soon(executor, calls=5)
    rows = [{"q": str(i)} for i in range(5)]
    with pytest.raises(KeyboardInterrupt) as caught:
        simple.run_batch(rows if sized else iter(rows), backend=executor)
    states = vars(caught.value)["states"]
    assert [state.text() for state in states] == ["0: x", "1: x", "2: x", "3: ", "4: "]
    assert [state.error() is None for state in states] == [True] * 3 + [False] * 2
    assert "states" in caught.value.__notes__[0]


def test_tokens_and_seconds(make: Any) -> None:
    executor = make("x", delay=0.05)
    generate = executor.generate

    def counted(call: Any, sink: Any) -> Any:
        def take(result: Any) -> None:
            for one in result.meta:
                one["completion_tokens"] = 7
            sink(result)

        return generate(call, take)

    executor.generate = counted
    [state] = reads_twice.run_batch([("a",)], backend=executor)
    assert state.tokens == 14
    assert 0.1 <= state.seconds < 60
    assert state.seconds == state.seconds  # it is over
    state = simple.run("a", backend=make("x", delay=NEVER))
    assert state.tokens == 0 and state.seconds < state.seconds


def test_a_frame_back(make: Any) -> None:
    @function
    def program(s: Any, q: str, n: int = 1) -> None:
        s += q + gen("a")
        s["n"] = n * 2
        if q == "bad":
            raise ValueError("no")
        if q == "more":
            s["extra"] = [1, 2]

    frame = pandas.DataFrame({"q": ["x", "bad", "more"], "label": ["u", "v", "w"]}, index=[5, 6, 7])
    result = program.run_batch(frame, as_frame=True, backend=make("y"))
    assert list(result.columns) == ["q", "label", "a", "n", "extra", "error", "tokens", "seconds"]
    assert list(result.index) == [5, 6, 7]
    assert list(result["a"])[::2] == ["y", "y"] and list(result["n"])[::2] == [2, 2]
    assert result["extra"][7] == [1, 2]
    assert result["error"][6] == "ValueError: no"
    assert result["error"].isna().tolist() == [True, False, True]
    assert "a" not in frame.columns

    result = program.run_batch([("x", 3), {"q": "z"}], as_frame=True, backend=make("y"))
    assert list(result.columns) == ["q", "n", "a", "n_out", "error", "tokens", "seconds"]
    assert list(result["n_out"]) == [6, 2]
    empty = program.run_batch(frame[:0], as_frame=True, backend=make())
    assert list(empty.columns) == ["q", "label", "error", "tokens", "seconds"] and len(empty) == 0
    with pytest.raises(OptionError, match="exclude each other"):
        program.run_batch(frame, as_frame=True, generator_style=True, backend=make())


@pytest.mark.slow
def test_a_saved_batch_goes_on_where_it_stopped(make: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"q": str(i)} for i in range(5)]
    executor = make("x", delay=lambda call: 0.0 if call.prompt < "3" else NEVER)
    interrupt_soon(executor, calls=5)
    with pytest.raises(KeyboardInterrupt):
        simple.run_batch(rows, save=file, backend=executor)
    saved = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(row["arguments"]["q"] for row in saved) == ["0", "1", "2"]

    executor = make("y")
    states = simple.run_batch(rows, save=file, backend=executor)
    assert [state.text() for state in states] == ["0: x", "1: x", "2: x", "3: y", "4: y"]
    assert [state.ret_value for state in states] == list("01234")
    assert sorted(call.prompt for call in executor.calls) == ["3: ", "4: "]
    assert executor.events(RunStarted)[0].total == 2

    first = states[0]
    assert isinstance(first, SavedState) and (first["a"], "a" in first) == ("x", True)
    assert first.get_meta_info("a")["length"] == 1
    assert first.error() is None and first.messages() == [] and first.sync() is None
    with pytest.raises(ProgramError, match=r"test_batch\.py:\d+: nothing sets the variable 'b'"):
        first["b"]

    executor = make("never asked")
    again = simple.run_batch(iter(rows), save=file, generator_style=True, backend=executor)
    assert [state["a"] for state in again] == ["x", "x", "x", "y", "y"]
    frame = simple.run_batch(rows, save=str(file), as_frame=True, backend=executor)
    assert list(frame["q"]) == list("01234") and list(frame["a"]) == ["x", "x", "x", "y", "y"]
    assert executor.calls == []


def test_equal_rows_are_saved_each(make: Any, tmp_path: Path) -> None:
    file, numbers = tmp_path / "rows.jsonl", itertools.count()
    counted = make(lambda call: str(next(numbers)))
    for _ in range(2):
        states = simple.run_batch([("same",)] * 3, save=file, backend=counted)
        assert sorted(state["a"] for state in states) == ["0", "1", "2"]
    assert len(counted.calls) == 3


def test_what_makes_a_row_another(make: Any, tmp_path: Path) -> None:
    file, executor = tmp_path / "rows.jsonl", make("x")

    def calls(program: Any, **options: Any) -> int:
        before = len(executor.calls)
        program.run_batch([("q",)], save=file, backend=executor, **options)
        return len(executor.calls) - before

    assert calls(simple) == 1
    assert calls(simple) == 0
    assert calls(simple, temperature=0.0) == 1
    assert calls(reads_twice) == 2
    executor.server_info = lambda: {"model": "another"}
    assert calls(simple) == 1
    assert calls(simple) == 0


def test_states_keep_no_copy_of_large_arguments(make: Any) -> None:
    @function
    def program(s: Any, texts: list[str], i: int) -> None:
        s += texts[i] + gen("a")

    texts, executor = [f"text {i}" for i in range(20_000)], make("x")
    tracemalloc.start()
    try:
        states = program.run_batch([(texts, i) for i in range(10)], backend=executor)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(states) == 10 and held < 10 * 50_000


def test_constants_that_a_program_reads_are_part_of_it(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, executor = tmp_path / "rows.jsonl", make("x")

    def texts(shots: str) -> list[str]:
        asked = 0

        @function
        def program(s: Any, q: str) -> None:
            nonlocal asked
            asked += 1
            s += INTRODUCTION + "".join(shots + str(i) for i in range(2)) + q + gen("a")

        states = program.run_batch([("q",)] * 2, save=file, backend=executor)
        return [state.text() for state in states]

    assert texts("A") == texts("A") == ["Hello A0A1qx"] * 2 and len(executor.calls) == 2
    assert texts("B") == texts("B") == ["Hello B0B1qx"] * 2 and len(executor.calls) == 4
    monkeypatch.setattr(sys.modules[__name__], "INTRODUCTION", "Bye ")
    assert texts("B") == ["Bye B0B1qx"] * 2 and len(executor.calls) == 6


def test_text_without_utf_8_does_not_end_the_saving(make: Any, tmp_path: Path) -> None:
    file, rows = tmp_path / "rows.jsonl", [("a",), ("b\ud800",), ("c",)]
    for answer in ("x", "never asked"):
        states = simple.run_batch(rows, save=file, backend=make(answer))
        assert [state.text() for state in states] == ["a: x", "b\ud800: x", "c: x"]
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


def test_a_variable_whose_own_method_fails_does_not_end_the_saving(
    make: Any, tmp_path: Path
) -> None:
    class Odd:
        def tolist(self) -> Any:
            raise RuntimeError("no list")

    @function
    def program(s: Any, q: str) -> None:
        s += q + gen("a")
        s["odd"] = Odd() if q == "0" else ""

    file = tmp_path / "rows.jsonl"
    with pytest.warns(UserWarning, match="will run again: no list"):
        program.run_batch([("0",), ("1",)], save=file, num_threads=1, backend=make("x"))
    assert [json.loads(line)["arguments"]["q"] for line in file.open()] == ["1"]


def test_failed_rows_are_saved_and_run_again(make: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    executor = make(lambda call: ValueError("bad") if call.prompt.startswith("1") else "x")
    simple.run_batch([("0",), ("1",)], save=file, backend=executor)
    errors = [json.loads(line)["error"] for line in file.read_text().splitlines()]
    assert sorted(map(str, errors)) == ["None", "ValueError: bad"]
    states = simple.run_batch([("0",), ("1",)], save=file, backend=make("y"))
    assert [state["a"] for state in states] == ["x", "y"]
    states = simple.run_batch([("0",), ("1",)], save=file, backend=make("z"))
    assert [state["a"] for state in states] == ["x", "y"]


@pytest.mark.parametrize("left", [1, 5, 40])
def test_a_torn_last_line_is_run_again(make: Any, tmp_path: Path, left: int) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [("0",), ("1",)]
    simple.run_batch(rows[:1], save=file, backend=make("x"))
    whole = file.read_bytes()
    simple.run_batch(rows, save=file, backend=make("x"))
    file.write_bytes(file.read_bytes()[: len(whole) + left])
    states = simple.run_batch(rows, save=file, backend=make("y"))
    assert [state["a"] for state in states] == ["x", "y"]
    assert [json.loads(line)["variables"]["a"] for line in file.open()] == ["x", "y"]


@pytest.mark.parametrize("text", ["hello", "hello\n", '{"a": 1}\n', "[]\n"])
def test_a_file_of_another_kind_is_left_alone(make: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(OptionError, match="is no row of a batch"):
        simple.run_batch([("0",)], save=file, backend=make("x"))
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("variables", ["a"]), ("meta", None), ("content", 5), ("roles", [{"role": 1}]),
        ("tokens", "many"), ("tokens", -3), ("seconds", [1]), ("row", {}), ("error", 0),
        ("arguments", []),
    ],
)  # fmt: skip
def test_a_changed_row_is_refused(make: Any, tmp_path: Path, name: str, value: Any) -> None:
    file = tmp_path / "rows.jsonl"
    simple.run_batch([("0",), ("1",)], save=file, backend=make("x"))
    first, second = file.read_text().splitlines()
    file.write_text("\n".join([first, json.dumps(json.loads(second) | {name: value}), ""]))
    with pytest.raises(RecordError, match=rf"line 2 of .*is no row of a batch.*{name}: "):
        simple.run_batch([("0",)], save=file, backend=make("x"))


@pytest.mark.parametrize("end", [b"\0", b"\xff\n", b"[" * 100_000 + b"\n", b'{"row": 1e999}\n'])
def test_a_damaged_end_of_saved_rows_is_refused(make: Any, tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    simple.run_batch([("0",)], save=file, backend=make("x"))
    file.write_bytes(file.read_bytes() + end)
    with pytest.raises(RecordError, match="is no row of a batch"):
        simple.run_batch([("0",)], save=file, backend=make("x"))


def test_a_file_that_cannot_be_made(fake: Any, tmp_path: Path) -> None:
    for file, what in ((tmp_path / "no" / "rows.jsonl", "is not there"), (tmp_path, "is a folder")):
        with pytest.raises(OptionError, match=rf"\.py:\d+: save='{file}' .*{what}"):
            simple.run_batch([("0",)], save=file, backend=fake)
    assert not fake.calls, "before anything runs"


def test_what_cannot_be_saved(make: Any, tmp_path: Path) -> None:
    @function
    def odd(s: Any, q: Any) -> None:
        s += "x" + gen("a")
        s["thread"] = threading.current_thread()

    file = tmp_path / "rows.jsonl"
    with pytest.raises(OptionError, match="cannot be known again"):
        odd.run_batch([(object(),)], save=file, backend=make("x"))
    with pytest.warns(UserWarning, match="will run again"):
        [state] = odd.run_batch([(1,)], save=file, backend=make("x"))
    assert state["a"] == "x" and file.read_text() == ""


@pytest.mark.parametrize("sized", [True, False])
def test_stopping_the_run_of_a_batch(make: Any, sized: bool) -> None:
    """Cancel like `%sglang cancel`, or like the time limit of a cell."""
    executor, runs = make("x", delay=lambda call: 0.0 if call.prompt < "1" else NEVER), []
    ignore = watch(runs.append)
    try:
        rows = [(str(i),) for i in range(3)] if sized else (("0",) for _ in itertools.count())
        states = simple.run_batch(rows, generator_style=True, backend=executor)
        assert next(states).text() == "0: x"
        runs[0].cancel()
        if sized:
            assert [type(state.error()) for state in states] == [Aborted, Aborted]
        else:
            with pytest.raises(Aborted, match="stopped before all rows were read"):
                list(states)
    finally:
        ignore()
    assert executor.running == 0
    assert executor.events(RunFinished)[0].status == "interrupted"


def test_an_interrupt_of_async_programs(make: Any, tmp_path: Path) -> None:
    @function
    async def program(s: Any, q: str) -> str:
        s += q + gen("a")
        return str(await s["a"])

    file, threads = tmp_path / "rows.jsonl", threading.active_count()
    executor = make("x", delay=lambda call: 0.0 if call.prompt < "1" else NEVER)
    interrupt_soon(executor, calls=3)
    with pytest.raises(KeyboardInterrupt) as caught:
        program.run_batch([("0",), ("1",), ("2",)], save=file, backend=executor)
    kinds = [type(state.error()) for state in vars(caught.value)["states"]]
    assert kinds == [type(None), Aborted, Aborted]
    assert len(file.read_text().splitlines()) == 1
    while threading.active_count() > threads + 2:  # the executor's
        time.sleep(0.01)


def test_leaving_a_generator_keeps_what_was_saved(make: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    executor = make("x", delay=lambda call: 0.0 if call.prompt < "2" else NEVER)
    states = simple.run_batch(
        [(str(i),) for i in range(4)], save=file, generator_style=True, backend=executor
    )
    assert not file.exists()
    next(states), next(states)
    states.close()
    assert len(file.read_text().splitlines()) == 2


def test_a_rerun_runs_only_failed_rows(make: Any) -> None:
    broken = {"2", "4"}

    @function
    def program(s: Any, q: str) -> None:
        s += q + gen("a")
        if q in broken:
            raise ValueError(q)

    executor = make("x")
    states = program.run_batch([{"q": str(i)} for i in range(5)], backend=executor)
    assert states.failed == [2, 4]
    before = len(executor.calls)
    broken.clear()
    again = states.rerun()
    assert sorted(call.prompt for call in executor.calls[before:]) == ["2", "4"]
    assert executor.events(RunStarted)[1].total == 2
    assert again.failed == [] and states.failed == [2, 4]
    assert [again[i] is states[i] for i in range(5)] == [True, True, False, True, False]
    assert [state["a"] for state in again] == ["x"] * 5
    assert again.rerun() == again and len(executor.events(RunStarted)) == 2
    first, second = executor.events(RunStarted)
    [numbered] = executor.events(RowsNumbered)
    assert (numbered.run, numbered.rows, numbered.earlier) == (second.run, (2, 4), first.run)


def test_rows_of_a_file_are_not_numbered_by_a_run(make: Any, tmp_path: Path) -> None:
    executor, file = make("x"), tmp_path / "rows.jsonl"
    simple.run_batch([("a",), ("b",)], save=file, backend=executor)
    simple.run_batch([("a",), ("c",), ("b",), ("d",)], save=file, backend=executor)
    [numbered] = executor.events(RowsNumbered)
    assert (numbered.rows, numbered.earlier) == ((1, 3), "")


@pytest.mark.parametrize("batch", [[], (), {"q": []}])
def test_a_batch_without_rows_needs_no_backend(batch: Any) -> None:
    states = simple.run_batch(batch)
    assert states == [] and states.failed == [] and states.rerun() == []
    assert states.columns() == {"error": [], "tokens": [], "seconds": []}
    assert list(simple.run_batch(batch, generator_style=True)) == []
    assert len(simple.run_batch(batch, as_frame=True)) == 0
    with pytest.raises(OptionError, match="num_threads"):
        simple.run_batch(batch, num_threads=0)


def test_a_rerun_in_which_every_row_fails_keeps_the_states(make: Any) -> None:
    @function
    def program(s: Any, q: str) -> None:
        s += q + gen("a")
        if q == "bad":
            raise ValueError("no")

    states = program.run_batch([("good",), ("bad",)], backend=make("x"))
    with pytest.raises(ValueError, match="no") as caught:
        states.rerun()
    again = vars(caught.value)["states"]
    assert again[0] is states[0] and again.failed == [1]


@pytest.mark.parametrize("sized", [True, False])
def test_a_rerun_goes_on_after_an_interrupt(make: Any, tmp_path: Path, sized: bool) -> None:
    executor = make("x", delay=lambda call: 0.0 if call.prompt < "3" else NEVER)
    interrupt_soon(executor, calls=5)
    rows = [{"q": "0"}, {"q": "0"}, {"q": "1"}, {"q": "3"}, {"q": "3"}]
    file = tmp_path / "rows.jsonl"
    with pytest.raises(KeyboardInterrupt) as caught:
        simple.run_batch(rows if sized else iter(rows), backend=executor, save=file)
    states = vars(caught.value)["states"]
    assert states.failed == [3, 4]
    assert [error is None for error in states.columns()["error"]] == [True] * 3 + [False] * 2
    assert list(states.frame()["q"]) == ["0", "0", "1", "3", "3"]

    executor._delay = lambda call: 0.0
    before = len(executor.calls)
    again = states.rerun()
    assert [state["a"] for state in again] == ["x"] * 5
    assert [call.prompt for call in executor.calls[before:]] == ["3: ", "3: "]
    assert len(file.read_text().splitlines()) == 5  # equal rows keep their keys


def test_columns_and_csv(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @function
    def program(s: Any, q: str) -> None:
        s += q + gen("a")
        s["parts"] = [q, 1]
        if q == "bad":
            raise ValueError('a "reason",\nin two lines')

    states = program.run_batch({"q": ["x, y", "bad", "\ud800=1+1"]}, backend=make("é\n"))
    columns = states.columns()
    assert list(columns) == ["q", "a", "parts", "error", "tokens", "seconds"]
    assert columns["a"] == ["é\n"] * 3 and columns["parts"][0] == ["x, y", 1]
    assert columns["error"][::2] == [None, None]
    frame = states.frame()
    assert {name: list(frame[name]) for name in ("q", "a", "parts")} == {
        name: columns[name] for name in ("q", "a", "parts")
    }

    with pytest.raises(OptionError, match="path=5 is not allowed"):
        states.csv(5)
    file = states.csv(tmp_path / "rows.csv")
    with file.open(newline="", encoding="utf-8") as lines:
        read = list(csv.reader(lines))
    assert read[0] == list(columns) and len(read) == 4
    assert read[1][:4] == ["x, y", "é\n", '["x, y", 1]', ""]
    assert read[2][3] == 'ValueError: a "reason",\nin two lines'
    assert read[3][0] == "\\ud800=1+1"
    text = states.csv_text().encode(errors="backslashreplace")
    assert text == file.read_bytes()

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match=r"pip install 'sgnb\[frame\]', or read states.columns"):
        states.frame()
    assert states.columns() == columns
