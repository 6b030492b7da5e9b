"""The quickstart in JupyterLab, cell by cell; an interrupt and an error; saved and opened without a
kernel."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab import Hold, Lab, Notebook

SOURCE = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"

LONG = "%%sglang\ns += 'A story.'\ns += gen('story', max_tokens=3900, ignore_eos=True)"
AFTER = "len(s.text()) > len('A story.'), __import__('sgnb').runs()[-1]['status']"
AGAIN = (
    "%%sglang -o again --temperature 0\n"
    "s += 'Q: What is the capital of Spain?\\nA:'\n"
    "s += gen('a', stop='\\n')"
)
ERROR = "%%sglang\ns += gen('a', max_token=3)"
GROWTH = (
    Hold("StepRan", 4, "now.nodes && now.characters && now.locked"),
    Hold("StepRan", 20, "now.nodes > before.nodes || now.characters > before.characters"),
)
"""The views grow, and show a node in use, while the kernel is busy with the cell."""


@pytest.mark.slow
def test_the_quickstart(notebook: Notebook, lab: Lab) -> None:
    cells = place(lab)
    notebook.open(SOURCE.name)
    for index, source in cells.items():
        if ".fork(" in source and shows_views(source):
            notebook.watch_cell(index, *GROWTH)
        else:
            notebook.run_cell(index)
        assert not notebook.failed(index), source
    runs = [index for index, source in cells.items() if shows_views(source)]
    assert len(runs) >= 5
    done = "views.every(view => view.status === 'done')"
    views = notebook.stats(f"views.length === {len(runs)} && {done}")
    assert not any(view["lost"] for view in views)
    assert all(view["nodes"] > 0 and view["locked"] == view["missing"] == 0 for view in views)
    again = next(index for index, source in cells.items() if "run_batch" in source)
    expect(notebook.output(again)).to_contain_text("98%")  # prompts of the first batch
    notebook.save()

    notebook.open_without_kernel(SOURCE.name)
    for index in runs:
        shows_the_twin_only(notebook, index)


def place(lab: Lab) -> dict[int, str]:
    """Put the notebook where the server finds it. Its code cells by their number."""
    book = nbformat.read(SOURCE, as_version=4)
    nbformat.write(book, lab.work / SOURCE.name)
    return {index: cell.source for index, cell in enumerate(book.cells) if cell.cell_type == "code"}


def shows_views(source: str) -> bool:
    line = source.partition("\n")[0]
    return line.startswith("%%sglang") and ("--over" in line or "country" not in line)


def shows_the_twin_only(notebook: Notebook, index: int) -> None:
    cell = notebook.cell(index)
    image = cell.locator("img[src*=sgnb-static]")
    image.wait_for(state="visible")
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth; }") > 0
    assert "radix tree" in unquote(image.get_attribute("src") or "")
    expect(cell.locator(".sgnb-card")).to_have_count(0)
    expect(cell.get_by_text("Loading widget").first).to_be_hidden()


@pytest.mark.slow
def test_interrupt_and_error_leave_the_next_cell_working(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("stop.ipynb", "%load_ext sgnb", LONG, AFTER, ERROR, AGAIN, AGAIN).name)
    notebook.run_cell(0)
    with notebook.held("StepRan", 300):
        notebook.start_cell(1)
        notebook.stats("views[0]?.characters > 200")
        notebook.interrupt()
    notebook.wait_cell()
    expect(notebook.output(1)).to_contain_text("stopped; the partial text is s.text()")
    expect(notebook.cell(1).locator(".sgnb-status")).to_have_text("interrupted")
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("(True, 'interrupted')")
    assert not notebook.failed(2)
    notebook.run_cell(3)
    assert notebook.failed(3)
    for part in ("max_token", "line 2", "^^^^", "hint"):
        expect(notebook.output(3)).to_contain_text(part)
    notebook.run_cell(4)
    notebook.run_cell(5)
    done = "views.slice(-2).every(view => view.status === 'done')"
    first, again = notebook.stats(f"views.length === 4 && {done}")[-2:]
    assert first["hit_rate"] == 0 and again["hit_rate"] > 0.9
