"""`sgnb.lab` and `%sglang lab`: controls, a grid that runs each pair once, ratings, stops."""

from __future__ import annotations

import enum
import sys
import threading
from typing import Any, Literal

import pytest

import sgnb
from sgnb import gen
from sgnb.errors import OptionError
from sgnb.magics.complete import line_words
from sgnb.magics.help_texts import line_help
from sgnb.magics.lab_controls import Control, controls_of, setting_controls
from sgnb.magics.lab_view import LabView
from sgnb.magics.session import SESSION


class Tone(enum.Enum):
    calm = 1
    loud = 2


@sgnb.function
def typed(
    s: Any,
    topic: str,
    n: int = 2,
    share: float = 0.5,
    loud: bool = True,
    style: Literal["short", "long"] = "long",
    tone: Tone = Tone.loud,
    words: list[str] = ["a"],  # noqa: B006
    limit: int | None = None,
    guess=3,  # type: ignore[no-untyped-def]
    *rest: Any,
) -> None:
    s += topic + gen("a", max_tokens=n)


@sgnb.function
def count(s: Any, word: str, tail: str = "") -> None:
    s += f"Count: {word}{tail}" + gen("next", max_tokens=3, ignore_eos=True)


@pytest.fixture
def runs(shell: Any) -> Any:
    """Function that returns the number of programs begun since the last call."""
    shell("%sglang load tiny")

    def since() -> int:
        total = sum(run.finished for run, *_ in SESSION.runs._runs)
        SESSION.runs._runs.clear()
        return total

    since()
    return since


def test_a_control_per_parameter() -> None:
    assert controls_of(typed) == [
        Control("topic", "text", ""),
        Control("n", "integer", 2),
        Control("share", "number", 0.5),
        Control("loud", "checkbox", True),
        Control("style", "choice", "long", (("short", "short"), ("long", "long"))),
        Control("tone", "choice", Tone.loud, (("calm", Tone.calm), ("loud", Tone.loud))),
        Control("words", "literal", "['a']"),
        Control("limit", "literal", "None"),
        Control("guess", "integer", 3),
    ]
    assert controls_of(typed.bind(topic="x", n=1))[0].name == "share"


def test_controls_of_a_cell_and_of_settings(shell: Any) -> None:
    shell("%%sglang each q:str n:int=4 long=" + repr("x" * 60) + "\ns += q\n")
    kinds = [(c.name, c.kind) for c in controls_of(shell.ns["each"])]
    assert kinds == [("q", "text"), ("n", "integer"), ("long", "long text")]
    names = [c.name for c in setting_controls(("seed",), ["tiny", "other"])]
    assert names == ["seed", "model"]
    assert [c.name for c in setting_controls(("seed",), ["tiny"])] == ["seed"]


def test_texts_are_read() -> None:
    optional, literal = Control("seed", "optional number", ""), Control("xs", "literal", "[]")
    assert optional.read(" ") is None and optional.read("3") == 3 and literal.read("[1]") == [1]
    for control, text in ((optional, "x"), (optional, "'3'"), (literal, "[1"), (optional, "True")):
        with pytest.raises(OptionError, match=f"{control.name}: .* is not a"):
            control.read(text)


def test_a_grid_runs_each_pair_once(runs: Any) -> None:
    rows = [{"word": "one"}, {"word": "two"}, {"word": "one"}]
    lab = sgnb.lab(count, rows=rows, grid={"temperature": [0, 0.0], "max_tokens": [1, 2]})
    assert len(lab.rows) == 2 and len(lab.settings) == 2 and lab.line() == "0 of 4 done"
    lab.run()
    assert runs() == 4 and lab.line() == "4 of 4 done"
    lab.run()
    assert runs() == 0
    lab.run(word="six")
    assert runs() == 2 and len(lab.cells) == 6
    direct = count.run(word="two", temperature=0, max_tokens=2)
    [pair] = [p for p in lab.cells if p.row["word"] == "two" and p.setting["max_tokens"] == 2]
    assert pair.answer == direct["next"].strip() and pair.state is not None
    assert [*lab.table()[0]] == [
        "row",
        "temperature=0, max_tokens=1",
        "temperature=0, max_tokens=2",
    ]


