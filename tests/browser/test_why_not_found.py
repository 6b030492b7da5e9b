"""From "not found" to its reason in one action, at 700 pixels and in both color schemes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sgnb.events import EventLog
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.pages import expect_no_sideways_scroll, findings
from tests.viz.make_log import HOSTILE, Program, WordEngine

RULES = " ".join(f"rule{i}" for i in range(10))


def lines() -> list[str]:
    """Two runs that differ in a word, and a fork of the second run with a long own prompt."""
    log = EventLog()
    engine = WordEngine(log)
    for run, country in (("r1", f"Spain{HOSTILE}"), ("r2", "Italy")):
        program = Program(engine, run, "capitals")
        program.branch("0")
        program.add("0", f"Country: {country} {RULES} Answer:")
        list(program.gen("0", "capital", " Rome."))
    program.branch("0.0", "0")
    program.add("0.0", " Long:" + " word" * 2100)
    list(program.gen("0.0", "more", " Done."))
    program.end("0.0")
    program.end("0")
    program.finish()
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    return feed.lines


@pytest.fixture
def page(new_page: Callable[..., Page], scheme: str) -> Page:
    page = new_page(viewport={"width": 700, "height": 1100}, color_scheme=scheme)
    page.set_content(standalone(lines(), "r2"))
    return page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_miss_is_one_action_from_its_reason(page: Page, scheme: str) -> None:
    facts, borders = page.locator(".sgnb-inspector"), page.locator(".sgnb-border")
    assert [border.get_attribute("data-position") for border in borders.all()] == ["2", "17"]
    why = page.get_by_role("button", name="why not found")

    def is_explained() -> None:
        expect(facts).to_contain_text("run r1, branch 0, capital: 2 tokens in common")
        expect(facts).to_contain_text("token 2: “␣Italy” here, “␣Spain")
        expect(facts).to_contain_text("up to 12 more tokens would be found")

    borders.first.hover()
    is_explained()
    page.mouse.move(1, 1)
    expect(facts).not_to_contain_text("other prompt")
    why.click()
    is_explained()
    page.locator(".sgnb-text").first.focus()
    page.keyboard.press("Escape")
    expect(facts).not_to_contain_text("other prompt")
    page.keyboard.press("n")
    is_explained()
    page.keyboard.press("ArrowRight")
    expect(facts).to_contain_text("position 3")  # the arrow keys continue at the border

    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.press("n")
    expect(facts).to_contain_text("position 17")
    expect(facts).to_contain_text("the tree had no continuation")
    page.keyboard.press("n")
    is_explained()
    expect_no_sideways_scroll(page)
    assert page.evaluate("window.__pwned") is None
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    assert not findings(page, "main" if page.locator("main").count() else "body")


@pytest.mark.slow
def test_a_prompt_found_whole_has_no_button(new_page: Callable[..., Page]) -> None:
    log = EventLog()
    engine = WordEngine(log)
    for run in ("r1", "r2"):
        program = Program(engine, run, "twice")
        program.branch("0")
        program.add("0", "The same prompt again")
        list(program.gen("0", "a", " yes"))
        program.end("0")
        program.finish()
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    page = new_page()
    for run, count in (("r1", 1), ("r2", 0)):
        page.set_content(standalone(feed.lines, run))
        page.locator(".sgnb-text .sgnb-token").first.wait_for()
        expect(page.locator(".sgnb-border")).to_have_count(count)
        assert page.get_by_role("button", name="why not found").is_visible() == bool(count)
