"""Runs of the same cell are compared below the card: lines, text, figures and causes."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
CELL = """%%sglang --temperature 0 --show text,tree
s += "The capital of Italy is nice."
s += gen("city", max_tokens=6)
"""
EDIT = """([index, before, after]) => {
    const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
    const { sharedModel } = cell.model;
    sharedModel.setSource(sharedModel.getSource().replace(before, after));
}"""


def compared(cell: Any) -> Any:
    return cell.locator(".sgnb-compared-runs")


def rerun_twice(notebook: Notebook, lab: Lab, name: str) -> Any:
    lab.write(name, SETUP, CELL)
    notebook.open(name)
    notebook.run_cell(0)
    notebook.run_cell(1)
    expect(notebook.cell(1).locator(".sgnb-reruns")).to_be_hidden()
    notebook.page.evaluate(EDIT, [1, "nice", "fine"])
    notebook.run_cell(1)
    return notebook.cell(1)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_two_runs_of_a_cell_are_compared(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    cell = rerun_twice(notebook, lab, f"reruns{width}.ipynb")
    chooser = cell.locator(".sgnb-reruns").first
    expect(chooser.get_by_role("combobox")).to_have_text("run1, the run before")
    button = chooser.get_by_role("button", name="compare", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    below = compared(cell)
    expect(below.locator(".sgnb-rerun .sgnb-diff.sgnb-after")).to_contain_text("is fine.")
    expect(below.locator(".sgnb-rerun .sgnb-diff.sgnb-before")).to_contain_text("is nice.")
    expect(below.locator(".sgnb-rerun del").first).to_contain_text("nice")
    expect(below.locator(".sgnb-rerun ins").first).to_contain_text("fine")
    expect(below.locator(".sgnb-compared tbody tr")).to_have_count(2)
    cause = below.locator(".sgnb-causes button").first
    expect(cause).to_contain_text("changed line 2: ' fine' instead of ' nice'")
    cause.click()
    inspector = below.locator(".sgnb-inspector")
    expect(inspector).to_contain_text("changed line 2")

    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".sgnb-compared-runs"), theme
        assert not findings(page, ".sgnb-card"), theme
    expect_inside(below.locator(".sgnb-rerun"), ".sgnb-compared-runs")
    below.get_by_role("button", name="close the comparison").click()
    expect(below.locator(".sgnb-card")).to_have_count(0)


@pytest.mark.slow
def test_a_reload_keeps_the_choice_and_a_restart_ends_it(notebook: Notebook, lab: Lab) -> None:
    rerun_twice(notebook, lab, "kept.ipynb")
    notebook.save()
    notebook.open("kept.ipynb")
    cell = notebook.cell(1)
    cell.get_by_role("button", name="compare", exact=True).click()
    expect(compared(cell).locator(".sgnb-rerun ins").first).to_contain_text("fine")
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    notebook.run_cell(0)
    notebook.run_cell(1)
    expect(notebook.cell(1).locator(".sgnb-reruns").first).to_be_hidden()
    # JupyterLab's own complaint about a restart
    notebook.problems[:] = [one for one in notebook.problems if "debugger state" not in one]


@pytest.mark.slow
def test_an_interrupted_run_is_compared(notebook: Notebook, lab: Lab) -> None:
    long = CELL.replace("max_tokens=6", "max_tokens=3000, ignore_eos=True")
    lab.write("stopped.ipynb", SETUP, long)
    notebook.open("stopped.ipynb")
    notebook.run_cell(0)
    for number in range(2):
        with notebook.held("StepRan", 20):
            notebook.start_cell(1)
            notebook.stats(f"views[{number}]?.output_tokens > 0")
            expect(notebook.cell(1).locator(".sgnb-k-sampled").first).to_be_visible()
            notebook.interrupt()
        notebook.wait_cell()
    cell = notebook.cell(1)
    cell.get_by_role("button", name="compare", exact=True).click()
    rows = compared(cell).locator(".sgnb-compared tbody tr")
    expect(rows).to_have_count(2)
    expect(compared(cell).locator(".sgnb-status").first).to_have_text("interrupted")
