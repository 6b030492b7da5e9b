"""A prompt lab in a notebook: controls, a run, a rating, a stop; model text stays text."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
PROGRAM = """from typing import Literal

@sgnb.function
def ask(s, topic: str = "<b>tea</b>", style: Literal["short", "long"] = "short", loud=False):
    s += topic + style + sgnb.gen("answer", regex=" ?<i>[a-z]{3}</i>", temperature=0)
"""
LAB = "lab = sgnb.lab(ask, grid={'seed': [1, 2]})\nlab"
SLOW = """@sgnb.function
def slow(s, n: int = 1):
    s += "Once" + sgnb.gen("answer", max_tokens=3000, ignore_eos=True)
other = sgnb.lab(slow)
other
"""
CHECK = "print(len(lab.cells), lab.line(), list(lab.ratings['rating']), list(lab.ratings['note']))"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_a_lab(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    lab.write("lab.ipynb", SETUP, PROGRAM, LAB, CHECK, SLOW)
    notebook.open("lab.ipynb")
    for index in range(3):
        notebook.run_cell(index)
    cell = notebook.cell(2)
    expect(cell.get_by_label("topic")).to_have_value("<b>tea</b>")
    expect(cell.get_by_label("style").locator("option")).to_have_text(["short", "long"])
    expect(cell.get_by_label("loud")).not_to_be_checked()
    run, stop = (cell.get_by_role("button", name=name) for name in ("run", "stop"))
    expect(stop).to_be_disabled()
    run.click()
    expect(cell).to_contain_text("2 of 2 done")
    expect(cell.locator("tbody tr")).to_have_count(1)
    expect(cell.locator("tbody td").nth(1)).to_contain_text("<i>")
    expect(cell.locator("td i, td b")).to_have_count(0)

    cell.get_by_label("style").select_option("long")
    cell.get_by_label("loud").check()
    expect(run).to_be_enabled()
    run.focus()
    page.keyboard.press("Enter")
    expect(cell).to_contain_text("4 of 4 done")
    expect(cell.locator("tbody tr")).to_have_count(2)
    expect(cell.get_by_label("answer").locator("option")).to_have_count(4)
    cell.get_by_label("rating").select_option("good")
    cell.get_by_label("note").fill("fine")
    page.keyboard.press("Tab")
    cell.get_by_role("button", name="rate").click()
    expect(cell.locator("tbody")).to_contain_text("[good: fine]")
    expect(cell.get_by_label("rating")).to_have_value("not rated")
    notebook.run_cell(3)
    expect(notebook.cell(3)).to_contain_text("4 4 of 4 done ['good'] ['fine']")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".jp-Cell:nth-of-type(3) .jp-OutputArea"), theme
    expect_inside(cell.locator("table"), ".jp-Cell")

    notebook.save()
    notebook.open_without_kernel("lab.ipynb")
    expect(notebook.cell(2)).to_contain_text("[good: fine]")


@pytest.mark.slow
def test_a_stop(notebook: Notebook, lab: Lab) -> None:
    lab.write("stop_lab.ipynb", SETUP, SLOW, "print(1 + 1)")
    notebook.open("stop_lab.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    cell.get_by_label("temperature").fill("hot")
    cell.get_by_role("button", name="run").click()
    expect(cell).to_contain_text("temperature: 'hot' is not a")
    cell.get_by_label("temperature").fill("0")
    with notebook.held("StepRan", 20):
        cell.get_by_role("button", name="run").click()
        expect(cell.locator("tbody")).to_contain_text("running")
        notebook.run_cell(2)  # the kernel is free
        expect(notebook.output(2)).to_contain_text("2")
        cell.get_by_role("button", name="stop").click()
    expect(cell).to_contain_text("0 of 1 done, 1 stopped")
    expect(cell.get_by_role("button", name="run")).to_be_enabled()
