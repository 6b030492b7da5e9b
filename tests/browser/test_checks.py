"""`%sglang check` in a notebook: head, table and the trace of a row; model text stays text."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
PROGRAM = """%%sglang echo word
s += "Say " + word + ":" + gen("said", regex=" ?(<b>bold</b>|" + word + ")", max_tokens=8)
"""
ROWS = "rows = [{'word': w, 'want': w} for w in ('one', 'two', 'six')] + [{'word': 'x'}]"
CHECK = "%sglang check echo --over rows --expect want -o report"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_a_check(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    lab.write("checks.ipynb", SETUP, PROGRAM, ROWS, CHECK, CHECK, "report.trace(0)")
    notebook.open("checks.ipynb")
    for index in range(6):
        notebook.run_cell(index)
    cell = notebook.cell(4)
    expect(cell).to_contain_text("of 3 right")
    expect(cell).to_contain_text("95% interval")
    expect(cell).to_contain_text("1 with an error, not counted")
    expect(cell).to_contain_text("4 rows checked before: no row changed")
    expect(cell.locator("tbody tr")).to_have_count(4)
    expect(cell.locator("tbody tr").first).to_contain_text("error")
    expect(cell.locator("td b")).to_have_count(0)
    expect_inside(cell.locator("table"), ".jp-Cell")

    trace = notebook.cell(5)
    expect(trace.locator(".sgnb-title").first).to_contain_text("echo, row 0")
    expect(trace.locator(".sgnb-card").first).to_contain_text("Say one:")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".jp-Cell:nth-of-type(5) .jp-RenderedHTMLCommon"), theme
        assert not findings(page, ".sgnb-card"), theme
