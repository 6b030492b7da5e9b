"""The quickstart in JupyterLab, cell by cell; an interrupt and an error; saved and opened without a
kernel."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from tests.browser.lab import Lab, Notebook

SOURCE = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"

LONG = "%%sglang\ns += 'A story.'\ns += gen('story', max_tokens=3900, ignore_eos=True)"
AFTER = "len(s.text()) > len('A story.'), __import__('sgnb').runs()[-1]['status']"
AGAIN = (
    "%%sglang -o again --temperature 0\n"
    "s += 'Q: What is the capital of Spain?\\nA:'\n"
    "s += gen('a', stop='\\n')"
)
ERROR = "%%sglang\ns += gen('a', max_token=3)"


@pytest.mark.slow
def test_the_quickstart(notebook: Notebook, lab: Lab) -> None:
    cells = place(lab)
    notebook.open(SOURCE.name)
    for index, source in cells.items():
        seen = notebook.watch_cell(index)
        assert not notebook.failed(index), source
        if ".fork(" in source and shows_views(source):
            grows_before_the_end(seen)
    runs = [index for index, source in cells.items() if shows_views(source)]
    views = notebook.stats()
    assert len(views) == len(runs) >= 5
    assert all(view["status"] == "done" and not view["lost"] for view in views)
    assert all(view["nodes"] > 0 and view["locked"] == view["missing"] == 0 for view in views)
    again = next(index for index, source in cells.items() if "run_batch" in source)
    assert "98%" in notebook.output(again), "the second batch finds its prompts in the tree"
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


def grows_before_the_end(seen: list[dict[str, int]]) -> None:
    """The views were drawn again, and tree or text had grown, while the kernel was still busy with
    the cell. A fast machine draws few pictures of a cell, and some of them are equal."""
    drawn = [
        (state["nodes"], state["characters"])
        for state in seen
        if "nodes" in state and "characters" in state
    ]
    assert len(set(drawn)) >= 2, drawn
    assert any(state.get("locked") for state in seen), "no node was ever in use"


def shows_the_twin_only(notebook: Notebook, index: int) -> None:
    cell = notebook.cell(index)
    image = cell.locator("img[src*=sgnb-static]")
    image.wait_for(state="visible")
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth; }") > 0
    assert "radix tree" in unquote(image.get_attribute("src") or "")
    assert cell.locator(".sgnb-card").count() == 0
    assert not cell.get_by_text("Loading widget").first.is_visible()


@pytest.mark.slow
def test_interrupt_and_error_leave_the_next_cell_working(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("stop.ipynb", "%load_ext sgnb", LONG, AFTER, ERROR, AGAIN, AGAIN).name)
    notebook.run_cell(0)
    notebook.start_cell(1)
    notebook.page.wait_for_function(
        "() => Object.values(window.__sgnb ?? {}).some(view => view.stats.characters > 200)"
    )
    notebook.interrupt()
    notebook.wait_cell(5)
    assert "stopped; the partial text is s.text()" in notebook.output(1)
    assert notebook.stats()[0]["status"] == "interrupted"
    notebook.run_cell(2)
    assert "(True, 'interrupted')" in notebook.output(2)
    assert not notebook.failed(2)
    notebook.run_cell(3)
    assert notebook.failed(3)
    for part in ("max_token", "line 2", "^^^^", "hint"):
        assert part in notebook.output(3), part
    notebook.run_cell(4)
    notebook.run_cell(5)
    first, again = notebook.stats()[-2:]
    assert first["status"] == again["status"] == "done"
    assert first["hit_rate"] == 0 and again["hit_rate"] > 0.9
