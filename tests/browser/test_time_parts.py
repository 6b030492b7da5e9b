"""The head of a view divides the time of the run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

SETUP = "%load_ext sgnb\nimport sgnb; sgnb.load('tiny')"
CELL = """%%sglang --max-tokens 20 --temperature 0
import time
s += "Once upon a time" + gen("a", ignore_eos=True)
s.sync()
time.sleep(0.5)
"""


@pytest.mark.slow
def test_the_head_divides_the_time(notebook: Notebook, lab: Lab) -> None:
    lab.write("parts.ipynb", SETUP, CELL)
    notebook.open("parts.ipynb")
    for cell in range(2):
        notebook.run_cell(cell)
    line = notebook.cell(1).locator(".sgnb-models")
    expect(line).to_contain_text("decode")
    expect(line).to_contain_text(re.compile(r"Python ([5-9]\d\d ms|[\d.]+ s)"))
    expect(notebook.cell(1).locator(".sgnb-status")).to_have_text("done")
    text = line.inner_text()
    assert text.startswith("of ") and text.count("\n") == 0, text
