"""The first views on a real page: live while the cell runs, safe, and still there without a
kernel."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from sgnb.viz.static.bundle import size
from tests.browser.lab import Hold, Lab, Notebook
from tests.browser.pages import expect_inside, settle

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
        pass

thread = threading.Thread(target=run)
thread.start()
while thread.is_alive():
    time.sleep(0.05)
    shown.tick()
shown.close()
"""
GROWTH = [
    Hold("StepRan", 10 * number, "now.nodes && now.characters > (before.characters ?? 0)")
    for number in (2, 4, 6, 8)
]


@pytest.mark.slow
def test_live_escaped_and_still_there_without_kernel(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("views.ipynb", CELL)
    notebook.open(path.name)
    seen = notebook.watch_cell(0, *GROWTH)
    assert seen[-1]["nodes"] >= 5, seen

    (view,) = notebook.stats("views.length === 1 && views[0].status === 'done' && !views[0].live")
    assert (view["nodes"], view["evicted"], view["locked"], view["missing"]) == (12, 1, 0, 0)
    assert view["output_tokens"] == 80 and 0.8 < view["hit_rate"] < 1
    page = notebook.page
    expect(page.locator(".sgnb-status")).to_have_text("done")
    expect(page.locator(".sgnb-branches")).to_contain_text("<img onerror=")
    assert page.evaluate("window.__pwned") is None
    assert page.locator(".sgnb-k-computed").count() and page.locator(".sgnb-token").count()
    expect(page.locator("img[src*=sgnb-static]")).to_be_hidden()
    views_are_linked(notebook)
    time_goes_back(notebook)
    notebook.save()

    reopened_shows_twin_only(notebook, path)


def views_are_linked(notebook: Notebook) -> None:
    """A token under the pointer is explained, and found in the other views."""
    page = notebook.page
    token = page.locator(".sgnb-token", has_text="daylight").first
    token.hover()
    facts = page.locator(".sgnb-inspector")
    for fact in ("sampled: chosen by the model", "branch 0.0, tip", "60.7 %", "node"):
        expect(facts).to_contain_text(fact)
    token.click()
    page.locator(".sgnb-title").hover()
    expect(page.locator(".sgnb-inspector")).to_contain_text("branch 0.0, tip")  # a click pins
    token.click()
    for name, label in (("branches", "over time"), ("time", "batch over time"), ("tree", "radix")):
        page.locator(f".sgnb-tab[data-view={name}]").click()
        drawing = page.locator(".sgnb-side .sgnb-canvas")
        expect(drawing).to_have_attribute("aria-label", re.compile(label))
    canvas = page.locator(".sgnb-side .sgnb-canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sgnb-inspector")).to_contain_text("positions")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    expect(page.locator(".sgnb-actions")).to_have_text("unfold")  # no engine, no other buttons
    page.keyboard.press("Space")
    expect(page.locator(".sgnb-actions")).to_have_text("fold")
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
    expect(page.locator(".sgnb-tab[data-view=branches]")).to_be_focused()


def time_goes_back(notebook: Notebook) -> None:
    """The scrubber shows what was known then, and the end again."""
    page = notebook.page
    whole = page.locator(".sgnb-branches").inner_text()
    page.locator(".sgnb-slider").fill("60")
    expect(page.locator(".sgnb-status")).to_have_text("running")
    assert len(page.locator(".sgnb-branches").inner_text()) < len(whole) / 2
    page.get_by_role("button", name="now").click()
    expect(page.locator(".sgnb-branches")).to_have_text(whole, use_inner_text=True)


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
    beats = "Object.values(window.__sgnb)[0]?.stats.messages"
    before = page.wait_for_function(beats).json_value()
    page.wait_for_function(f"before => {beats} > before + 1", arg=before)
    expect(page.locator(".sgnb-status")).to_have_text("running")  # the thread outlives the cell
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    status = page.locator(".sgnb-status", has_text="no message from the kernel")
    status.wait_for()


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
    notebook.stats("views[0]?.nodes > 3_000")
    assert stage.evaluate("stage => stage.scrollHeight") < 2_500
    page.get_by_label("find text in the tree").fill("subject 7 has")
    expect(page.locator(".sgnb-side .sgnb-tools")).to_contain_text("1 found")
    page.get_by_label("find text in the tree").fill("")
    page.get_by_role("button", name="all 3").click()
    assert stage.evaluate("stage => stage.scrollHeight") > 30_000
    box = stage.bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 30)
    inspector = page.locator(".sgnb-inspector")
    expect(inspector).to_contain_text("last used")
    stage.evaluate("stage => { stage.scrollTop = 30000; }")
    settle(page)
    page.mouse.move(box["x"] + 22, box["y"] + 32)
    expect(inspector).to_contain_text("last used")


def reopened_shows_twin_only(notebook: Notebook, path: Path) -> None:
    twins = [
        output.data
        for output in nbformat.read(path, as_version=4).cells[0].outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(twins) == 1 and size(twins[0]) < 20_000
    notebook.open_without_kernel(path.name)
    picture = notebook.page.locator("img[src*=sgnb-static]")
    expect(picture).to_be_visible()
    expect_inside(picture, ".jp-OutputArea-output")
    expect(notebook.page.locator(".sgnb-card")).to_have_count(0)
    expect(notebook.page.get_by_text("Loading widget").first).to_be_hidden()
    expect(notebook.page.locator(".jp-RenderedJavaScript").first).to_be_hidden()
