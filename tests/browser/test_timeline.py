"""Zoom, pan and search of the views over time, by pointer and keyboard; forks, joins, tools."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.pages import (
    CANVAS,
    expect_no_sideways_scroll,
    findings,
    open_view,
    picture,
    settle,
)
from tests.viz.make_log import Program, WordEngine, demo

pytestmark = pytest.mark.slow

SEARCH = "find in variables, texts, tools and branch names"


def tooled() -> EventLog:
    """The demo, then a program with a tool and a batch of 60 programs."""
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1", "many", total=1)
    program.branch("0")
    program.add("0", "Begin here:")
    list(program.gen("0", "plan", " a plan of few words."))
    log.emit(events.ToolCalled("r1", "0", "look_up"))
    for i in range(60):
        program.branch(f"0.{i}", "0")
        program.add(f"0.{i}", f" Part {i}:")
        list(program.gen(f"0.{i}", "part", " needle" if i == 55 else " hay and straw"))
        if i == 3:
            log.emit(events.ToolReturned("r1", "0", "look_up"))
        program.end(f"0.{i}")
    program.end("0")
    program.finish()
    return log


def records(log: EventLog) -> list[str]:
    feed = Feed(Trees(), 0.0)
    made = enumerate(log.read().records, 1)
    feed.push([Record(i, i / 100, record.event) for i, record in made], 0)
    return feed.lines


@pytest.fixture(params=["light", "dark"])
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Page:
    return new_page(viewport={"width": 1200, "height": 1000}, color_scheme=request.param)


def show(page: Page, log: EventLog, view: str) -> Locator:
    page.set_content(standalone(records(log), ""))
    open_view(page, view)
    return page.locator(CANVAS).first


def demo_log() -> EventLog:
    log = EventLog()
    list(demo(log))
    return log


def window(page: Page) -> tuple[float, float]:
    """The shown times in the tools, in seconds."""
    settle(page)
    text = page.locator(".sgnb-side .sgnb-tools:visible .sgnb-label").all_inner_texts()
    span = next((one for one in text if " to " in one), "")
    assert span, text
    begin, end = (one.split() for one in span.split(" to "))
    size = {"s": 1.0, "ms": 1e-3}
    first = float(begin[0]) * size[begin[1] if len(begin) > 1 else end[1]]
    return first, float(end[0]) * size[end[1]]


@pytest.mark.parametrize("view", ["branches", "time"])
def test_zoom_and_pan_by_pointer_buttons_and_keys(page: Page, view: str) -> None:
    canvas = show(page, demo_log(), view)
    whole = picture(page)
    zoom = page.locator(".sgnb-side .sgnb-steps:visible")
    back = zoom.get_by_role("button", name="whole")
    expect(back).to_be_hidden()

    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    expect(back).to_be_visible()
    begin, end = window(page)
    by_wheel = end - begin
    zoom.get_by_role("button", name="+").click()
    first, last = window(page)
    assert last - first == pytest.approx(by_wheel / 2, rel=0.05)

    canvas.focus()
    page.keyboard.press("-")
    begin, end = window(page)
    assert end - begin == pytest.approx(by_wheel, rel=0.05)
    page.keyboard.press("+")
    zoomed = window(page)
    if view == "time":
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 500, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 440, box["y"] + 30, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    dragged = window(page)
    assert dragged[0] > zoomed[0]
    assert dragged[1] - dragged[0] == pytest.approx(zoomed[1] - zoomed[0], rel=0.05)
    expect(page.locator(".sgnb-foot").get_by_role("button", name="×")).to_be_hidden()

    canvas.focus()
    key = "Shift+ArrowLeft" if view == "branches" else "ArrowLeft"
    for _ in range(120 if view == "time" else 1):
        page.keyboard.press(key)
    assert window(page)[0] < dragged[0], "the window follows"
    page.keyboard.press("Home")
    expect(back).to_be_hidden()
    if view == "branches":
        assert picture(page) == whole
    assert not findings(page, ".sgnb-card")


@pytest.mark.parametrize("view", ["branches", "time"])
def test_keys_before_the_next_frame_add_up(page: Page, view: str) -> None:
    canvas = show(page, demo_log(), view)
    canvas.focus()
    page.keyboard.press("+")
    begin, end = window(page)
    canvas.evaluate("""canvas => {
        const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
        for (const key of ["Home", "+", "+", "+"]) press(key);
    }""")
    first, last = window(page)
    assert last - first == pytest.approx((end - begin) / 4, rel=0.05)


def test_the_views_share_the_window_and_fit_700_pixels(page: Page) -> None:
    page.set_viewport_size({"width": 700, "height": 1000})
    canvas = show(page, demo_log(), "branches")
    canvas.focus()
    page.keyboard.press("+")
    shown = window(page)
    page.locator(".sgnb-tab[data-view=time]").click()
    assert window(page) == shown
    expect_no_sideways_scroll(page)
    assert not findings(page, ".sgnb-card")


def test_search_marks_and_jumps(page: Page) -> None:
    canvas = show(page, tooled(), "branches")
    plain, words = picture(page), canvas.get_attribute("aria-label") or ""
    assert "60 branches of 0 share" in words
    search = page.get_by_label(SEARCH)
    status = page.locator(".sgnb-side .sgnb-tools [role=status]").first
    search.fill("needle")
    expect(status).to_have_text("1 found")
    # a lane beyond the first
    expect(canvas).to_have_attribute("aria-label", re.compile(r"branch 0\.55:"))
    assert picture(page) != plain
    search.press("Enter")
    expect(status).to_have_text("1 of 1")
    expect(page.locator(".sgnb-inspector")).to_contain_text("part")
    search.fill("part")
    expect(status).to_have_text("60 found")
    search.press("Enter")
    search.press("Enter")
    expect(status).to_have_text("2 of 60")
    search.press("Shift+Enter")
    expect(status).to_have_text("1 of 60")
    page.get_by_role("button", name="next", exact=True).click()
    expect(status).to_have_text("2 of 60")
    search.fill("LOOK_up")
    expect(status).to_have_text("1 found")
    search.fill("nothing like this")
    expect(status).to_have_text("not found")
    assert not findings(page, ".sgnb-card")
    search.press("Escape")
    expect(status).to_have_text("")
    expect(page.get_by_label(SEARCH)).to_have_value("")


def test_a_match_outside_of_the_window_comes_into_view(page: Page) -> None:
    canvas = show(page, tooled(), "branches")
    canvas.focus()
    for _ in range(4):
        page.keyboard.press("+")
    for _ in range(12):
        page.keyboard.press("Shift+ArrowLeft")
    before = window(page)
    search = page.get_by_label(SEARCH)
    search.fill("needle")
    search.press("Enter")
    after = window(page)
    assert after[0] >= before[1] and after[1] > before[1]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], rel=0.05)


def test_a_short_text_of_tools_and_joins_is_spoken(page: Page) -> None:
    canvas = show(page, demo_log(), "branches")
    words = canvas.get_attribute("aria-label") or ""
    assert "3 branches of 0 share" in words and ", joined" in words
    legend = page.locator(".sgnb-side .sgnb-legend:visible")
    for name in ("Python", "tools", "shared prefix of a fork"):
        expect(legend).to_contain_text(name)
