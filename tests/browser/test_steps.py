"""A cell with `--step` is stepped by buttons and keys; other cells run in the meantime."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
CELL = """%%sglang --step --temperature 0 -o stepped
s += "Once upon a time"
s += gen("a", max_tokens=4, ignore_eos=True)
s += " The end."
"""
OTHER = """%%sglang -o other -q
s += "Twice" + gen("a", max_tokens=4)
"""
CHECK = "print('status', stepped.status, len(stepped['a']) > 0, stepped.run.paused)"


def stepper(cell: Any) -> Any:
    return cell.locator(".sgnb-stepper")


def press(cell: Any, name: str) -> None:
    stepper(cell).get_by_role("button", name=name, exact=True).click()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_a_cell_is_stepped(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    lab.write("steps.ipynb", SETUP, CELL, OTHER, CHECK)
    notebook.open("steps.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    bar = stepper(cell)
    expect(bar).to_contain_text("paused before text 'Once upon a time', line 2")
    press(cell, "token")
    expect(bar).to_contain_text("paused before gen 'a', line 3")
    press(cell, "token")
    expect(bar).to_contain_text("paused after a token of 'a'")
    inspector = cell.locator(".sgnb-inspector")
    expect(inspector).to_contain_text("likeliest")
    expect(inspector).to_contain_text("%")
    expect(bar.get_by_role("button")).to_have_text(["back", "token", "call", "to the end", "stop"])

    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".sgnb-card"), theme
    notebook.run_cell(2)  # the kernel and the engine are free
    expect(bar).to_contain_text("paused after a token of 'a'")

    press(cell, "back")
    expect(bar).to_contain_text("paused before gen 'a', line 3")
    cell.get_by_role("button", name="now", exact=True).click()
    button = bar.get_by_role("button", name="call", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    expect(bar).to_contain_text("paused before text ' The end.', line 4")
    expect(cell.locator(".sgnb-vars")).to_contain_text("a")
    expect_inside(bar, ".sgnb-card")
    press(cell, "to the end")
    expect(bar).to_be_hidden()
    expect(cell.locator(".sgnb-status").first).to_have_text("done")
    notebook.run_cell(3)
    expect(notebook.cell(3).locator(".jp-OutputArea-output").first).to_contain_text(
        "status done True False"
    )


@pytest.mark.slow
def test_a_stop_of_a_stepped_cell(notebook: Notebook, lab: Lab) -> None:
    lab.write("stop.ipynb", SETUP, CELL, "print(stepped.status)")
    notebook.open("stop.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    expect(stepper(cell)).to_contain_text("paused before")
    press(cell, "stop")
    expect(cell.locator(".sgnb-status").first).to_have_text("interrupted")
    notebook.run_cell(2)
    expect(notebook.cell(2)).to_contain_text("interrupted")


@pytest.mark.slow
def test_a_reload_shows_a_paused_run_and_a_restart_ends_it(notebook: Notebook, lab: Lab) -> None:
    lab.write("restart.ipynb", SETUP, CELL, "print(stepped.run.paused)", "sgnb.runs()")
    notebook.open("restart.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    expect(stepper(notebook.cell(1))).to_contain_text("paused before text")
    notebook.save()
    notebook.open("restart.ipynb")
    bar = stepper(notebook.cell(1))
    expect(bar).to_contain_text("paused before text")
    press(notebook.cell(1), "token")
    expect(bar).to_contain_text("paused before gen 'a'")
    notebook.run_cell(2)
    expect(notebook.cell(2)).to_contain_text("True")
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(notebook.cell(1).locator(".sgnb-status").first).to_contain_text(
        "no message from the kernel"
    )
    notebook.run_cell(0)
    notebook.run_cell(3)
    expect(notebook.cell(3)).to_contain_text("no program has run yet")
    # JupyterLab's own complaint about a restart
    notebook.problems[:] = [one for one in notebook.problems if "debugger state" not in one]
