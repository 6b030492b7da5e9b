"""Runs of a cell are kept and compared, and the text of an unchanged cell stays the same."""

from __future__ import annotations

import difflib
import itertools
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import sgnb
from sgnb.errors import OptionError
from sgnb.magics.recordings import RUNS_OF_A_CELL
from sgnb.viz import Recording

from .conftest import Shell

CELL = """%%sglang {name} --show text --temperature 0
s += "The capital of {country} is {word}. City:"
s += gen("city", max_tokens=6)
s += " More:" + gen("more", max_tokens=4)
"""
CELLS = {
    "one": "s += 'The capital of Italy is'\ns += gen('city', max_tokens=12)\n",
    "forks": "s += 'Two tips.'\nb = s.fork(2)\nb += lambda i: f' Tip {i}:'\n"
    "b += gen('tip', max_tokens=8)\nb.join()\ns += ' End' + gen('e', max_tokens=4)\n",
    "grammar": "s += 'A date: '\ns += gen('d', regex=r'[0-9]{4}-[0-9]{2}', max_tokens=12)\n",
}
BATCH = (
    "%%sglang ask q:str --over ['Rome','Oslo','Paris','Bern','Wien','Prag'] --temperature 0\n"
    "s += f'The city {q} is'\ns += gen('city', max_tokens=6)\n"
)
CHANGED_LINES = 5
"""Lines of a saved text that a rerun may change: figures and times, not texts."""


def run(shell: Shell, name: str = "asked", country: str = "Italy", word: str = "nice") -> str:
    shell(CELL.format(name=name, country=country, word=word))
    return str(sgnb.runs()[-1]["run"])


def test_a_changed_line_is_the_cause_of_computed_tokens(shell: Shell) -> None:
    shell("%sglang cache flush")
    first, second = run(shell), run(shell, word="fine")
    report = shell("%sglang runs compare")
    assert (report.earlier, report.later) == (first, second)
    assert [(c.mark, c.place) for c in report.source if c.mark != "="] == [("-", 2), ("+", 2)]
    kept = "".join(c.text for c in report.text if c.mark != "-")
    old = "".join(c.text for c in report.text if c.mark != "+")
    assert kept == shell.ns["s"].text() and " is nice. City:" in old
    computed = {tokens.cause for tokens in report.computed}
    assert any(
        cause.startswith("changed line 2: ' fine' instead of ' nice', at token")
        for cause in computed
    )
    rows = report.table()
    assert [row["variant"] for row in rows] == [first, second]
    ranges = [tokens.end - tokens.begin for tokens in report.computed]
    assert sum(ranges) == rows[1]["computed_tokens"], "each computed token has a cause"
    for text in ("changed lines", "changed text [0]", "computed prompt tokens instead of"):
        assert text in repr(report)


def test_a_flush_and_an_unchanged_run(shell: Shell) -> None:
    run(shell)
    run(shell)
    report = sgnb.runs.compare()
    assert report.source == [] and {change.mark for change in report.text} == {"="}
    assert {tokens.end - tokens.begin for tokens in report.computed} == {1}
    shell("%sglang cache flush")
    run(shell)
    report = sgnb.runs.compare()
    causes = [tokens.cause for tokens in report.computed]
    assert any("has the same tokens, which are no longer cached" in cause for cause in causes)
    assert "the text is the same" in report.findings


def test_other_text_of_an_earlier_call_is_a_cause(shell: Shell) -> None:
    cell = (
        "%%sglang drawn --show text --temperature 2 --seed {seed}\n"
        "s += 'I think'\ns += gen('start', max_tokens=8, ignore_eos=True)\n"
        "s += ' and then a long way home'\ns += gen('end', max_tokens=2)\n"
    )
    shell("%sglang cache flush")
    shell(cell.format(seed=1))
    shell(cell.format(seed=8))
    causes = {tokens.cause.partition(":")[0] for tokens in sgnb.runs.compare().computed}
    assert "other text of start" in causes


def test_other_arguments_are_a_cause(shell: Shell) -> None:
    shell("%%sglang told q --show text\ns += 'I like ' + q + gen('a', max_tokens=2)\n")
    told = shell.ns["told"]
    told(q="long walks")
    told(q="deep seas")
    [cause, *_] = [tokens.cause for tokens in sgnb.runs.compare().computed]
    assert cause.startswith("other arguments, q='deep seas' instead of q='long walks': ")


