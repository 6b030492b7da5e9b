"""A batch of 5,000 rows sorts in 100 ms; rows with images have thumbnails."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.pages import Stopwatch, findings, wait_until
from tests.browser.test_media import bars
from tests.viz.make_log import HOSTILE, Program, WordEngine

ROWS = 5_000
SORT_MILLISECONDS = 100
SORT = """name => {
    const button = [...document.querySelectorAll('.sgnb-rows th button')]
        .find((one) => one.textContent === name);
    button.click();
    document.querySelector('.sgnb-rows').offsetHeight;  // layout
}"""


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": 1280, "height": 900})


def show(page: Page, log: EventLog) -> None:
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    page.set_content(standalone(feed.lines, "r1"))


@pytest.mark.slow
def test_5000_rows_sort_in_100_ms(page: Page) -> None:
    rng, log = random.Random(0), EventLog()
    program = Program(WordEngine(log), "r1", "many", total=ROWS)
    for i in range(ROWS):
        name = str(i)
        program.branch(name)
        log.emit(events.ProgramCalled("r1", name, f"q='question {rng.random()}'"))
        log.emit(events.GenerationDone("r1", name, "a", f"answer {rng.random()} " + "word " * 40))
        log.emit(events.BranchFinished("r1", name, "ValueError: no" if i % 50 == 0 else ""))
    program.finish()
    show(page, log)
    expect(page.locator(".sgnb-rows tbody tr")).to_have_count(200)
    stopwatch = Stopwatch(page)
    times: dict[str, list[float]] = {}
    for name in ("arguments", "answer", "time", "status", "#") * 3:
        times.setdefault(name, []).append(stopwatch.time(SORT, name))
    assert page.evaluate("window.__sgnb.page.dashboard.stats().rows_ms") > 0
    assert max(map(min, times.values())) < SORT_MILLISECONDS, times
    cells = page.locator(".sgnb-rows tbody tr td:first-child").all_inner_texts()
    numbers = [int(cell) for cell in cells]
    assert numbers == sorted(numbers, reverse=numbers[0] > numbers[1])


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 700])
def test_rows_have_thumbnails_of_images(page: Page, width: int) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page.set_viewport_size({"width": width, "height": 900})
    log = EventLog()
    engine = WordEngine(log)
    images = [engine.item(f"image {i}×{i}", 4, thumbnail=bars(i)) for i in range(2)]
    hostile = engine.item(f"image {HOSTILE}", 4, thumbnail="")
    program = Program(engine, "r1", "charts", total=3)
    for i, text in enumerate([images[0] + images[1], hostile, "no image"]):
        program.branch(str(i))
        log.emit(events.ProgramCalled("r1", str(i), f"image={HOSTILE!r}"))
        program.add(str(i), f"Read {text}")
        list(program.gen(str(i), "answer", " A chart."))
        program.end(str(i))
    program.finish()
    show(page, log)
    rows = page.locator(".sgnb-rows tbody tr")
    expect(rows.nth(0).locator(".sgnb-row-items img")).to_have_count(2)
    expect(rows.nth(1).locator(".sgnb-row-items .sgnb-hatched")).to_have_count(1)
    expect(rows.nth(2).locator(".sgnb-row-items > *")).to_have_count(0)
    thumbnail = "image => image.complete && 10 <= image.clientHeight && image.clientHeight <= 20"
    wait_until(rows.nth(0).locator("img").first, thumbnail)
    rows.nth(0).click()
    expect(page.locator(".sgnb-item img")).to_have_count(2)
    assert not findings(page, ".sgnb-card")
