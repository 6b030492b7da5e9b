"""`--keep` and `%sglang tour` in a notebook: pictures stay after the end of the kernel."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings, wait_until

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
CELL = """%%sglang --keep source,branches,time,grammar,rows --temperature 0
s += "Two tips.\\n1. Exercise\\n2. <b>Sleep</b>\\n\\n"
forks = s.fork(2)
forks += lambda i: f"Expand tip {i + 1}.\\n"
forks += gen("detail", stop="\\n", max_tokens=6)
forks.join()
s += "As JSON: " + gen("record", regex=r'\\{"age": [0-9]{1,2}\\}')
"""
PICTURES = "img[src*=sgnb-static]"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_kept_pictures_and_the_tour(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    lab.write("kept.ipynb", SETUP, CELL, "%sglang tour")
    notebook.open("kept.ipynb")
    for index in range(3):
        notebook.run_cell(index)
    cell, tour = notebook.cell(1), notebook.cell(2)
    expect(cell.locator(".sgnb-card").first).to_be_visible()
    expect(cell.locator(PICTURES)).to_have_count(5)
    for index in range(5):
        expect(cell.locator(PICTURES).nth(index)).to_be_hidden()
    expect(cell).to_contain_text("--keep rows: this run has no data for the view")

    expect(tour).to_contain_text("1 of 6: text")
    expect(tour).to_contain_text("6 of 6: time")
    expect(tour.locator(PICTURES)).to_have_count(6)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".jp-Cell:nth-of-type(3) .jp-RenderedHTMLCommon"), theme

    notebook.save()
    notebook.open_without_kernel("kept.ipynb")
    for index in range(5):
        picture = notebook.cell(1).locator(PICTURES).nth(index)
        expect(picture).to_be_visible()
        wait_until(picture, "picture => picture.complete && picture.clientWidth > 200")
        expect_inside(picture, ".jp-Cell")
