"""A benchmark in JupyterLab: its progress, its sentences, its picture; and without a kernel."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Hold, Lab, Notebook
from tests.browser.pages import wait_until

CELLS = (
    "%load_ext sgnb\n%sglang load tiny",
    """%%sglang capital country --temperature 0
s += "France: Paris\\nSpain: Madrid\\nPoland: Warsaw\\nGreece: Athens\\n" * 8
s += country + ":" + gen("answer", max_tokens=8, stop="\\n")
""",
    "%sglang bench capital --over ['Japan', 'Egypt', 'Kenya'] --clock cpu --repeats 8"
    " --vs nocache,itself,nojump",
)


@pytest.mark.slow
def test_a_benchmark_is_shown(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("bench.ipynb", *CELLS)
    notebook.open(path.name)
    for number in range(2):
        notebook.run_cell(number)
    progress = "/capital: round .* s left/.test(document.body.textContent)"
    notebook.watch_cell(2, Hold("RunStarted", 20, progress))
    assert not notebook.failed(2)
    expect(notebook.output(2)).to_contain_text("nocache: Without the prefix cache it takes")
    expect(notebook.output(2)).to_contain_text("Certainty")
    expect(notebook.output(2)).not_to_contain_text("capital: round")
    picture = notebook.cell(2).locator("img")
    expect(picture).to_have_count(1)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        wait_until(picture, "({ clientWidth }) => 600 < clientWidth && clientWidth <= 860")
    notebook.save()
    notebook.open_without_kernel(path.name)
    expect(notebook.cell(2).locator("img")).to_be_visible()
