"""Errors, stopped batches and several dashboards on a real page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"


@pytest.mark.slow
def test_an_error_is_shown_once(notebook: Notebook, lab: Lab) -> None:
    bad_regex = "%%sglang bad\ns += 'x' + gen('a', regex='(')"
    failing = "%%sglang failing\ns += 'x' + gen('a', max_tokens=2)\nassert s['a'] == 'no', 'why'"
    some_rows = "%%sglang each q --over ['a', 2]\ns += 'x'\ns += q + '!'"
    lab.write("errors.ipynb", SETUP, bad_regex, failing, some_rows)
    notebook.open("errors.ipynb")
    notebook.run_cell(0)
    for cell, message in ((1, "without its )"), (2, "AssertionError: why")):
        notebook.run_cell(cell)
        expect(notebook.cell(cell).locator(".sgnb-status")).to_have_text("error")
        expect(notebook.output(cell)).to_contain_text(message)
        twice = re.compile(".*".join([re.escape(message)] * 2), re.DOTALL)
        expect(notebook.output(cell)).not_to_contain_text(twice, use_inner_text=True)

    notebook.run_cell(3)
    expect(notebook.cell(3)).to_contain_text("1 failed")
    expect(notebook.cell(3).locator(".sgnb-note").first).not_to_contain_text("TypeError")


@pytest.mark.slow
def test_rows_of_an_interrupted_batch_keep_the_partial_text(notebook: Notebook, lab: Lab) -> None:
    batch = (
        "%%sglang each i:int --over range(20) --temperature 0\n"
        "s += f'Story {i}.' + gen('a', max_tokens=3000, ignore_eos=True)"
    )
    lab.write("stopped.ipynb", SETUP, batch, "print([len(x['a']) for x in s])")
    notebook.open("stopped.ipynb")
    notebook.run_cell(0)
    cell = notebook.cell(1)
    with notebook.held("StepRan", 100):
        notebook.start_cell(1)
        cell.locator(".sgnb-rows tbody tr").nth(19).wait_for()
        notebook.stats("views[0]?.output_tokens > 400")
        notebook.interrupt()
    notebook.wait_cell()
    (view,) = notebook.stats("views[0].status === 'interrupted'")
    assert view["finished"] == 0
    expect(notebook.output(1)).to_contain_text("20 stopped, with partial texts")
    stopped, partial = [re.compile("stopped$")] * 20, [re.compile(".{6}")] * 20
    expect(cell.locator(".sgnb-rows tbody tr")).to_have_text(stopped, use_inner_text=True)
    expect(notebook.output(1)).not_to_contain_text("Aborted")
    answers = cell.locator(".sgnb-rows tbody td.sgnb-answer:nth-child(3)")
    expect(answers).to_have_text(partial, use_inner_text=True)


@pytest.mark.slow
def test_two_dashboards_stay_live(notebook: Notebook, lab: Lab) -> None:
    program = "%%sglang -q --max-tokens 4\ns += 'One, two,' + gen('a')"
    lab.write("boards.ipynb", SETUP, "sgnb.dashboard()", "sgnb.dashboard()", program)
    notebook.open("boards.ipynb")
    for cell in range(4):
        notebook.run_cell(cell)
    notebook.stats("views.length === 2 && views.every(view => view.status === 'done' && view.live)")
    notebook.run_cell(1)  # replaces the view of the cell
    notebook.stats(
        "views.length === 3 && views.map(view => view.live).join() === 'false,true,true'"
    )
