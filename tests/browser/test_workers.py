"""The lanes of a fleet's workers in a page: reasons, moved calls, holders, replay, keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from sgnb import events
from sgnb.events import EventLog, LogReader, encode
from sgnb.viz.live.widget import standalone
from tests.browser.lab import Lab, Notebook
from tests.browser.pages import CANVAS, findings, open_view, picture
from tests.viz.make_log import WordEngine

pytestmark = pytest.mark.slow


def moved_call_log() -> list[str]:
    """Two calls on two workers; worker 1 ends, its call continues on worker 0, and worker 1
    returns. A record every 10 ms."""
    log, engines = EventLog(), [EventLog() for _ in range(3)]
    words = [WordEngine(engine) for engine in engines]
    for number in range(2):
        log.emit(events.WorkerJoined(number, "words", log.join(engines[number])))
    log.emit(events.RunStarted("r", "tale", "", 2))
    for branch in ("0", "1"):
        log.emit(events.BranchStarted("r", branch, "", ""))
    reason = {
        "compared": (0, 1),
        "compared_cached": (2, 0),
        "compared_first": (0.1, 0.4),
        "compared_others": (0.05, 0.0),
    }

    def route(branch: str, worker: int, engine: int) -> None:
        estimates = (0.0, 0.1, 0.05, 0.4, 0.01)
        log.emit(events.CallRouted("r", branch, "line", worker, engine, 4, 2, *estimates, **reason))

    def call(engine: int, branch: str) -> Iterator[None]:
        place = {"run": "r", "branch": branch, "name": "line"}
        return words[engine].generate("the old harbour town", " is quiet in the morning", **place)

    route("0", 0, 1)
    first = call(0, "0")
    route("1", 1, 2)
    lost = call(1, "1")
    for _ in range(2):
        next(first), next(lost)
    log.emit(events.WorkerLost(1, "the process ended", 2))
    log.emit(events.CallRetried("r", "1", "line", 1, 2))
    route("1", 0, 1)
    list(call(0, "1"))
    list(first)
    log.emit(events.WorkerJoined(1, "words", log.join(engines[2])))
    for branch in ("0", "1"):
        log.emit(events.BranchFinished("r", branch, ""))
    log.emit(events.RunFinished("r", "done"))
    reader = LogReader(log)
    records = reader.read().records
    every = enumerate((*reader.before, *records), 1)
    return [encode(record._replace(seq=i, t=i / 100)) for i, record in every]


@pytest.fixture(params=["light", "dark"])
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Page:
    page = new_page(viewport={"width": 1200, "height": 1000}, color_scheme=request.param)
    page.set_content(standalone(moved_call_log(), ""))
    open_view(page, "workers")
    return page


def inspected(page: Page) -> str:
    return page.locator(".sgnb-inspector").inner_text()


def seek(page: Page, position: int) -> None:
    page.locator(".sgnb-slider").evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }", position
    )


def test_a_call_shows_the_reason_of_its_worker(page: Page) -> None:
    canvas = page.locator(CANVAS).first
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 220, box["y"] + 28)  # the first row of worker 0
    expect(page.locator(".sgnb-inspector")).to_contain_text("branch 0, line")
    words = inspected(page)
    for fact in ("0, 2 of 4 prompt tokens cached", "in the fleet 10 ms", "decode", "the choice"):
        assert fact in words
    assert "cost of worker 1\n400 ms: first token 400 ms, later calls 0.0 ms" in words
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(5, 5)
    assert inspected(page) == words, "a click keeps the call"
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    assert findings(page, ".sgnb-card") == []


def test_a_moved_call_by_keyboard(page: Page) -> None:
    canvas = page.locator(CANVAS).first
    words = canvas.get_attribute("aria-label") or ""
    assert "1 continued elsewhere · ended: the process ended, back after " in words
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".sgnb-inspector")).to_contain_text("the worker ended, the process ended")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    assert "branch 1, line" in inspected(page) and "moved" not in inspected(page)
    page.keyboard.press("Escape")
    expect(page.locator(".sgnb-inspector")).to_contain_text("Point at a token")


def test_the_slider_replays_the_lanes(page: Page) -> None:
    canvas = page.locator(CANVAS).first
    end, seen = picture(page), []
    for position in (14, 26, 40):
        seek(page, position)
        seen.append(picture(page))
        label = canvas.get_attribute("aria-label") or ""
        assert ("ended" in label) == (position > 22)
    assert len({end, *seen}) == 4
    page.get_by_role("button", name="now").click()
    assert picture(page) == end


def test_a_tree_node_shows_its_holders(page: Page) -> None:
    plain = picture(page)
    page.locator(".sgnb-tab[data-view=tree]").click()
    expect(page.locator(".sgnb-engines option")).to_have_text(
        ["cache of worker 0", "cache of worker 1"]
    )
    tree = page.locator(".sgnb-stage canvas")
    tree.focus()
    page.keyboard.press("ArrowDown")
    assert "workers\n0 (9 tokens)" in inspected(page)
    page.locator(".sgnb-tab[data-view=workers]").click()
    page.mouse.move(5, 5)
    assert picture(page) != plain, "the lanes name the tokens that the workers hold"


CELLS = (
    "%load_ext sgnb\n%sglang load tiny --replicas 2 --on threads --device cpu",
    """%%sglang tale --temperature 0
s += "Tales of the old harbour town. " * 4 + gen("tale", max_tokens=12)
forks = s.fork(3)
forks += lambda i: f"\\nEnding {i}: "
forks += gen("end", max_tokens=8)
forks.join()
""",
)


def test_a_notebook_with_a_fleet(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("fleet.ipynb", *CELLS)
    notebook.open(path.name)
    notebook.run_cell(0)
    notebook.run_cell(1)
    assert not notebook.failed(1), notebook.output(1).inner_text()
    card = notebook.cell(1).locator(".sgnb-card")
    notebook.stats("views.length === 1 && views[0].status === 'done' && !views[0].live")
    expect(card.locator(".sgnb-status")).to_have_text("done")
    open_view(card, "workers")
    canvas = card.locator(".sgnb-side canvas:visible").first
    expect(canvas).to_have_attribute("aria-label", re.compile("worker 0: .*prompt tokens cached"))
    canvas.focus()
    notebook.page.keyboard.press("ArrowDown")
    expect(card.locator(".sgnb-inspector")).to_contain_text("cost of worker 1")
    expect(card.locator(".sgnb-inspector")).to_contain_text("decode")
    assert card.locator(".sgnb-k-sampled .sgnb-token").count() > 20, "tokens of all workers"

    notebook.save()
    notebook.open_without_kernel(path.name)
    expect(notebook.cell(1).locator("img[src*=sgnb-static]")).to_be_visible()
