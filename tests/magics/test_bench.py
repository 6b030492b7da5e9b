"""`%sglang bench` and `sgnb.bench` on the bundled model: lines, frame, picture, errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

import sgnb
from sgnb.benchmark import Measurements, Workload
from sgnb.benchmark.measurement import TimedRun
from sgnb.benchmark.plot import png
from sgnb.errors import OptionError
from sgnb.magics.bench import BenchReport
from sgnb.magics.complete import line_words
from sgnb.magics.help_texts import line_help
from sgnb.magics.session import SESSION

ASK = """%%sglang ask q --temperature 0
s += "Answer in one word. " * 20 + q
s += gen("a", max_tokens=2, ignore_eos=True)
"""
LINE = "%sglang bench ask --over list('abc') --repeats 2 --vs "


@pytest.fixture
def ask(shell: Any) -> Any:
    shell(ASK)
    return shell


def made(rounds: int = 8, stopped: bool = False, name: str = "made up") -> BenchReport:
    """A report of made-up times."""
    workload = Workload(name, None, claims={"nocache": "examples are computed once"})
    measured = Measurements(workload, rounds + stopped, rows=3, tokens=1200)
    measured.titles = {"as it is": "as it is", "nocache": "without the prefix cache"}
    measured.titles["nojump"] = "without jump-forward"
    measured.refused["nojump"] = "cannot differ: no token was forced by a grammar"
    for turn in range(rounds):
        for place, (name, seconds) in enumerate({"as it is": 0.5, "nocache": 1.5}.items()):
            counts = {"computed_tokens": 100 if name == "as it is" else 1000}
            measured.samples.append(TimedRun(turn, place, name, seconds + turn / 100, counts))
    return BenchReport(measured, {"model": "tiny", "seeds": "none: temperature 0"})


def test_a_line_measures_a_cells_program(ask: Any) -> None:
    report = ask(f"{LINE}nocache,nojump -o kept")
    assert ask.ns["kept"] is report
    assert [row["variant"] for row in report.rows] == ["as it is", "nocache", "nojump"]
    assert report.rows[1]["times"] > 0 and report.rows[2]["verdict"] == "not compared"
    assert report.lines[0].startswith("ask, 3 rows, 6 tokens generated: ")
    assert "nojump: not compared, cannot differ" in "\n".join(report.lines)
    assert report.conditions["model"].startswith("tiny, float32 on cpu")
    assert set(report.conditions) == {"model", "machine", "versions", "date", "seeds"}


@pytest.mark.slow
def test_the_papers_workloads_by_name(shell: Any) -> None:
    found = shell("%sglang bench json,scheduling --paper --repeats 1 -o kept")
    assert shell.ns["kept"] is found
    assert [row["without"] for row in found] == ["jump-forward", "cache-aware scheduling"]
    assert all(float(row["times"]) > 0 and row["claim"] for row in found)
    assert [row["found"] for row in found] == ["too few rounds"] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%sglang bench", "PROGRAM, or --paper"),
        ("%sglang bench hellaswg --paper", "did you mean 'hellaswag'"),
        ("%sglang bench --paper --vs nocache", "--vs has no effect"),
        ("%sglang bench json --paper --repeats 0", "repeats=0 is not allowed"),
    ],
)
def test_what_the_papers_workloads_refuse(shell: Any, line: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        shell(line)


def test_the_notebooks_cache_stays_as_it_is(ask: Any) -> None:
    ask("ask.run(q='a').text()")
    before = sgnb.cache.stats()["cached"]
    ask(f"{LINE}nocache")
    assert sgnb.cache.stats()["cached"] == before > 0


def test_the_frame_has_a_row_for_each_run(ask: Any) -> None:
    frame = ask(f"{LINE}itself").frame
    assert list(frame["variant"]) == ["as it is", "itself", "itself", "as it is"]
    assert list(frame["round"]) == [0, 0, 1, 1] and list(frame["place"]) == [0, 1, 0, 1]
    assert (frame["seconds"] > 0).all() and (frame["computed_tokens"] > 100).all()


def test_the_python_twin_takes_programs_and_workloads(ask: Any) -> None:
    @sgnb.function
    def other(s: Any, q: str) -> None:
        s += "Answer in one word. " * 20 + q
        s += sgnb.gen("a", max_tokens=2, ignore_eos=True, temperature=0)

    report = sgnb.bench(ask.ns["ask"], [("a",)], vs=[other], repeats=1, clock="cpu")
    assert report.measured.titles["other"] == "with the program other"
    assert "in processor time" in report.lines[0]
    small = {"max_total_tokens": 300, "max_running_requests": 1}
    workload = Workload("small", other, [("a",), ("b",)], {"nocache": "it is shared"}, engine=small)
    report = sgnb.bench(workload, repeats=1)
    assert report.rows[0]["variant"] == "as it is" and report.rows[1]["variant"] == "nocache"
    assert "loaded with max_total_tokens=300, max_running_requests=1" in report.conditions["model"]
    assert report.lines[-1].startswith("Claim: it is shared: ")


def test_what_was_found_is_said_in_sentences() -> None:
    lines = made().lines
    assert lines[0] == (
        "made up, 3 rows, 1,200 tokens generated: 535 ms as it is (median; 500 ms to 570 ms;"
        " 8 rounds in turns, each run with an empty cache)"
    )
    assert lines[1] == (
        "nocache: Without the prefix cache it takes 2.87 times as long (99.2% interval 2.75 to"
        " 3.00); 1,000 tokens computed instead of 100"
    )
    assert lines[3].startswith("Certainty: 99.2 of a hundred such intervals contain the true")
    assert lines[4] == "Claim: examples are computed once: seen here"
    few = made(3).lines
    assert "in too few rounds to be sure" in few[1]
    assert few[3] == "8 rounds or more give intervals of 99%."


def test_the_picture_says_everything(monkeypatch: Any) -> None:
    monkeypatch.setattr("sgnb.magics.bench.in_kernel", lambda: True)
    report = made()
    picture = report.plot()
    texts = [text.get_text() for text in picture.texts]
    texts += [text.get_text() for text in picture.axes[0].texts]
    for said in (
        "made up, 3 rows, 1,200 tokens generated: 535 ms as it is",
        "without the prefix cache",
        "2.87 times",
        "99.2%: 2.75 to 3.00",
    ):
        assert said in texts
    for begun in ("nojump: not compared", "model: tiny", "seeds: none", "Claim: examples"):
        assert any(text.startswith(begun) for text in texts)
    edge = picture.get_window_extent()
    picture.canvas.draw()
    for text in (*picture.texts, *picture.axes[0].texts):
        box = text.get_window_extent()
        assert edge.x0 <= box.x0 and box.x1 <= edge.x1, text
        assert edge.y0 <= box.y0 and box.y1 <= edge.y1, text
    bundle, metadata = DisplayFormatter().format(report)
    assert set(bundle) == {"text/plain", "image/png"} and metadata["image/png"]["width"] == 860


def test_the_picture_reads_no_formulas_and_no_brackets_of_a_name() -> None:
    picture = made(name="$x_$ (DSPy)").plot()
    assert png(picture).startswith(b"\x89PNG")
    title, how, *_ = (text.get_text() for text in picture.texts)
    assert title.startswith("$x_$ (DSPy), 3 rows") and title.endswith(": 535 ms as it is")
    assert how.startswith("median; 500 ms") and how.endswith("with an empty cache")


def test_names_have_blanks_between_them_and_a_technique_is_no_variable(ask: Any) -> None:
    ask.ns["itself"] = ask.ns["ask"]
    report = ask(f'{LINE}"nojump, itself"')
    assert report.measured.titles["itself"] == "with nothing changed"
    assert set(report.measured.refused) == {"nojump"}


def test_an_interrupt_leaves_the_workloads_of_the_paper_that_were_measured(
    shell: Any, monkeypatch: Any, capsys: Any
) -> None:
    reports = iter([made(name="first")])

    def benchmark(*_: Any) -> BenchReport:
        if (report := next(reports, None)) is None:
            raise KeyboardInterrupt
        return report

    monkeypatch.setattr("sgnb.magics.session.benchmark", benchmark)
    shell.fails("%sglang bench --paper -o kept")
    assert {row["workload"] for row in shell.ns["kept"]} == {"first"}
    assert "examples are computed once" in capsys.readouterr().out


def test_without_matplotlib_and_pandas_there_is_a_table(monkeypatch: Any) -> None:
    monkeypatch.setattr("sgnb.magics.bench.in_kernel", lambda: True)
    for name in ("matplotlib", "matplotlib.figure", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("sgnb.magics.bench.find_spec", lambda name: None)
    report = made()
    bundle, _ = DisplayFormatter().format(report)
    assert "<table>" in bundle["text/html"] and "2.87 times" in bundle["text/plain"]
    with pytest.raises(OptionError, match="frame needs pandas"):
        _ = report.frame
    with pytest.raises(OptionError, match=r"plot\(\) needs matplotlib"):
        report.plot()


def test_an_interrupt_keeps_what_was_measured(ask: Any, capsys: Any) -> None:
    ask.ns["count"] = iter(range(100))
    ask(
        ASK.replace("ask", "stopped")
        + "s['a']\nif next(count) == 5: raise KeyboardInterrupt\n"
    )  # fmt: skip
    ask.fails("%sglang bench stopped --over ['a'] --vs itself --repeats 9 -o kept")
    assert ask.ns["kept"].measured.done == 1
    assert "one round of 9, then it was stopped" in capsys.readouterr().out
    assert not SESSION.runs.running()


@pytest.mark.parametrize(
    "line, message",
    [
        ("nothing", "no program is called 'nothing'"),
        ("ask --over ['a'] --vs nocash", "not a variant"),
        ("ask --over ['a'] --vs ,", "vs is empty"),
        ("number --over ['a']", "5 is not a program"),
        ("load --over ['a']", "is a workload with its own rows"),
        ("ask --over ['a'] --repeats 0", "repeats=0 is not allowed"),
        ("ask --over ['a'] --clock sun", "clock='sun' is not valid"),
        ("ask --over ['a'] --same size", "same='size' is not allowed"),
        ("ask --over ['a'] --vs http://x --clock cpu", "runs in another process"),
        ("ask --over ['a'] --temperature 1", "is sampled without a seed"),
        ("ask --over []", "ran nothing"),
        ("ask", "missing"),
        ("", "needs a program"),
    ],
)
def test_what_cannot_be_measured_is_refused(ask: Any, line: str, message: str) -> None:
    ask.ns |= {"number": 5, "load": Workload("load", ask.ns["ask"])}
    assert message in "\n".join(ask.fails(f"%sglang bench {line}"))


def test_it_is_completed_and_in_the_help() -> None:
    assert "--vs" in line_words(["bench", "ask"], SESSION)
    assert "nooverlap" in line_words(["bench", "ask", "--vs"], SESSION)
    assert "%sglang bench [PROGRAM]" in line_help() and "guidance" in line_help()
