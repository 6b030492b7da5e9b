"""The tutorials run from a clean kernel and keep their form, and the tools for them."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellTimeoutError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from sgnb.viz.static.bundle import size
from tools import demo, notebooks

NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))
PICTURE = """
from IPython.display import display
display({"image/svg+xml": "<svg class='sgnb-static sgnb-static-0123456789ab'/>"}, raw=True)
"""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
def test_a_notebook_keeps_the_form(path: Path) -> None:
    assert notebooks.faults(nbformat.read(path, as_version=4)) == []


@pytest.mark.slow
@every_notebook
def test_a_notebook_runs_from_a_clean_kernel(path: Path) -> None:
    """Benchmarks in two rounds instead of eight."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = re.sub(r"(repeats[ =])8\b", r"\g<1>2", cell.source)
    for cell in notebooks.execute(notebook):
        errors = [out for out in cell.outputs if out.get("name") == "stderr"]
        assert not errors, f"{cell.source}\n{errors}"


def test_the_pictures_of_the_notebooks_are_small() -> None:
    sizes = [
        size(output.data)
        for path in NOTEBOOKS
        for cell in notebooks.code_cells(nbformat.read(path, as_version=4))
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(sizes) >= 3 * len(NOTEBOOKS)
    assert median(sizes) < 20_000 and max(sizes) < 60_000


def tutorial(*code: str, exercise: str = "1", solution: str = "x = 1\nassert x") -> Any:
    """A notebook of the form that tutorials have, with the cells `code`."""
    cells = [new_markdown_cell("# A title\nWhat the reader will be able to do.")]
    cells += [new_code_cell(source) for source in code]
    cells.append(new_markdown_cell("## Exercises"))
    for task in ("first", "second"):
        hidden = {"tags": ["solution"], "jupyter": {"source_hidden": True}}
        cells += [
            new_markdown_cell(task),
            new_code_cell(exercise, metadata={"tags": ["exercise"]}),
            new_code_cell(solution, metadata=hidden),
        ]
    notebook = new_notebook(cells=cells)
    for count, cell in enumerate(notebooks.code_cells(notebook), 1):
        cell.execution_count = count
    return notebook


def stored(path: Path) -> list[str]:
    cells = notebooks.code_cells(nbformat.read(path, as_version=4))
    return [notebooks.said(output) for cell in cells for output in cell.outputs]


@pytest.mark.slow
def test_outputs_are_stored_and_change_with_what_they_say_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    path = tmp_path / "07_small.ipynb"
    timed = "import time; print(f'{time.perf_counter_ns()} ms')"
    nbformat.write(tutorial(PICTURE, timed, "print('one')"), path)
    assert notebooks.main(["--check"]) == 0 and stored(path) == []
    assert notebooks.main(["07"]) == 0
    assert "07_small.ipynb: " in capsys.readouterr().out
    before = nbformat.read(path, as_version=4)
    picture = before.cells[1].outputs[0].data["image/svg+xml"]
    assert picture == "<svg class='sgnb-static'/>", "no id that is another each time"
    before.cells[3].source = "print('two')"
    nbformat.write(before, path)
    assert notebooks.main(["07"]) == 0
    assert stored(path)[1] == notebooks.said(before.cells[2].outputs[0]), "the time that was there"
    assert stored(path)[2] == "two\n"


@pytest.mark.slow
def test_a_notebook_that_raises_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    path = tmp_path / "07_small.ipynb"
    nbformat.write(tutorial(PICTURE, solution="x = 0\nassert x, 'not so'"), path)
    assert notebooks.main([]) == 1
    assert "not so\n" in capsys.readouterr().err
    assert stored(path) == []
    with pytest.raises(SystemExit, match=r"no notebook in .* begins with '08'"):
        notebooks.main(["08"])


def test_a_cell_that_hangs_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(notebook: Any) -> Any:
        raise CellTimeoutError("a cell timed out")

    monkeypatch.setattr(notebooks, "execute", execute)
    path = tmp_path / "07_small.ipynb"
    nbformat.write(tutorial(), path)
    assert notebooks.run(path) == ["a cell timed out"]


def faults_of(*outputs: dict[str, Any], host: str = "", **parts: str) -> list[str]:
    notebook = tutorial("1", **parts)
    picture = {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}, "metadata": {}}
    notebook.cells[1].outputs = [nbformat.from_dict(one) for one in (picture, *outputs)]
    return notebooks.faults(notebook, host)


def test_faults_of_outputs() -> None:
    def text(said: str, name: str = "stdout") -> dict[str, Any]:
        return {"output_type": "stream", "name": name, "text": said}

    assert faults_of(text("see https://example.org/home/x and a/usr/b")) == []
    for said in ("in /home/me/x.json", "'/tmp/a'", r"C:\Users", "on box-17"):
        (fault,) = faults_of(text(said), host="box-17")
        assert "names a place" in fault
    drawn = {"output_type": "display_data", "data": {"image/png": "+/tmp/+"}, "metadata": {}}
    assert faults_of(drawn) == [], "letters of a picture"
    assert "is an error" in faults_of(text("mind this", "stderr"))[0]
    (fault,) = faults_of(text("x" * 210_000))
    assert "210 kB of outputs, over 200" in fault
    widget = {"application/vnd.jupyter.widget-view+json": {}}
    shown = {"output_type": "display_data", "data": widget, "metadata": {}}
    assert "a widget" in faults_of(shown)[0]


def test_faults_of_the_form() -> None:
    assert "asserts" in faults_of(solution="x = 1")[0]
    for drop, fault in ((0, "begins with"), (2, "ends with"), (3, "2 to 4 exercises")):
        notebook = tutorial("1")
        notebook.cells[1].outputs = [
            nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"})
        ]
        assert notebooks.faults(notebook) == []
        del notebook.cells[drop]
        assert fault in notebooks.faults(notebook)[0]
    notebook = tutorial("1")
    notebook.cells[1].execution_count = 7
    assert [fault.split()[0] for fault in notebooks.faults(notebook)] == ["executed", "keeps"]


@pytest.mark.slow
def test_the_demo_prints_what_each_cell_made(capsys: Any) -> None:
    cells = [
        "%load_ext sgnb",
        "%%sglang --temperature 0\ns += 'Q: What is the capital of France?\\nA:'\n"
        "s += gen('answer', stop='\\n') + '\\nA:' + gen('again', stop='\\n')",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    assert 0.3 < demo.run(notebook) < 1
    printed = capsys.readouterr().out
    assert "> s += 'Q: What is the capital of France?" in printed
    assert "A: Paris" in printed and len(notebook.cells) == 2
