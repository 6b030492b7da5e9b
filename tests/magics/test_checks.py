"""`%sglang check` and `sgnb.check`: verdicts, changes since the last check, traces, errors."""

from __future__ import annotations

import json
import threading
import time
from fractions import Fraction
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgnb
from sgnb import gen, select
from sgnb.benchmark.stats import share_interval
from sgnb.errors import OptionError
from sgnb.magics.answer_checks import same_value
from sgnb.magics.complete import line_words
from sgnb.magics.help_texts import line_help
from sgnb.magics.session import SESSION

ROWS = [
    {"word": "one", "want": "one"},
    {"word": "two", "want": "two"},
    {"word": "six", "want": "6"},
]
ECHO = """%%sglang echo word
s += "Say " + word + ":" + gen("said", regex=word)
"""


@pytest.fixture
def echo(shell: Any) -> Any:
    shell("%sglang load tiny")
    SESSION.check._last.clear()
    shell(ECHO)
    shell.ns["rows"] = ROWS
    return shell


def test_a_column(echo: Any) -> None:
    report = echo("%sglang check echo --over rows --expect want -o kept")
    assert report is echo.ns["kept"]
    assert [row.verdict for row in report.rows] == ["right", "right", "wrong"]
    assert (report.right, report.wrong, report.errors, report.changed) == (2, 1, 0, [])
    assert report.lines == ["echo: 2 of 3 right (67%; 95% interval 9% to 99%)"]
    assert report.rows[2].answer == "six" and report.rows[2].expected == "6"
    assert [row["#"] for row in report.table()] == [2, 0, 1]
    text = repr(report)
    assert "2 of 3 right" in text and "six" in text
    frame = report.frame()
    assert list(frame["verdict"]) == ["right", "right", "wrong"]
    assert list(frame.columns)[:3] == ["word", "want", "answer"]


def test_a_function_and_changes(echo: Any) -> None:
    echo.ns["short"] = lambda state, row: len(state["said"]) == 3 and row["word"] != "two"
    first = echo("%sglang check echo --over rows --expect short")
    assert [row.verdict for row in first.rows] == ["right", "wrong", "right"]
    echo(ECHO.replace("regex=word", "regex='two'"))
    second = echo("%sglang check echo --over rows --expect want")
    assert [row.changed for row in second.rows] == [
        "right → wrong",
        "wrong → right",
        "right → wrong",
    ]
    assert second.changed == [0, 1, 2]
    assert second.lines[1] == ("3 rows checked before: 2 right → wrong, 1 wrong → right")
    third = sgnb.check(
        echo.ns["echo"], over=[*ROWS[:1], {"word": "new", "want": "x"}], expect="want"
    )
    assert [row.previous is None for row in third.rows] == [False, True]
    assert third.lines[1] == "1 row checked before: no row changed"


def test_equal_rows_are_compared_in_order(echo: Any) -> None:
    rows = [{"word": "a", "want": "a"}, {"word": "a", "want": "a"}]
    sgnb.check(echo.ns["echo"], over=rows, expect="want")
    again = sgnb.check(echo.ns["echo"], over=rows[:1], expect=lambda state, row: False)
    assert [row.changed for row in again.rows] == ["right → wrong"]


def test_errors_are_counted_and_named_once(echo: Any) -> None:
    def fails(state: Any, row: Any) -> bool:
        if row["word"] != "one":
            raise KeyError("absent")
        return True

    report = sgnb.check(echo.ns["echo"], over=ROWS, expect=fails)
    assert [row.verdict for row in report.rows] == ["right", "error", "error"]
    assert report.lines == [
        "echo: 1 of 1 right (100%; 95% interval 3% to 100%) · 2 with an error, not counted",
        "KeyError: 'absent': row 1 and 1 more",
    ]
    none = sgnb.check(echo.ns["echo"], over=ROWS, expect=lambda state, row: None)
    assert none.errors == 3 and len(none.lines) == 3 and "returned None" in none.lines[2]