def test_arguments_programs_and_models_in_the_grid(runs: Any) -> None:
    @sgnb.function
    def other(s: Any, word: str, tail: str = "") -> None:
        s += word + gen("next", max_tokens=1)

    grid = {"program": [count, other], "tail": [".", "!"], "model": ["tiny"]}
    lab = sgnb.lab(count, rows=[("one",)], grid=grid).run()
    assert lab.line() == "4 of 4 done"
    assert [pair.values()["program"] for pair in lab.cells] == ["count", "count", "other", "other"]
    assert "Count: one!" in lab.cells[1].state.text()
    assert "Count" not in lab.cells[3].state.text()


def test_errors_stay_in_their_pair(runs: Any, capsys: Any) -> None:
    @sgnb.function
    def half(s: Any, n: int) -> None:
        s += "Once" + gen("a", max_tokens=1)
        if n == 1:
            raise ValueError("no <b>luck</b>")

    lab = sgnb.lab(half, rows=[(0,), (1,)], grid={"seed": [1, 2]}).run()
    assert lab.line() == "2 of 4 done, 2 error"
    assert repr(lab).count("ValueError: no") == 2
    html = lab._repr_html_()
    assert "<b>luck" not in html and "&lt;b&gt;luck" in html
    shown = capsys.readouterr()
    assert "ValueError" not in shown.out + shown.err
    runs()
    lab.run()
    assert runs() == 2  # failed pairs run again
    whole = sgnb.lab(half, rows=[(1,)], grid={"seed": [1]}).run()
    assert whole.line() == "0 of 1 done, 1 error"


def test_ratings(runs: Any, monkeypatch: Any) -> None:
    pytest.importorskip("pandas")
    lab = sgnb.lab(count, rows=[("one",), ("two",)], grid={"temperature": [0]}).run()
    assert len(lab.ratings) == 0
    lab.rate(1, "good", "short")
    lab.rate(0, 4)
    frame = lab.ratings
    assert list(frame.columns) == ["word", "temperature", "answer", "error", "rating", "note"]
    assert list(frame["rating"]) == [4, "good"] and list(frame["note"]) == ["", "short"]
    assert len(lab.frame()) == 2 and "[good: short]" in repr(lab)
    lab.rate(0, None)
    assert len(lab.ratings) == 1
    lab.run(word="six")
    assert list(lab.ratings["word"]) == ["two"]
    for rating in ("great", 6, True, 2.5, [], {}):
        with pytest.raises(OptionError, match="is not a rating"):
            lab.rate(0, rating)
    with pytest.raises(OptionError, match="no pair 9"):
        lab.rate(9, "good")
    for cell in ([], True, "1", None, -1):
        with pytest.raises(OptionError, match=r"cell=.* is not allowed"):
            lab.rate(cell, 1)  # type: ignore[arg-type]
    assert [pair.rating for pair in lab.cells] == [None, "good", None]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert lab.ratings == [lab.cells[1].values()]
    with pytest.raises(OptionError, match="needs pandas"):
        lab.frame()


def test_a_running_grid_is_stopped_and_continued(runs: Any) -> None:
    gate = threading.Event()

    @sgnb.function
    def waits(s: Any, n: int) -> None:
        s += "Once" + gen("a", max_tokens=2, ignore_eos=True)
        s["a"]
        if n == 1 and not gate.is_set():
            s += gen("more", max_tokens=4000, ignore_eos=True)

    lab = sgnb.lab(waits, rows=[(0,), (1,)], grid={"seed": [1, 2]})
    lab.start()
    with pytest.raises(OptionError, match="running already"):
        lab.start()
    while lab.cells[0].status != "done":
        lab.update()
        assert not lab.wait(0.02)
    lab.stop()
    assert lab.wait(60)
    assert [pair.status for pair in lab.cells] == ["done", "", "stopped", ""]
    gate.set()
    lab.run()
    assert lab.line() == "4 of 4 done"


