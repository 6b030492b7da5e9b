"""Copies in host memory and on disk in the tree, and loads over time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.lab import Lab, Notebook
from tests.browser.pages import CANVAS, findings, open_view, settle
from tests.viz.make_log import Program, WordEngine

pytestmark = pytest.mark.slow

BLOCK = 64
DOCUMENT = "The harbour master wrote down each ship , its cargo and the hour . " * 21


class Stores:
    """Copies of blocks of 64 tokens."""

    def __init__(self, engine: WordEngine) -> None:
        self.log, self.last = engine.log, 0
        self.log.emit(events.TiersStarted(1 << 30, 1 << 35, BLOCK, 256))

    def store(self, tokens: tuple[int, ...], copies: dict[str, int]) -> None:
        """Copy the first blocks of a prompt: a number per store."""
        count, first = len(tokens) // BLOCK, self.last + 1
        self.last += count
        self.log.emit(events.BlocksNamed(first, count, 0, tokens[: count * BLOCK]))
        for name, copied in copies.items():
            blocks = tuple(range(first, first + copied))
            self.log.emit(events.CopiesChanged(name, "stored", blocks))


def copied_log() -> EventLog:
    """A document with copies of four of five blocks in host memory and of all on disk, two evicted
    documents, and a run that loads the document."""
    log = EventLog()
    engine = WordEngine(log)
    stores = Stores(engine)
    tokens = engine.encode(DOCUMENT)
    for title, copies in (
        ("A log of the river . ", {"disk": 4}),
        ("Prices of tea . ", {"host": 3}),
    ):
        gone = engine.encode(title + DOCUMENT)
        node = engine.insert(gone)
        stores.store(gone, copies)
        engine.evict(node)

    program = Program(engine, "r1", "questions")
    program.branch("0")
    program.add("0", DOCUMENT)
    engine.insert(tokens)
    stores.store(tokens, {"host": 4, "disk": 5})
    steps = program.gen("0", "answer", " The Maria came first .")
    next(steps)
    log.emit(events.PrefixLoaded(engine.latest, "disk", 256, 0.04, 0.384))
    log.emit(events.PrefixLoaded(engine.latest, "host", 64, 0.012, 0.06))
    list(steps)
    program.end("0")
    program.finish()
    return log


def records() -> list[str]:
    feed = Feed(Trees(), 0.0)
    made = enumerate(copied_log().read().records, 1)
    feed.push([Record(i, i / 100, record.event) for i, record in made], 0)
    return feed.lines


@pytest.fixture(params=["light", "dark"])
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Page:
    """A page of 700 pixels."""
    page = new_page(viewport={"width": 700, "height": 1000}, color_scheme=request.param)
    page.set_content(standalone(records(), ""))
    return page


def drawing(page: Page, view: str) -> Locator:
    open_view(page, view)
    return page.locator(CANVAS).first


def colours(canvas: Locator, box: tuple[int, int, int, int]) -> set[tuple[int, ...]]:
    """Colours of a rectangle of a canvas, in pixels of the page."""
    settle(canvas.page)
    found = canvas.evaluate(
        """(canvas, [x, y, width, height]) => {
          const scale = canvas.width / canvas.clientWidth;
          const size = [x, y, width, height].map((one) => Math.round(scale * one));
          const { data } = canvas.getContext("2d").getImageData(...size);
          const all = [];
          for (let i = 0; i < data.length; i += 4) all.push([...data.slice(i, i + 4)].join());
          return [...new Set(all)];
        }""",
        list(box),
    )
    return {tuple(map(int, one.split(","))) for one in found}


def named(page: Page, name: str) -> tuple[int, ...]:
    text = page.locator(".sgnb-card").evaluate(
        "(card, name) => getComputedStyle(card).getPropertyValue(name).trim()", f"--sgnb-{name}"
    )
    return (*(int(text[i : i + 2], 16) for i in (1, 3, 5)), 255)


def test_bars_outlines_and_words_of_the_copies(page: Page) -> None:
    canvas = drawing(page, "tree")
    side = page.locator(".sgnb-side")
    expect(side.get_by_text("448 tokens in host memory · 512 tokens on disk")).to_be_visible()
    for words in ("also in host memory", "also on disk", "evicted, with a copy"):
        expect(side.get_by_text(words)).to_be_visible()
    said = canvas.get_attribute("aria-label") or ""
    assert "448 tokens in host memory" in said

    host, disk = named(page, "host"), named(page, "disk")
    both = colours(canvas, (4, 30, 300, 12))
    assert host in both and disk in both
    on_disk, in_host = colours(canvas, (4, 74, 300, 12)), colours(canvas, (4, 118, 300, 12))
    assert disk in on_disk and host not in on_disk
    assert host in in_host and disk not in in_host
    stripes = [colours(canvas, (10 + i, 82, 1, 1)) for i in range(10)]
    assert {disk} in stripes and any(disk not in one for one in stripes), "legible without colour"
    assert not findings(page, ".sgnb-card")


def test_the_inspector_says_where_a_node_is(page: Page) -> None:
    canvas = drawing(page, "tree")
    canvas.click(position={"x": 30, "y": 14})
    inspector = page.locator(".sgnb-inspector")
    expect(inspector).to_contain_text("also 256 in host memory and 256 on disk")
    canvas.click(position={"x": 30, "y": 58})
    expect(inspector).to_contain_text("evicted, on disk")
    expect(inspector).to_contain_text("A log of the river")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(inspector).to_contain_text("evicted, in host memory")
    page.get_by_role("button", name="nodes and links").click()
    expect(inspector).to_contain_text("evicted, in host memory")
    assert named(page, "disk") in colours(canvas, (0, 0, 300, 120))
    assert not findings(page, ".sgnb-card")


def test_outlines_exist_only_while_there_are_copies(page: Page) -> None:
    canvas = drawing(page, "tree")
    slider = page.get_by_label("time", exact=True)
    slider.evaluate("(one, at) => { one.value = at; one.dispatchEvent(new Event('input')); }", 4)
    expect(page.locator(".sgnb-side").get_by_text("evicted, with a copy")).to_be_hidden()
    assert named(page, "disk") not in colours(canvas, (0, 0, 300, 40))


def test_loads_have_a_lane_and_a_strip(page: Page) -> None:
    canvas = drawing(page, "branches")
    said = canvas.get_attribute("aria-label") or ""
    assert "256 tokens from the disk in 40 ms, instead of about 384 ms of prefill" in said
    at = canvas.evaluate("canvas => [canvas.clientWidth, canvas.clientHeight]")
    lane = (130, int(at[1]) - 43, int(at[0]) - 250, 18)
    assert named(page, "disk") in colours(canvas, lane)
    assert named(page, "host") in colours(canvas, lane)
    inspector = page.locator(".sgnb-inspector")
    for x in range(150, int(at[0]) - 100, 6):
        canvas.hover(position={"x": x, "y": int(at[1]) - 34})
        if "256 tokens from the disk" in inspector.inner_text():
            break
    expect(inspector).to_contain_text("would have taken about 384 ms")
    assert not findings(page, ".sgnb-card")

    canvas = drawing(page, "time")
    expect(canvas).to_have_attribute("aria-label", re.compile("256 tokens from the disk in 40 ms"))
    legend = page.locator(".sgnb-side .sgnb-panel").get_by_text("loaded from the disk")
    expect(legend.filter(visible=True)).to_be_visible()
    assert not findings(page, ".sgnb-card")


SLOW = """import sgnb.magics.disk_offer as offer
offer.OFFER_SECONDS = 0.001"""
ASK = """%%sglang
s += "The harbour master wrote down each ship, its cargo and the hour. " * 16
s += gen("answer", max_tokens=2)"""


def test_the_offer_appears_once_and_is_dismissed(notebook: Notebook, lab: Lab) -> None:
    cells = "%load_ext sgnb", SLOW, ASK, ASK.replace("harbour", "mill")
    notebook.open(lab.write("offer.ipynb", *cells).name)
    for number in range(3):
        notebook.run_cell(number)
    hint = notebook.page.get_by_role("note")
    expect(hint).to_contain_text("%sglang load tiny --disk-cache on keeps such prefixes")
    assert not findings(notebook.page, ".sgnb-hint-line")
    hint.get_by_role("button", name="dismiss").click()
    expect(hint).to_be_hidden()
    notebook.run_cell(3)
    expect(notebook.cell(3).locator(".sgnb-status")).to_have_text("done")
    settle(notebook.page)
    expect(notebook.page.get_by_role("note").filter(visible=True)).to_have_count(0)
    notebook.save()
