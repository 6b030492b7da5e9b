"""Errors, stopped batches and several dashboards on a real page."""

from __future__ import annotations

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
        notebook.stats()
        assert notebook.output(cell).count(message) == 1
        view = notebook.cell(cell).locator(".sgnb-status")
        assert view.inner_text() == "error"

    notebook.run_cell(3)
    notebook.stats()
    head = notebook.cell(3).locator(".sgnb-note").first.inner_text
    expect(notebook.cell(3)).to_contain_text("1 failed")
    assert "TypeError" not in head()


@pytest.mark.slow
def test_rows_of_an_interrupted_batch_keep_the_partial_text(notebook: Notebook, lab: Lab) -> None:
    batch = (
        "%%sglang each i:int --over range(20) --temperature 0\n"
        "s += f'Story {i}.' + gen('a', max_tokens=3000, ignore_eos=True)"
    )
    lab.write("stopped.ipynb", SETUP, batch, "print([len(x['a']) for x in s])")
    notebook.open("stopped.ipynb")
    notebook.run_cell(0)
    notebook.start_cell(1)
    cell = notebook.cell(1)
    cell.locator(".sgnb-rows tbody tr").nth(19).wait_for()
    notebook.page.wait_for_timeout(500)
    notebook.interrupt()
    notebook.wait_cell()
    (view,) = notebook.stats()
    assert view["status"] == "interrupted" and view["finished"] == 0
    rows = cell.locator(".sgnb-rows tbody tr").all_inner_texts()
    assert len(rows) == 20 and all(row.endswith("stopped") for row in rows)
    assert "20 stopped, with partial texts" in notebook.output(1)
    assert "Aborted" not in notebook.output(1)
    answers = cell.locator(".sgnb-rows tbody td.sgnb-answer:nth-child(3)").all_inner_texts()
    assert all(len(answer) > 5 for answer in answers)


@pytest.mark.slow
def test_two_dashboards_stay_live(notebook: Notebook, lab: Lab) -> None:
    program = "%%sglang -q --max-tokens 4\ns += 'One, two,' + gen('a')"
    lab.write("boards.ipynb", SETUP, "sgnb.dashboard()", "sgnb.dashboard()", program)
    notebook.open("boards.ipynb")
    for cell in range(4):
        notebook.run_cell(cell)
    assert [view["live"] for view in notebook.stats()] == [True, True]
    notebook.page.wait_for_function(
        "() => Object.values(window.__sgnb).every(({ stats }) => stats.status === 'done')"
    )
    notebook.run_cell(1)  # replaces the view of the cell
    notebook.page.wait_for_function("() => Object.keys(window.__sgnb).length === 3")
    assert [view["live"] for view in notebook.stats()] == [False, True, True]