def test_a_program_that_fails(shell: Any) -> None:
    @sgnb.function
    def half(s: Any, n: int) -> None:
        s += "Once" + gen("a", max_tokens=1)
        if n:
            raise ValueError("no")

    report = sgnb.check(half, over=[(0,), (1,)], expect=lambda state, row: row["n"] == 0)
    assert [row.verdict for row in report.rows] == ["right", "error"]
    whole = sgnb.check(half, over=[(1,), (2,)], expect=lambda state, row: True)
    assert whole.errors == 2 and whole.lines[2] == "ValueError: no: row 0 and 1 more"


def test_a_data_frame_and_values_of_other_types(shell: Any) -> None:
    pandas = pytest.importorskip("pandas")

    @sgnb.function
    def count(s: Any, word: str) -> None:
        s += word + " has" + select("letters", ["3", "5"])

    frame = pandas.DataFrame({"word": ["one", "three"], "letters": [3, 5], "other": ["a", "b"]})
    report = sgnb.check(count, over=frame, expect="letters")
    assert report.right + report.wrong == 2
    for row in report.rows:
        assert (row.verdict == "right") == (int(row.answer) == row.expected)
    assert list(report.frame().columns)[:3] == ["word", "letters", "other"]
    missing = pandas.DataFrame({"word": ["one"], "letters": [float("nan")]})
    assert "no value in the column" in sgnb.check(count, missing, "letters").lines[1]


def test_a_trace_shows_one_row(echo: Any, tmp_path: Any) -> None:
    report = echo("%sglang check echo --over rows --expect want")
    trace = report.trace(1)
    text = trace.text()
    assert "echo, row 1" in text and "Say two" in text and "Say one" not in text.split("radix")[0]
    saved = trace.save(tmp_path / "row.jsonl")
    assert sgnb.open_recording(saved).text() == text
    with pytest.raises(OptionError, match="no row 3"):
        report.trace(3)
    assert len(sgnb.recording(report.run).states.runs[report.run].rows) == 3


@pytest.mark.slow
def test_an_interrupt_keeps_the_finished_rows(echo: Any, capsys: Any, monkeypatch: Any) -> None:
    def interrupt(self: Any, line: str) -> None:
        if line == "2 of 3 rows of echo":
            raise KeyboardInterrupt

    monkeypatch.setattr("sgnb.magics.progress_line.ChangingLine.show", interrupt)
    later = threading.Event()
    echo.ns |= {"passes": lambda state, row: True, "later": later}
    echo(ECHO + "s['said']\nif word == 'six': later.wait(20)\n")
    later_set = threading.Timer(5, later.set)
    later_set.start()
    echo.fails("%sglang check echo --over rows --expect passes -o kept")
    report = echo.ns["kept"]
    assert report.right == 2 and report.counts["stopped"] == 1
    assert "1 stopped, not counted" in capsys.readouterr().out
    assert not SESSION.runs.running()


@pytest.mark.parametrize(
    "line, message",
    [
        ("ecco --over rows --expect want", "no program is called 'ecco'"),
        ("echo --expect want", "needs --over"),
        ("echo --over rows", "needs --expect"),
        ("echo --over rows --expect wnt", "did you mean 'want'?"),
        ("echo --over [] --expect want", "there are no rows"),
        ("echo --over iter([]) --expect want", "there are no rows"),
        ("echo --over 5 --expect want", "not a batch"),
        ("echo --over rows --expect word2", "neither a column of the rows nor a function"),
        ("echo --over rows --expect both", "is a column of the rows and a function"),
        ("echo --over rows --expect one", "does not fit"),
        ("echo --over [('a','b')] --expect one", "row 0 has 2 values"),
        ("rows --over rows --expect want", "is not a program"),
        ("echo --over rows --expect 'a b'", "is not a Python name"),
    ],
)
def test_what_cannot_be_checked_is_refused(echo: Any, line: str, message: str) -> None:
    echo.ns |= {"both": lambda state, row: True, "one": lambda state: True}
    echo.ns["rows"] = [{**row, "both": "x"} for row in ROWS]
    assert message in "\n".join(echo.fails(f"%sglang check {line}"))