def test_without_rows_and_grid(shell: Any, runs: Any) -> None:
    lab = sgnb.lab(count)
    with pytest.raises(OptionError, match="missing a required argument: 'word'"):
        lab.run()
    lab = sgnb.lab(count)
    lab.run(word="one").run(word="one")
    assert runs() == 1 and [pair.setting for pair in lab.cells] == [{}]
    lab.add_setting({"seed": 3})
    assert lab.line() == "1 of 2 done"


@pytest.mark.parametrize(
    "line, message",
    [
        ("nothing", "no program is called 'nothing'"),
        ("five", "5 is not a program"),
        ("count --over 5", "not a batch"),
        ("count --over []", "there are no rows"),
        ("count --over [{'wrod':1}]", "unexpected keyword argument 'wrod'"),
        ("count --grid 5", "is not a dict of lists"),
        ("count --grid {}", "is not a dict of lists"),
        ("count --grid {'seed':[]}", "a list with at least one value"),
        ("count --grid {'seed':'12'}", "a list with at least one value"),
        ("count --grid {'sead':[1]}", "did you mean 'seed'?"),
        ("count --grid {'temperature':[-1]}", "temperature=-1"),
        ("count --grid {'model':['gpt']}", "gpt"),
        ("count --grid {'program':[5]}", "5 is not a program"),
        ("count --grid {", "closing"),
        ("count --grid absent", "--grid absent cannot be evaluated"),
    ],
)
def test_wrong_inputs_are_refused(shell: Any, line: str, message: str) -> None:
    shell.ns |= {"count": count, "five": 5}
    assert message in "\n".join(shell.fails(f"%sglang lab {line}"))


@pytest.mark.parametrize("setting", ["a", 5, None, [("seed", 1)]], ids=str)
def test_a_setting_is_a_dict(shell: Any, setting: Any) -> None:
    with pytest.raises(OptionError, match="is not a setting"):
        sgnb.lab(count).add_setting(setting)
    with pytest.raises(OptionError, match="the grid has no setting 5"):
        sgnb.lab(count, grid={5: [5]})


def test_a_class_is_no_program(shell: Any) -> None:
    shell("from sgnb import *")
    for command in ("lab", "check", "bench"):
        shown = shell.fails(f"%sglang {command} CompiledProgram --over [1]")
        assert (
            "CompiledProgram'> is not a program" in shown[0]
            and "'CompiledProgram'" not in shown[-1]
        )
    for call in (sgnb.lab, lambda one: sgnb.check(one, [(1,)], "x"), sgnb.bench):
        with pytest.raises(OptionError, match="is not a program"):
            call(sgnb.CompiledProgram)
    with pytest.raises(OptionError, match="is not a program"):
        sgnb.lab(count, grid={"program": [sgnb.CompiledProgram]})


def test_an_error_next_to_the_buttons_is_one_line(shell: Any) -> None:
    pytest.importorskip("ipywidgets")
    view = LabView(sgnb.lab(count))
    view._do(lambda: view._lab.add_setting({"sead": 1}))
    assert view._error.value == "the grid has no setting 'sead' (did you mean 'seed'?)"


def test_the_magic(shell: Any, runs: Any, capsys: Any) -> None:
    shell.ns["count"] = count
    lab = shell("%sglang lab count --over ['one', 'two'] --grid {'seed': [1, 2]} -o kept")
    assert lab is shell.ns["kept"] and len(lab.cells) == 4
    assert "0 of 4 done" in capsys.readouterr().out
    assert {"--over", "--grid"} <= {*line_words(["lab", "count"], SESSION)}
    assert "%sglang lab PROGRAM" in line_help()
