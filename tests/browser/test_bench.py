"""A benchmark in JupyterLab: its progress, its sentences, its picture; and without a kernel."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

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
    notebook.start_cell(2)
    progress = notebook.cell(2).get_by_text("s left")
    expect(progress).to_contain_text("capital: round")
    notebook.wait_cell()
    assert not notebook.failed(2)
    expect(notebook.output(2)).to_contain_text("nocache: Without the prefix cache it takes")
    expect(notebook.output(2)).to_contain_text("Certainty")
    expect(notebook.output(2)).not_to_contain_text("capital: round")
    picture = notebook.cell(2).locator("img")
    expect(picture).to_have_count(1)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        box = picture.bounding_box()
        assert box is not None and 600 < box["width"] <= 860
    notebook.save()
    notebook.open_without_kernel(path.name)
    expect(notebook.cell(2).locator("img")).to_be_visible()
