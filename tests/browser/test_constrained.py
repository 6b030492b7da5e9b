"""The tutorial on structured output in JupyterLab: what a grammar forced is marked, and its tables
show."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.browser.lab import Lab, Notebook

SOURCE = Path(__file__).parents[2] / "notebooks" / "04_structured_output.ipynb"


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
    record = next(index for index, source in cells.items() if "json_schema=Country" in source)
    jumped = "".join(notebook.cell(record).locator(".sgnb-k-jumped").all_inner_texts())
    assert '{"name": "' in jumped and "capital" in jumped and "europe" in jumped
    assert "Italy" not in jumped and "Rome" not in jumped, "values are the model's"
    the_automaton_is_walked(notebook, record)
    automaton = next(index for index, source in cells.items() if source.startswith("%sglang fsm"))
    assert "$.capital" in notebook.output(automaton)
    assert notebook.cell(automaton).locator("mjx-container").count() == 0, "no formulas"
    fsm_is_drawn(notebook, automaton)
    notebook.save()
    notebook.open_without_kernel(SOURCE.name)
    cell = notebook.cell(automaton)
    cell.locator("img[src*=sgnb-static]").wait_for()
    assert "$.capital" in notebook.output(automaton) and not cell.locator(".sgnb-card").count()


def the_automaton_is_walked(notebook: Notebook, index: int) -> None:
    """By keys, in the drawing as in the strip; the text follows."""
    cell, page = notebook.cell(index), notebook.page
    cell.locator(".sgnb-tab[data-view=grammar]").click()
    drawing = cell.locator(".sgnb-automaton canvas")
    where = cell.locator(".sgnb-where")
    assert "the text may end" in where.inner_text()
    drawing.focus()
    page.keyboard.press("ArrowLeft")
    before = where.inner_text()
    assert "of" in before and cell.locator(".sgnb-step-token.sgnb-lit").count() == 1
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert where.inner_text() != before
    assert cell.locator(".sgnb-branches .sgnb-lit").count() == 1
    first = cell.locator(".sgnb-step-token").first
    first.hover()
    assert where.inner_text().startswith("after state 1, byte 2 of ")
    assert where.inner_text() in (drawing.get_attribute("aria-label") or "")
    cell.locator(".sgnb-title").hover()


def fsm_is_drawn(notebook: Notebook, index: int) -> None:
    cell, page = notebook.cell(index), notebook.page
    drawing = cell.locator(".sgnb-automaton canvas")
    assert "9 states" in (drawing.get_attribute("aria-label") or "")
    assert not cell.locator("img[src*=sgnb-static]").is_visible(), "the picture is for later"
    assert cell.locator(".sgnb-figure .sgnb-legend").inner_text().split("\n") == [
        "forced text",
        "text may end",
    ], "nothing of a walk, nor of counts"
    drawing.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "leads on" in cell.locator(".sgnb-inspector").inner_text()
    page.keyboard.press("Escape")
    assert "Point at a state" in cell.locator(".sgnb-inspector").inner_text()
