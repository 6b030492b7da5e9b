"""A batch as data: every variable of a row, partial texts, failed rows again, CSV."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')\nbroken = {'Oslo', 'Bern'}"
CELL = """%%sglang ask q:str --over ['Rome', 'Oslo', 'Paris', 'Bern'] --temperature 0
if q in broken:
    raise ValueError(f'{q} is broken')
s += f"The capital of {q} is" + gen("first", max_tokens=4)
s += " and" + gen("second", max_tokens=4)
"""
LONG = """%%sglang ask q:str --over ['Rome', 'Oslo', 'Paris'] --temperature 0
s += f"A story about {q}:" + gen("story", max_tokens=3000, ignore_eos=True)
"""
STATES = "print(len(s), s.failed, [state['second'] == 'x' for state in s])"


def row(cell: Any, text: str) -> Any:
    return cell.locator(".sgnb-rows tbody tr").filter(has_text=text)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_failed_rows_run_again(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page, name = notebook.page, f"rows{width}.ipynb"
    page.set_viewport_size({"width": width, "height": 900})
    lab.write(name, SETUP, CELL, "broken.clear()", STATES)
    notebook.open(name)
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    row(cell, "Rome").click()
    values = cell.locator(".sgnb-row-values")
    expect(values).to_contain_text("arguments")
    for variable in ("first", "second"):
        expect(values.locator(".sgnb-label", has_text=variable)).to_have_count(1)
    row(cell, "Bern").click()
    expect(values).to_contain_text("ValueError: Bern is broken")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        assert not findings(page, ".sgnb-card"), theme

    notebook.run_cell(2)
    again = cell.get_by_role("button", name="run 2 failed rows again")
    again.focus()
    page.keyboard.press("Enter")
    expect(again).to_be_hidden()
    expect(cell.locator(".sgnb-rows tbody tr")).to_have_count(4)
    expect(cell.locator(".sgnb-rows tbody tr.sgnb-failed")).to_have_count(0)
    expect(cell.locator(".sgnb-status").first).to_have_text("done")
    row(cell, "Bern").click()
    expect(values.locator(".sgnb-label", has_text="second")).to_have_count(1)
    notebook.run_cell(3)
    expect(notebook.cell(3).locator(".jp-OutputArea-output").first).to_contain_text("4 []")
    with page.expect_download() as download:
        cell.get_by_role("button", name="save CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "q,first,second,error,tokens,seconds"
    assert sum(line.split(",")[0] in ("Rome", "Oslo", "Paris", "Bern") for line in lines) == 4


@pytest.mark.slow
def test_an_interrupted_batch_shows_partial_texts_and_goes_on(notebook: Notebook, lab: Lab) -> None:
    lab.write("partial.ipynb", SETUP, LONG, "print(s.failed)")
    notebook.open("partial.ipynb")
    notebook.run_cell(0)
    cell = notebook.cell(1)
    with notebook.held("StepRan", 100):
        notebook.start_cell(1)
        expect(cell.locator(".sgnb-rows tbody tr")).to_have_count(3)
        notebook.stats("views[0]?.output_tokens > 60")
        notebook.interrupt()
    notebook.wait_cell()
    row(cell, "Oslo").click()
    values = cell.locator(".sgnb-row-values")
    expect(values).to_contain_text("the last variable has partial text")
    expect(values.locator(".sgnb-label", has_text="story")).to_have_count(1)
    expect(cell.get_by_role("button", name="run 3 failed rows again")).to_be_visible()
    notebook.save()
    notebook.open("partial.ipynb")
    cell = notebook.cell(1)
    with notebook.held("StepRan", 20):
        cell.get_by_role("button", name="run 3 failed rows again").click()
        expect(cell.locator(".sgnb-status").first).to_have_text("running")
        notebook.interrupt()
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(cell.locator(".sgnb-status").first).to_contain_text("no message from the kernel")
    # JupyterLab's own complaint about a restart
    notebook.problems[:] = [one for one in notebook.problems if "debugger state" not in one]
