"""The first views on a real page: live while the cell runs, safe, and still there without a
kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.browser.lab import Lab, Notebook

CELL = """
import threading, time
from tests.viz.make_log import HOSTILE, demo
from sgnb.events import EventLog
from sgnb.viz import Emitter, RunDisplay

log = EventLog()
emitter = Emitter(log)
shown = RunDisplay(log, "r1", emitter=emitter)
shown.open()

def run():
    for _ in demo(log):
        time.sleep(0.02)

thread = threading.Thread(target=run)
thread.start()
while thread.is_alive():
    time.sleep(0.05)
    shown.tick()
shown.close()
"""


def test_live_escaped_and_still_there_without_kernel(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("views.ipynb", CELL)
    notebook.open(path.name)
    seen = [state for state in notebook.watch_cell(0) if "nodes" in state and "characters" in state]
    assert max(state["nodes"] for state in seen) >= 5, seen
    assert len({state["characters"] for state in seen}) > 10, "the text came in one piece"

    tree, text = notebook.stats("tree")[0], notebook.stats("text")[0]
    assert (tree["nodes"], tree["evicted"], tree["locked"]) == (12, 1, 0)
    assert (text["status"], text["resyncs"], tree["resyncs"]) == ("done", 0, 0)
    assert text["output_tokens"] == 80 and 0.8 < text["hit_rate"] < 1
    page = notebook.page
    assert page.locator(".sgnb-node:not(.sgnb-ghost)").count() == 12
    assert "<img onerror=" in page.locator(".sgnb-branches").inner_text()
    assert page.evaluate("window.__pwned") is None
    assert page.locator(".sgnb-k-cached").count() and page.locator(".sgnb-k-sampled").count()
    assert not page.locator("figure.sgnb-twin").is_visible()
    notebook.save()

    assert reopened_shows_twin_only(notebook, path)


LARGE_CELL = """
from tests.viz.make_log import WordEngine
from sgnb.events import EventLog
from sgnb.viz import Emitter, tree_view

log = EventLog()
emitter = Emitter(log)
engine = WordEngine(log)
for i in range(50):
    for j in range(80):
        engine.insert(engine.encode(f"subject {i} has the question {j} of many"))
view = tree_view(emitter)
view.open()
"""


@pytest.mark.slow
def test_a_large_tree_folds_and_can_be_shown_whole(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("large.ipynb", LARGE_CELL).name)
    notebook.run_cell(0)
    page = notebook.page
    page.wait_for_selector(".sgnb-node")
    assert notebook.stats("tree")[0]["nodes"] > 4_000
    assert page.locator(".sgnb-node").count() < 60
    page.locator(".sgnb-stage").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "tokens" in page.locator(".sgnb-tip-meta").inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="show every node").click()
    page.wait_for_selector(".sgnb-stage canvas", state="visible")
    assert page.locator(".sgnb-node").count() == 0
    box = page.locator(".sgnb-stage canvas").bounding_box()
    assert box
    for y in range(16, 60):
        page.mouse.move(box["x"] + 50, box["y"] + y)
        if page.locator(".sgnb-tip").is_visible():
            break
    assert "last used" in page.locator(".sgnb-tip-meta").inner_text()


def reopened_shows_twin_only(notebook: Notebook, path: Path) -> bool:
    html = [
        output.data["text/html"]
        for output in nbformat.read(path, as_version=4).cells[0].outputs
        if "text/html" in output.get("data", {})
    ]
    assert len(html) == 1 and html[0].startswith("<figure") and len(html[0]) < 200_000
    notebook.open_without_kernel(path.name)
    notebook.page.wait_for_selector("figure.sgnb-twin img")
    return (
        notebook.page.locator("figure.sgnb-twin").is_visible()
        and not notebook.page.locator(".sgnb-card").count()
    )
