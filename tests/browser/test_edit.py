"""An edit in the text of a card: the new branch appears next to the old branch."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import expect_inside, findings

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
CELL = """%%sglang --temperature 0 -o story
s += "Once upon a time"
s += gen("a", max_tokens=12, ignore_eos=True)
"""
GRAMMAR = """%%sglang --temperature 0 -o answer
s += "Yes or no? "
s += gen("a", max_tokens=8, regex="(yes|no), [a-z]+!")
"""
STEPPED = """%%sglang --step --temperature 0 -o stepped
s += "Once upon a time"
s += gen("a", max_tokens=12, ignore_eos=True)
"""
CHECK = (
    "record = sgnb.recording(story.run_id); print(' dragons' in record.text(), len(sgnb.runs()))"
)


def token(cell: Any, number: int) -> Any:
    return cell.locator(".sgnb-branches .sgnb-k-sampled .sgnb-token").nth(number)


def write(cell: Any, number: int, text: str) -> None:
    token(cell, number).click()
    editor = cell.locator(".sgnb-editor")
    expect(editor).to_be_visible()
    editor.get_by_label("other text").fill(text)
    editor.get_by_label("other text").press("Enter")


def branches(cell: Any) -> Any:
    return cell.locator(".sgnb-edits > .sgnb-branch")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_an_edit_of_a_finished_run(notebook: Notebook, lab: Lab, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    lab.write("edit.ipynb", SETUP, CELL, CHECK, "story.at('a', 2).fork(' cats').text()")
    notebook.open("edit.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    expect(cell.locator(".sgnb-status").first).to_have_text("done")
    text = cell.locator(".sgnb-branch").first.inner_text()
    write(cell, 2, " dragons")
    expect(branches(cell)).to_have_count(2)
    edited = branches(cell).nth(1)
    expect(edited).to_contain_text("dragons")
    expect(edited).to_contain_text("edit of run")
    expect(edited.locator(".sgnb-vars")).to_contain_text("dragons")
    expect(edited.locator(".sgnb-k-cached .sgnb-token").first).to_be_visible()
    expect(cell.locator(".sgnb-status").first).to_have_text("done")
    assert text.splitlines()[-1] in branches(cell).nth(0).inner_text()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        expect(cell.locator(".sgnb-editor")).to_be_visible()
        assert not findings(page, ".sgnb-card"), theme
    expect_inside(branches(cell).nth(1), ".sgnb-card")

    notebook.run_cell(2)
    expect(notebook.cell(2).locator(".jp-OutputArea-output").first).to_contain_text("True")
    notebook.run_cell(3)  # an edit in Python appears in the card, too
    expect(branches(cell)).to_have_count(3)
    notebook.save()
    notebook.open("edit.ipynb")
    expect(branches(notebook.cell(1))).to_have_count(3)
    write(notebook.cell(1), 3, " kings")
    expect(branches(notebook.cell(1))).to_have_count(4)
    expect(branches(notebook.cell(1)).nth(3)).to_contain_text("kings")


@pytest.mark.slow
def test_a_grammar_rejects_an_edit_with_the_reason(notebook: Notebook, lab: Lab) -> None:
    lab.write("forbidden.ipynb", SETUP, GRAMMAR)
    notebook.open("forbidden.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    write(cell, 0, "maybe")
    expect(branches(cell)).to_have_count(2)
    expect(branches(cell).nth(1).locator(".sgnb-error")).to_contain_text("the grammar forbids")
    expect(branches(cell).nth(1).locator(".sgnb-error")).to_contain_text("allowed: 'n'")


@pytest.mark.slow
def test_an_edit_of_a_paused_run_by_keys(notebook: Notebook, lab: Lab) -> None:
    lab.write("paused.ipynb", SETUP, STEPPED, "print(stepped.run.paused, stepped.status)")
    notebook.open("paused.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    stepper = cell.locator(".sgnb-stepper")
    for place in ("before gen 'a'", "after a token of 'a'"):
        stepper.get_by_role("button", name="token", exact=True).click()
        expect(stepper).to_contain_text(f"paused {place}")
    others = cell.locator(".sgnb-editor .sgnb-button[title='continue with this token']")
    expect(others.first).to_contain_text("%")
    others.first.focus()
    notebook.page.keyboard.press("Enter")
    expect(branches(cell)).to_have_count(2)
    expect(branches(cell).nth(1).locator(".sgnb-vars")).to_contain_text("a")
    expect(stepper).to_contain_text("paused after a token of 'a'")
    notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    )
    notebook.run_cell(2)
    expect(notebook.cell(2)).to_contain_text("True running")
    flow = cell.locator(".sgnb-text").first
    flow.focus()
    notebook.page.keyboard.press("ArrowLeft")
    notebook.page.keyboard.press("Enter")
    expect(cell.locator(".sgnb-editor input")).to_be_focused()


@pytest.mark.slow
def test_a_repeated_edit_and_the_focus_after_escape(notebook: Notebook, lab: Lab) -> None:
    lab.write("repeated.ipynb", SETUP, CELL)
    notebook.open("repeated.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    editor = cell.locator(".sgnb-editor")
    token(cell, 2).click()
    expect(editor).to_be_visible()
    disabled = editor.evaluate(
        "form => { for (let i = 0; i < 3; i++) form.requestSubmit();"
        " return form.querySelector('[type=submit]').disabled; }"
    )
    assert disabled, "until the answer"
    expect(branches(cell)).to_have_count(2)
    expect(branches(cell).nth(1)).to_contain_text("chosen again in a")
    expect(editor).to_contain_text("continues from here")
    expect(editor.get_by_role("button", name="continue", exact=True)).to_be_enabled()
    write(cell, 3, " kings")  # the kernel would have answered the other requests before
    expect(branches(cell).nth(2)).to_contain_text("kings")
    expect(branches(cell)).to_have_count(3)

    editor.get_by_label("other text").press("Escape")
    expect(editor).to_be_hidden()
    expect(cell.locator(".sgnb-text").first).to_be_focused()


@pytest.mark.slow
def test_a_restart_ends_edits(notebook: Notebook, lab: Lab) -> None:
    lab.write("restarted.ipynb", SETUP, CELL)
    notebook.open("restarted.ipynb")
    for index in range(2):
        notebook.run_cell(index)
    cell = notebook.cell(1)
    write(cell, 2, " dragons")
    expect(branches(cell)).to_have_count(2)
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    notebook.run_cell(0)
    expect(branches(cell)).to_have_count(2)
    write(cell, 3, " kings")
    expect(cell.locator(".sgnb-editor")).to_contain_text("the kernel is gone")
    # JupyterLab's own complaint about a restart
    notebook.problems[:] = [one for one in notebook.problems if "debugger state" not in one]
