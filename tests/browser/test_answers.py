"""Answers of the kernel to the buttons of a view: late, in another order, or absent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sgnb.events import BranchPaused, BranchResumed, BranchStarted, EventLog, RunStarted
from sgnb.viz import Feed, Trees
from sgnb.viz.live.widget import module, style
from tests.viz.make_log import WordEngine

TREE = ".sgnb-stage canvas"


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": 1600, "height": 1000})


def show_live(page: Page, lines: list[str], **options: bool) -> None:
    """Show the widget of a kernel that never answers by itself. `window.receive(from, text)` gives
    further records to the page, `window.answer(id, text)` the answer to a request."""
    records = {"from": 0, "lines": "\n".join(lines), "live": True, "reported": False}
    values: dict[str, Any] = {"records": records, "uid": "one", "run": "", "views": ["tree"]}
    values |= {"controls": False, "steps": False, "edits": False, "batch": False}
    values |= {"hint": "", "reruns": [], **options}
    page.set_content(f"""<style>{style()}</style><main></main><script type="module">{module()}
        const values = {json.dumps(values)}, handlers = {{}}, none = () => {{}};
        const on = (name, handler) => {{ handlers[name] = handler; }};
        const model = {{ get: (name) => values[name], on, off: none, set: none, send: none }};
        const shown = widget();
        shown.initialize({{ model }});
        shown.render({{ model, el: document.querySelector("main") }});
        window.receive = (from, text) =>
            handlers["msg:custom"]({{ from }}, [new TextEncoder().encode(text)]);
        window.answer = (id, text, failed = false) =>
            handlers["msg:custom"]({{ answer: id, text, failed }});
    </script>""")


def show_tree(page: Page, *texts: str) -> None:
    """Show a radix tree with the texts, and buttons."""
    log = EventLog()
    engine = WordEngine(log)
    for text in texts:
        engine.insert(engine.encode(text))
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    show_live(page, feed.lines, controls=True)


def test_a_late_answer_replaces_the_report_of_its_absence(page: Page) -> None:
    show_tree(page, "a text")
    page.locator(TREE).click(position={"x": 8, "y": 8})
    page.locator(".sgnb-actions button").filter(has_text="pin").click()
    inspector = page.locator(".sgnb-inspector")
    expect(inspector).to_contain_text("no answer from the kernel")
    expect(inspector).to_contain_text("reload the page")
    page.evaluate("window.answer(1, '2 tokens are kept')")
    expect(inspector).to_contain_text("2 tokens are kept")
    expect(inspector).not_to_contain_text("no answer from the kernel")


def test_each_node_keeps_the_answer_to_its_last_request(page: Page) -> None:
    show_tree(page, "a text", "another")
    tree, inspector = page.locator(TREE), page.locator(".sgnb-inspector")

    def ask(action: str) -> None:
        page.locator(".sgnb-actions button").filter(has_text=re.compile(f"^{action}$")).click()
        expect(inspector).to_contain_text(f"{action} requested")

    def move(key: str) -> None:
        tree.focus()
        page.keyboard.press(key)

    def check_answers(upper: str, lower: str) -> None:
        move("ArrowUp")
        expect(inspector).to_contain_text(upper)
        move("ArrowDown")
        expect(inspector).to_contain_text(lower)

    tree.click(position={"x": 8, "y": 8})
    ask("pin")
    move("ArrowDown")
    expect(inspector).not_to_contain_text("pin requested")
    ask("pin")
    page.evaluate("window.answer(2, '3 tokens are kept')")
    expect(inspector).to_contain_text("3 tokens are kept")
    page.evaluate("window.answer(1, '2 tokens are kept')")
    check_answers("2 tokens are kept", "3 tokens are kept")

    ask("pin")
    ask("evict")
    page.evaluate("window.answer(4, 'a program uses the node', true)")
    expect(inspector).to_contain_text("a program uses the node")
    page.evaluate("window.answer(3, '3 tokens are kept')")
    check_answers("2 tokens are kept", "a program uses the node")


def show_steps(page: Page, *events: BranchPaused | BranchResumed) -> list[str]:
    """Show a run with stepping, without the last two events of the branch. Return all records."""
    log = EventLog()
    log.emit(RunStarted("r1", "small", "", 1))
    log.emit(BranchStarted("r1", "0", "", ""))
    for event in events:
        log.emit(event)
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    show_live(page, feed.lines[:-2], steps=True)
    return list(feed.lines)


@pytest.mark.slow
def test_a_stop_or_an_answer_replaces_the_report_of_a_late_answer(page: Page) -> None:
    first, last = BranchPaused("r1", "0", "text 'a'"), BranchPaused("r1", "0", "gen 'b'")
    lines = show_steps(page, first, BranchResumed("r1", "0"), last)
    words = page.locator(".sgnb-stepper [role=status]")
    expect(words).to_have_text("paused before text 'a' [0]")
    page.get_by_role("button", name="token", exact=True).click()
    expect(words).to_contain_text("no answer from the kernel")
    page.evaluate("window.answer(1, '')")
    expect(words).to_have_text("paused before text 'a' [0]")
    page.get_by_role("button", name="token", exact=True).click()
    expect(words).to_contain_text("no answer from the kernel")
    page.evaluate(
        "([from, text]) => window.receive(from, text)",
        [len(lines) - 2, "\n".join(lines[-2:])],
    )
    expect(words).to_have_text("paused before gen 'b' [0]")


def test_an_answer_after_the_next_stop_is_not_shown(page: Page) -> None:
    first, last = BranchPaused("r1", "0", "text 'a'"), BranchPaused("r1", "0", "gen 'b'")
    lines = show_steps(page, first, BranchResumed("r1", "0"), last)
    words = page.locator(".sgnb-stepper [role=status]")
    token = page.get_by_role("button", name="token", exact=True)
    token.click()
    page.evaluate(
        "([from, text]) => window.receive(from, text)",
        [len(lines) - 2, "\n".join(lines[-2:])],
    )
    expect(words).to_have_text("paused before gen 'b' [0]")
    page.evaluate("window.answer(1, 'the run is not paused', true)")
    expect(words).to_have_text("paused before gen 'b' [0]")
    token.click()
    page.evaluate("window.answer(2, 'the run has ended', true)")
    expect(words).to_have_text("the run has ended")


def test_urgent_drawings_cancel_no_other_timer(page: Page) -> None:
    """Numbers of frames and of timers overlap, in the whole page."""
    first, last = BranchPaused("r1", "0", "text 'a'"), BranchPaused("r1", "0", "gen 'b'")
    lines = show_steps(page, first, last)
    page.evaluate(
        """([from, lines]) => {
        const frame = window.requestAnimationFrame, clear = window.clearTimeout;
        window.__cancelled = [];
        window.requestAnimationFrame = (draw) => 1e6 + frame(draw);
        window.clearTimeout = (timer) => { window.__cancelled.push(timer); clear(timer); };
        lines.forEach((line, i) => window.receive(from + i, line));
    }""",
        [len(lines) - 2, lines[-2:]],
    )
    expect(page.locator(".sgnb-stepper [role=status]")).to_have_text("paused before gen 'b' [0]")
    assert all((timer or 0) < 1e6 for timer in page.evaluate("window.__cancelled"))
