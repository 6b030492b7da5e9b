"""The head of a live view shows the verdict on an approximate answer after the end of the cell."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

SETUP = (
    "%load_ext sgnb\n"
    "import sgnb\n"
    "engine = sgnb.load('tiny', approximate_seconds=0)\n"
    "notes = ''.join(f'On day {i} ship {i * 37 % 101} came. ' for i in range(40))"
)
CELL = (
    "%%sglang --approximate --max-tokens 6 --temperature 0 --out {out}\n"
    "s += '{title}. ' + notes + 'Which ship came first?' + gen('answer')\n"
)
READ = "print(new.approximate['answer'].wait(150), old.approximate)\nsgnb.recording().show"


@pytest.mark.slow
def test_an_approximate_answer_is_verified_in_the_view(notebook: Notebook, lab: Lab) -> None:
    old, new = CELL.format(out="old", title="A log"), CELL.format(out="new", title="The best log")
    lab.write("approximate.ipynb", SETUP, old, new, READ)
    notebook.open("approximate.ipynb")
    for cell in range(3):
        notebook.run_cell(cell)
    head = notebook.cell(2).locator(".sgnb-models").first
    expect(head).to_contain_text(re.compile(r"approximate: computed \d+ of \d+ tokens; verified"))
    expect(head).to_contain_text(
        re.compile(r"(\d) of \1 tokens the same, mean KL 0\.0\d\d, keys off")
    )
    exact = notebook.cell(1).locator(".sgnb-card").first
    expect(exact.locator(".sgnb-status")).to_have_text("done")
    expect(exact).not_to_contain_text("approximate")

    notebook.run_cell(3)
    expect(notebook.output(3)).to_contain_text("True {}")