def test_python_refuses_too(echo: Any) -> None:
    with pytest.raises(OptionError, match="no column 'wnt'"):
        sgnb.check(echo.ns["echo"], over=ROWS, expect="wnt")
    with pytest.raises(OptionError, match="is not a function"):
        sgnb.check(echo.ns["echo"], over=ROWS, expect=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "over, message",
    [
        ([{"word": "one", "want": "one", 1: 2}], "row 0 has the column 1, which is not a text"),
        ([{1: 2}], "row 0 has the column 1, which is not a text"),
        (None, "None is no batch"),
        (3, "3 is no batch"),
        ("text", "'text' is no batch"),
        ([3], "3 is no set of arguments"),
    ],
    ids=str,
)
def test_rows_are_judged_before_the_run(echo: Any, over: Any, message: str) -> None:
    before = len(sgnb.runs())
    with pytest.raises(OptionError, match=message):
        sgnb.check(echo.ns["echo"], over=over, expect="want")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(OptionError, match="row 0 has the column 0, which is not a text"):
        sgnb.check(echo.ns["echo"], over=pandas.DataFrame([["one", "one"]]), expect="want")
    assert len(sgnb.runs()) == before


def test_iterators_and_nested_values_are_rows(echo: Any) -> None:
    rows = [{**row, "nested": {1: 2, "a": {3}}} for row in ROWS]
    for over in (iter(rows), (row for row in rows)):
        assert sgnb.check(echo.ns["echo"], over=over, expect="want").right == 2
    again = sgnb.check(echo.ns["echo"], over=tuple(rows), expect="want")
    assert again.lines[1] == "3 rows checked before: no row changed"


def test_model_text_is_escaped(echo: Any) -> None:
    echo(ECHO.replace("regex=word", "regex='<img src=x onerror=alert[(]1[)]>'"))
    html = echo("%sglang check echo --over rows --expect want")._repr_html_()
    assert "<img" not in html and "&lt;img src=x" in html


@given(st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False), st.text()))
def test_a_value_equals_its_own_json(value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    assert same_value(f" {text}\n", value)
    assert not same_value(f"{text}x", value)


def test_numbers_and_truth_differ() -> None:
    assert not same_value("1", True) and not same_value("true", 1)
    assert same_value("[1, 2]", [1, 2]) and not same_value("[1, 2", [1, 2])
    assert same_value(5, 5) and not same_value(5, 6)


def test_it_is_completed_and_in_the_help() -> None:
    assert {"--expect", "--over"} <= {*line_words(["check", "echo"], SESSION)}
    assert "%sglang check PROGRAM" in line_help()


@given(st.integers(1, 60), st.data())
def test_the_interval_of_a_share_is_exact(trials: int, data: Any) -> None:
    """The bounds are the shares with a tail of 2.5 % beyond the observed number, in fractions."""
    count = data.draw(st.integers(0, trials))
    low, high, _ = share_interval(count, trials)

    def at_least(k: int, p: float) -> float:
        share = Fraction(p)
        terms = (
            comb(trials, i) * share**i * (1 - share) ** (trials - i) for i in range(k, trials + 1)
        )
        return float(sum(terms))

    assert low <= count / trials <= high
    assert at_least(count, low) == pytest.approx(0.025, rel=1e-6) if count else low == 0
    assert (
        at_least(count + 1, high) == pytest.approx(0.975, rel=1e-6) if count < trials else high == 1
    )


def test_the_interval_of_many_rows_takes_a_moment() -> None:
    begin = time.process_time()
    low, high, _ = share_interval(2500, 5000)
    assert time.process_time() - begin < 2
    assert low == pytest.approx(0.486044, abs=1e-6) and high == pytest.approx(0.513956, abs=1e-6)
    assert share_interval(0, 0)[:2] == (0, 1)
