"""The tutorial on structured output in JupyterLab: what a grammar forced is marked, and its tables
show."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

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
    expect(notebook.cell(record).locator(".sgnb-status")).to_have_text("done")
    done = "view.status === 'done' || !view.status"
    notebook.stats(f"views.every(view => {done})")
    jumped = "".join(notebook.cell(record).locator(".sgnb-k-jumped").all_inner_texts())
    assert '{"name": "' in jumped and "capital" in jumped and "europe" in jumped
    assert "Italy" not in jumped and "Rome" not in jumped, "values are the model's"
    the_automaton_is_walked(notebook, record)
    automaton = next(index for index, source in cells.items() if source.startswith("%sglang fsm"))
    expect(notebook.output(automaton)).to_contain_text("$.capital")
    expect(notebook.cell(automaton).locator("mjx-container")).to_have_count(0)  # no formulas
    fsm_is_drawn(notebook, automaton)
    notebook.save()
    notebook.open_without_kernel(SOURCE.name)
    cell = notebook.cell(automaton)
    cell.locator("img[src*=sgnb-static]").wait_for()
    expect(notebook.output(automaton)).to_contain_text("$.capital")
    expect(cell.locator(".sgnb-card")).to_have_count(0)


def the_automaton_is_walked(notebook: Notebook, index: int) -> None:
    """By keys, in the drawing as in the strip; the text follows."""
    cell, page = notebook.cell(index), notebook.page
    cell.locator(".sgnb-tab[data-view=grammar]").click()
    drawing = cell.locator(".sgnb-automaton canvas")
    where = cell.locator(".sgnb-where")
    expect(where).to_contain_text("the text may end")
    drawing.focus()
    page.keyboard.press("ArrowLeft")
    expect(cell.locator(".sgnb-step-token.sgnb-lit")).to_have_count(1)
    before = where.inner_text()
    assert "of" in before
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(where).not_to_have_text(before, use_inner_text=True)
    expect(cell.locator(".sgnb-branches .sgnb-lit")).to_have_count(1)
    first = cell.locator(".sgnb-step-token").first
    first.hover()
    expect(where).to_have_text(re.compile("^after state 1, byte 2 of "))
    expect(drawing).to_have_attribute("aria-label", re.compile(re.escape(where.inner_text())))
    cell.locator(".sgnb-title").hover()


def fsm_is_drawn(notebook: Notebook, index: int) -> None:
    cell, page = notebook.cell(index), notebook.page
    drawing = cell.locator(".sgnb-automaton canvas")
    expect(drawing).to_have_attribute("aria-label", re.compile("9 states"))
    expect(cell.locator("img[src*=sgnb-static]")).to_be_hidden()  # the picture is for later
    assert cell.locator(".sgnb-figure .sgnb-legend").inner_text().split("\n") == [
        "forced text",
        "text may end",
    ], "nothing of a walk, nor of counts"
    drawing.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(cell.locator(".sgnb-inspector")).to_contain_text("leads on")
    page.keyboard.press("Escape")
    expect(cell.locator(".sgnb-inspector")).to_contain_text("Point at a state")
