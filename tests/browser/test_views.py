"""The first views on a real page: live while the cell runs, safe, and still there without a
kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from sgnb.viz.static.bundle import size
from tests.browser.lab import Lab, Notebook

CELL = """
import threading, time
from tests.viz.make_log import HOSTILE, demo
from sgnb.events import EventLog
from sgnb.viz import Display, Emitter

log = EventLog()
emitter = Emitter(log)
shown = Display(emitter)
shown.open("r1")

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


@pytest.mark.slow
def test_live_escaped_and_still_there_without_kernel(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("views.ipynb", CELL)
    notebook.open(path.name)
    seen = [state for state in notebook.watch_cell(0) if "nodes" in state]
    assert max(state["nodes"] for state in seen) >= 5, seen
    assert len({state["characters"] for state in seen}) > 3, "the text came in one piece"

    (view,) = notebook.stats()
    assert (view["nodes"], view["evicted"], view["locked"], view["missing"]) == (12, 1, 0, 0)
    assert (view["status"], view["resyncs"], view["live"]) == ("done", 0, False)
    assert view["output_tokens"] == 80 and 0.8 < view["hit_rate"] < 1
    page = notebook.page
    assert "<img onerror=" in page.locator(".sgnb-branches").inner_text()
    assert page.evaluate("window.__pwned") is None
    assert page.locator(".sgnb-k-computed").count() and page.locator(".sgnb-token").count()
    assert not page.locator("img[src*=sgnb-static]").is_visible()
    assert page.locator(".sgnb-status").inner_text() == "done"
    views_are_linked(notebook)
    time_goes_back(notebook)
    notebook.save()

    assert reopened_shows_twin_only(notebook, path)


def views_are_linked(notebook: Notebook) -> None:
    """A token under the pointer is explained, and found in the other views."""
    page = notebook.page
    token = page.locator(".sgnb-token", has_text="daylight").first
    token.hover()
    facts = page.locator(".sgnb-inspector").inner_text()
    assert "sampled: chosen by the model" in facts and "branch 0.0, tip" in facts
    assert "60.7 %" in facts and "node" in facts
    token.click()
    page.locator(".sgnb-title").hover()
    assert "branch 0.0, tip" in page.locator(".sgnb-inspector").inner_text(), "a click pins"
    token.click()
    for name, label in (("branches", "over time"), ("time", "batch over time"), ("tree", "radix")):
        page.locator(f".sgnb-tab[data-view={name}]").click()
        assert label in (page.locator(".sgnb-side .sgnb-canvas").get_attribute("aria-label") or "")
    canvas = page.locator(".sgnb-side .sgnb-canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "positions" in page.locator(".sgnb-inspector").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert page.locator(".sgnb-actions").inner_text() == "unfold", "no engine, no other buttons"
    page.keyboard.press("Space")
    assert page.locator(".sgnb-actions").inner_text() == "fold"
    page.keyboard.press("Escape")
    page.locator(".sgnb-tab[data-view=time]").click()
    canvas.focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    page.get_by_title("clear the time range").wait_for()
    page.keyboard.press("Escape")
    page.get_by_title("clear the time range").wait_for(state="hidden")
    page.locator(".sgnb-tab[data-view=tree]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.view") == "branches"


def time_goes_back(notebook: Notebook) -> None:
    """The scrubber shows what was known then, and the end again."""
    page = notebook.page
    whole = page.locator(".sgnb-branches").inner_text()
    page.locator(".sgnb-slider").fill("60")
    early = page.locator(".sgnb-branches").inner_text()
    assert len(early) < len(whole) / 2
    assert page.locator(".sgnb-status").inner_text() == "running"
    page.get_by_role("button", name="now").click()
    assert page.locator(".sgnb-branches").inner_text() == whole


RESTART = """
import time
from tests.viz.make_log import demo
from sgnb.events import EventLog
from sgnb.viz import Display, Emitter

log = EventLog()
emitter = Emitter(log)
shown = Display(emitter)
shown.open("r1")
for _, _ in zip(range(80), demo(log)):
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_dead_kernel_is_said(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("restart.ipynb", RESTART).name)
    notebook.run_cell(0)
    page = notebook.page
    page.wait_for_timeout(3_000)
    assert page.locator(".sgnb-status").inner_text() == "running", "the thread goes on after a cell"
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    status = page.locator(".sgnb-status", has_text="no message from the kernel")
    status.wait_for(timeout=60_000)


LARGE_CELL = """
from tests.viz.make_log import WordEngine
from sgnb.events import EventLog
from sgnb.viz import Display, Emitter

log = EventLog()
emitter = Emitter(log)
engine = WordEngine(log)
for i in range(50):
    for j in range(60):
        engine.insert(engine.encode(f"subject {i} has the question {j} of many"))
view = Display(emitter, ["tree"])
view.open()
"""


@pytest.mark.slow
def test_a_large_tree_folds_is_searched_and_shown_whole(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("large.ipynb", LARGE_CELL).name)
    notebook.run_cell(0)
    page = notebook.page
    stage = page.locator(".sgnb-stage")
    stage.wait_for()
    assert notebook.stats()[0]["nodes"] > 3_000
    assert stage.evaluate("stage => stage.scrollHeight") < 2_500
    page.get_by_label("find text in the tree").fill("subject 7 has")
    assert "1 found" in page.locator(".sgnb-side .sgnb-tools").inner_text()
    page.get_by_label("find text in the tree").fill("")
    page.get_by_role("button", name="all 3").click()
    assert stage.evaluate("stage => stage.scrollHeight") > 30_000
    box = stage.bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 30)
    assert "last used" in page.locator(".sgnb-inspector").inner_text()
    stage.evaluate("stage => { stage.scrollTop = 30000; }")
    page.mouse.move(box["x"] + 22, box["y"] + 32)
    assert "last used" in page.locator(".sgnb-inspector").inner_text()


def reopened_shows_twin_only(notebook: Notebook, path: Path) -> bool:
    twins = [
        output.data
        for output in nbformat.read(path, as_version=4).cells[0].outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(twins) == 1 and size(twins[0]) < 20_000
    notebook.open_without_kernel(path.name)
    notebook.page.wait_for_selector("img[src*=sgnb-static]")
    picture = notebook.page.locator("img[src*=sgnb-static]")
    fits = "image => image.clientWidth <= image.parentElement.clientWidth"
    return (
        picture.is_visible()
        and picture.evaluate(fits)
        and not notebook.page.locator(".sgnb-card").count()
        and not notebook.page.get_by_text("Loading widget").first.is_visible()
        and not notebook.page.locator(".jp-RenderedJavaScript").first.is_visible()
    )