def test_a_cell_keeps_ten_runs(shell: Shell) -> None:
    ids = [run(shell, name="many") for _ in range(RUNS_OF_A_CELL + 2)]
    assert sgnb.runs.of_cell() == ids[-RUNS_OF_A_CELL:]
    other = run(shell, name="other_cell")
    assert sgnb.runs.of_cell() == [other]
    assert shell(f"%sglang runs compare {ids[-3]} {ids[-1]}").earlier == ids[-3]
    assert sgnb.runs.of_cell(ids[-1]) == ids[-RUNS_OF_A_CELL:]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compare", "has no earlier run of the same cell"),
        ("compare nosuch", "there is no recording of 'nosuch'"),
        ("compare last last", "both runs are run"),
        ("compare a b c", "'c' is not expected"),
        ("comparee", "%sglang runs has no 'comparee'"),
    ],
)
def test_mistakes(shell: Shell, line: str, message: str) -> None:
    run(shell, name="alone" + line[-1])
    shown = shell.fails(f"%sglang runs {line}")
    assert message in shown[0] and shown[-1].startswith("hint: ")


def test_a_run_is_named_by_its_id_or_its_states(shell: Shell) -> None:
    id = run(shell, name="by_state")
    state = shell.ns["s"]
    assert {sgnb.recording(one).run for one in ("last", id, state, state.program.run)} == {id}
    assert sgnb.tour(state).run == sgnb.tour(state.program.run).run == id
    assert sgnb.runs.of_cell(state) == [id]
    with pytest.raises(OptionError, match=f"both runs are {id}"):
        sgnb.runs.compare(state, state)

    shell("%%sglang asked q --over ['Rome', 'Oslo'] --show text\ns += q + gen('a', max_tokens=2)\n")
    states = shell.ns["s"]
    assert sgnb.recording(states).run == states[1].run_id == sgnb.runs()[-1]["run"]


@pytest.mark.parametrize("value", [None, 3, [], {"run": 1}], ids=str)
def test_another_value_is_no_run(shell: Shell, value: Any) -> None:
    run(shell, name="of_values")
    calls = [sgnb.tour, sgnb.recording, sgnb.runs.of_cell, lambda one: sgnb.runs.compare(one, "")]
    for call in [*calls, lambda one: sgnb.runs.compare("last", one)]:
        with pytest.raises(OptionError, match="is not allowed") as caught:
            call(value)
        assert caught.value.hint == "run must be the id of a run, a run, or the state of a program"
    with pytest.raises(OptionError, match="no view is called"):
        sgnb.recording().picture(value)


def test_a_recording_without_the_start_is_refused(shell: Shell) -> None:
    first, second = run(shell, name="cut"), run(shell, name="cut")
    recording = sgnb.recording(first)
    sgnb.recordings._runs[first].drop(len(recording.lines))
    with pytest.raises(OptionError, match="no longer have the start"):
        sgnb.runs.compare(first, second)
    assert isinstance(sgnb.recording(second), Recording)


def saved_text(cell: Any) -> list[str]:
    lines: list[str] = []
    for output in cell.outputs:
        lines += output.get("data", {}).get("text/plain", "").splitlines()
        lines += output.get("text", "").splitlines()
    return lines


@pytest.mark.slow
def test_a_rerun_of_an_unchanged_cell_changes_few_lines() -> None:
    bodies = [f"%%sglang --temperature 0\n{body}" for body in CELLS.values()]
    sources = ["%load_ext sgnb\n%sglang load tiny", *bodies, BATCH]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    client = NotebookClient(book, timeout=200)
    with client.setup_kernel():
        client.execute_cell(book.cells[0], 0)
        for index, cell in enumerate(book.cells[1:], 1):
            texts = []
            for _ in range(3):
                client.execute_cell(cell, index)
                texts.append(saved_text(cell))
            for before, after in itertools.pairwise(texts):
                assert len(before) == len(after) > 5
                changed = [line for line in difflib.ndiff(before, after) if line[0] == "+"]
                assert len(changed) <= CHANGED_LINES, "\n".join(changed)
