"""Images in the views, at 700 pixels and in both colour schemes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from sgnb.events import EventLog
from sgnb.media import Image, thumbnail
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.pages import expect_no_sideways_scroll
from tests.viz.make_log import HOSTILE, Program, WordEngine


def bars(seed: int) -> str:
    rng = np.random.default_rng(seed)
    pixels = np.full((480, 640, 3), 255, np.uint8)
    for i in range(6):
        pixels[rng.integers(60, 400) : 440, 40 + 95 * i : 110 + 95 * i] = rng.integers(0, 200, 3)
    return thumbnail(Image(pixels))


def lines() -> list[str]:
    log = EventLog()
    engine = WordEngine(log)
    first = engine.item("image 640×480", 40, thumbnail=bars(0))
    hostile = engine.item(f"image {HOSTILE}", 30, thumbnail="")
    program = Program(engine, "r1", "charts")
    program.branch("0")
    program.add("0", f"Read this chart: {first} Which bar is the tallest?")
    list(program.gen("0", "tallest", " The third bar."))
    for name, text in (("0.0", f" Compare with {hostile} now."), ("0.1", f" Again {first}.")):
        program.branch(name, "0")
        program.add(name, text)
        list(program.gen(name, "answer", " Both charts rise."))
        program.end(name)
    program.end("0")
    program.finish()
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    return feed.lines


def is_remote(url: str) -> bool:
    return not url.startswith(("data:", "about:"))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_images_are_chips_with_details(new_page: Callable[..., Page], scheme: str) -> None:
    page = new_page(viewport={"width": 700, "height": 1100}, color_scheme=scheme)
    problems: list[str] = []
    page.on("request", lambda request: problems.extend([request.url] * is_remote(request.url)))
    page.set_content(standalone(lines(), "r1"))

    chips = page.locator(".sgnb-item")
    expect(chips).to_have_count(3)
    expect(chips.first).to_have_text("image 1: 640×480, 40 tokens, computed")
    assert chips.first.get_attribute("aria-label") == chips.first.inner_text()
    expect(chips.nth(1)).to_contain_text("image 2: <img onerror")
    assert chips.nth(1).locator(".sgnb-hatched").count() == 1 and chips.locator("img").count() == 2
    expect(page.locator(".sgnb-item img").first).to_have_js_property("naturalWidth", 96)
    assert page.evaluate("window.__pwned") is None
    expect(page.locator(".sgnb-models")).to_contain_text("encoder skipped for 3 of 5 images")

    chips.first.hover()
    facts = page.locator(".sgnb-inspector")
    expect(facts).to_contain_text("of all tokens")
    expect(facts.locator("img")).to_have_count(1)
    page.mouse.move(1, 1)
    expect(facts).not_to_contain_text("of all tokens")
    page.locator(".sgnb-text").first.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(8):  # the tokens of the text before
        if "image 1" in facts.inner_text():
            break
        page.keyboard.press("ArrowRight")
    expect(facts).to_contain_text("image 1")  # the arrow keys reach the chip

    tree = page.locator(".sgnb-side .sgnb-canvas")
    tree.focus()
    page.keyboard.press("ArrowDown")
    expect(facts).to_contain_text("640×480, 40 tokens")
    page.evaluate(
        """() => {
          const context = CanvasRenderingContext2D.prototype, draw = context.drawImage;
          window.thumbnails = 0;
          context.drawImage = function (...values) {
            window.thumbnails += 1;
            draw.apply(this, values);
          };
        }"""
    )
    page.get_by_role("button", name="nodes and links").click()
    page.wait_for_function("window.thumbnails > 0")
    page.locator(".sgnb-tab[data-view=time]").click()
    expect(page.locator(".sgnb-panel .sgnb-note").last).to_contain_text("70 tokens encoded in")
    expect_no_sideways_scroll(page)
    assert not problems
