"""One decoration per token, a common left margin of all views, and one emphasis in the head; light
and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from sgnb.events import EventLog, Record
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.pages import expect_no_sideways_scroll, findings, open_view, resize
from tests.viz.make_log import demo

pytestmark = pytest.mark.slow

LINE = "token => getComputedStyle(token).textDecorationLine"
STYLE = "token => getComputedStyle(token).textDecorationStyle"
MARGIN = 16
TABS = ("tree", "branches", "time")


@pytest.fixture(params=["light", "dark"])
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Page:
    page = new_page(viewport={"width": 1200, "height": 1000}, color_scheme=request.param)
    log = EventLog()
    list(demo(log))
    feed = Feed(Trees(), 0.0)
    made = enumerate(log.read().records, 1)
    feed.push([Record(i, i / 100, record.event) for i, record in made], 0)
    page.set_content(standalone(feed.lines, ""))
    return page


def token(page: Page, kind: str) -> Locator:
    return page.locator(f".sgnb-main .sgnb-k-{kind} .sgnb-token").first


def decorations(part: Locator) -> list[str]:
    """Visible decorations of a token and the passage around: background, underline, box."""
    script = """one => [one, one.parentElement].flatMap((node) => {
      const style = getComputedStyle(node), clear = "rgba(0, 0, 0, 0)";
      return [
        style.backgroundColor !== clear && "tint",
        style.textDecorationLine !== "none" && "line",
        (style.outlineStyle !== "none" || style.boxShadow !== "none" || style.borderLeftWidth !== "0px") && "box",
      ].filter(Boolean);
    })"""  # noqa: E501
    found: list[str] = part.evaluate(script)
    return found


def test_a_token_has_one_decoration_and_lines_on_request(page: Page) -> None:
    plain = page.locator(".sgnb-main .sgnb-token:not(.sgnb-border)").nth(3)
    assert decorations(plain) == ["tint"]
    legend = page.locator(".sgnb-foot .sgnb-k-cached")
    assert legend.evaluate(LINE) == "underline" and legend.evaluate(STYLE) == "dotted"

    sampled = token(page, "sampled")
    sampled.hover()
    assert "underline" in sampled.evaluate(LINE), "the token under the pointer"
    page.locator(".sgnb-title").hover()
    shade = page.get_by_label("colour tokens by")
    shade.select_option("lines")
    styles = {
        kind: page.locator(f".sgnb-main .sgnb-k-{kind}").first.evaluate(STYLE)
        for kind in ("cached", "computed", "sampled")
    }
    assert styles == {"cached": "dotted", "computed": "dashed", "sampled": "solid"}
    assert not findings(page, ".sgnb-card")

    shade.select_option("time")
    shaded = page.locator(".sgnb-main .sgnb-shaded:not(.sgnb-border)")
    assert decorations(shaded.and_(page.locator(":not([style*=': 0%'])")).first) == ["tint"]
    shade.select_option("origin")
    assert decorations(plain) == ["tint"]


def test_more_contrast_shows_the_lines(page: Page) -> None:
    page.emulate_media(contrast="more")
    assert page.locator(".sgnb-main .sgnb-k-cached").first.evaluate(STYLE) == "dotted"
    assert page.locator(".sgnb-main .sgnb-k-cached").first.evaluate(LINE) == "underline"


@pytest.mark.parametrize("width", [700, 1200])
def test_text_and_drawings_have_a_common_left_margin(page: Page, width: int) -> None:
    resize(page, width)
    card = page.locator(".sgnb-card").bounding_box()
    text = page.locator(".sgnb-main .sgnb-text").first.bounding_box()
    assert card and text
    assert text["x"] - card["x"] == pytest.approx(MARGIN, abs=1)
    for view in TABS:
        open_view(page, view)
        side = page.locator(".sgnb-side").bounding_box()
        drawing = page.locator(".sgnb-side canvas:visible").first.bounding_box()
        assert side and drawing
        assert drawing["x"] - side["x"] == pytest.approx(MARGIN, abs=2)
        expect_no_sideways_scroll(page)
        assert not findings(page, ".sgnb-card")


def test_the_head_has_one_emphasis(page: Page) -> None:
    weights = "head => [...head.children].map(e => [e.className, getComputedStyle(e).fontWeight])"
    found = page.locator(".sgnb-head").evaluate(weights)
    assert [name for name, weight in found if int(weight) >= 600] == ["sgnb-gain"]
    expect(page.locator(".sgnb-gain")).to_contain_text("found in the cache")
    tops = "head => [...head.children].map(e => Math.round(e.getBoundingClientRect().bottom))"
    bottoms = page.locator(".sgnb-head").evaluate(tops)
    assert max(bottoms) - min(bottoms) <= 8, "one line"
