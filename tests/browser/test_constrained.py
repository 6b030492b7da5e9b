"""The notebook on constrained text in JupyterLab: what a grammar forced is marked, and its tables
show."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.browser.lab import Lab, Notebook

SOURCE = Path(__file__).parents[2] / "notebooks" / "02_constrained.ipynb"


@pytest.mark.slow
def test_forced_text_is_marked(notebook: Notebook, lab: Lab) -> None:
    book = nbformat.read(SOURCE, as_version=4)
    nbformat.write(book, lab.work / SOURCE.name)
    notebook.open(SOURCE.name)
    cells = {
        index: cell.source for index, cell in enumerate(book.cells) if cell.cell_type == "code"
    }
    for index, source in cells.items():
        notebook.run_cell(index)
        assert not notebook.failed(index), source
    record = next(index for index, source in cells.items() if "json_schema=Call" in source)
    jumped = "".join(notebook.cell(record).locator(".sgnb-k-jumped").all_inner_texts())
    assert '{"name": "' in jumped and "city" in jumped and "mood" in jumped
    assert "Omar" not in jumped and "Cairo" not in jumped, "values are the model's"
    automaton = next(index for index, source in cells.items() if source.startswith("%sglang fsm"))
    assert "$.city" in notebook.output(automaton)
    assert notebook.cell(automaton).locator("mjx-container").count() == 0, "no formulas"
