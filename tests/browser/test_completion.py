"""Tab in JupyterLab: the parameters of a program inside `program.run(`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import Lab, Notebook

DEFINE = """%load_ext sgnb
import sgnb as sgl

@sgl.function
def answer(s, question, tone="kind"):
    s += sgl.user(f"{question} ({tone})")
    s += sgl.assistant(sgl.gen("text", max_tokens=8))

compiled = answer.compile()"""


def completed(page: Page, notebook: Notebook, index: int, code: str) -> list[str]:
    """Type `code` into cell `index`, press Tab, and return the names in the completer."""
    cell = notebook.cell(index)
    cell.locator(".cm-content").click()
    page.keyboard.type(code, delay=20)
    expect(cell.locator(".jp-mod-completer-enabled:not(.jp-mod-at-line-beginning)")).to_be_visible()
    page.keyboard.press("Tab")
    items = page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")
    items.first.wait_for(state="visible")
    picture = os.environ.get("SGNB_SCREENSHOTS")
    if picture:
        page.screenshot(path=Path(picture) / f"completion_{index}.png")
    names: list[str] = items.evaluate_all("all => all.map(item => item.dataset.value)")
    page.keyboard.press("Escape")
    return names


@pytest.mark.slow
def test_tab_shows_the_parameters_of_the_program(notebook: Notebook, lab: Lab) -> None:
    calls = ("answer.run(", "answer.arun(", "compiled.run(", "compiled.bounds(", "answer.")
    notebook.open(lab.write("completion.ipynb", DEFINE, *[""] * len(calls)).name)
    notebook.run_cell(0)
    assert not notebook.failed(0)
    for index, call in enumerate(calls[:-1], 1):
        names = completed(notebook.page, notebook, index, call)
        assert names[:2] == ["question=", "tone="], call
        assert "backend=" in names and not any(name.startswith("_") for name in names)
    methods = completed(notebook.page, notebook, len(calls), calls[-1])
    assert {"run", "run_batch", "compile", "explain"} <= set(methods)
    assert not {"func", "bound", "keep_tokens"} & set(methods)
