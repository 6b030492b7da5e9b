"""The tree's forms, folding, pins and evictions; a brushed range of time; views that follow a
resize."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sgnb.events import (
    BranchStarted,
    ComparisonDone,
    EventLog,
    Record,
    RunFinished,
    RunStarted,
    VariantRan,
)
from sgnb.viz import VIEWS, Feed, Trees
from sgnb.viz.live.widget import standalone
from tests.browser.lab import Lab, Notebook
from tests.browser.pages import (
    CANVAS,
    expect_no_sideways_scroll,
    findings,
    open_view,
    picture,
    resize,
    settle,
)
from tests.viz.make_log import WordEngine, demo

pytestmark = pytest.mark.slow

TREE = ".sgnb-stage canvas"


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": 1600, "height": 1000})


def show(page: Page, log: EventLog) -> None:
    """All of the log, a record every 10 ms."""
    feed = Feed(Trees(), 0.0)
    records = enumerate(log.read().records, 1)
    feed.push([Record(i, i / 100, record.event) for i, record in records], 0)
    page.set_content(standalone(feed.lines, ""))


def show_demo(page: Page) -> None:
    log = EventLog()
    list(demo(log))
    show(page, log)


def test_a_subtree_folds_by_key_pointer_and_button(page: Page) -> None:
    show_demo(page)
    open_view(page, "tree")
    whole = picture(page)
    page.locator(TREE).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    buttons = page.locator(".sgnb-actions")
    expect(buttons).to_have_text("unfold")  # there is no engine
    folded = picture(page)
    page.get_by_role("button", name="unfold").click()
    unfolded = picture(page)
    assert folded != unfolded
    page.keyboard.press("Escape")
    expect(buttons).to_be_hidden()
    page.locator(TREE).dblclick(position={"x": 20, "y": 20})
    expect(page.get_by_role("button", name="unfold")).to_have_count(1)
    page.locator(TREE).dblclick(position={"x": 20, "y": 20})
    page.get_by_role("button", name="nodes and links").click()
    assert picture(page) not in (whole, folded, unfolded)
    page.get_by_role("button", name="icicle").click()
    assert picture(page) == unfolded
    page.get_by_label("show the nodes of").select_option("r1")
    expect(page.locator(".sgnb-side .sgnb-tools")).to_contain_text("of this run")
    assert picture(page) != unfolded
    assert not findings(page, ".sgnb-card")


def test_a_node_lights_its_tokens_in_the_text(page: Page) -> None:
    show_demo(page)
    open_view(page, "tree")
    token = page.locator(".sgnb-token", has_text="daylight").first
    token.click()
    expect(page.locator(".sgnb-inspector")).to_contain_text("node")
    number = page.locator(".sgnb-inspector").inner_text().partition("node ")[2].split()[0]
    page.keyboard.press("Escape")
    page.locator(TREE).focus()
    while f"{number}: " not in page.locator(".sgnb-inspector").inner_text():
        page.keyboard.press("ArrowDown")
    expect(token).to_have_class("sgnb-token sgnb-lit")
    lit = page.locator(".sgnb-token.sgnb-lit").all_inner_texts()
    assert "".join(lit).startswith(" 1: Get daylight in the morning"), lit


def test_a_large_tree_has_a_map_that_goes_there(page: Page) -> None:
    log = EventLog()
    engine = WordEngine(log)
    for i in range(40):
        for j in range(50):
            engine.insert(engine.encode(f"subject {i} has the question {j} of many"))
    show(page, log)
    stage, small = page.locator(".sgnb-stage"), page.locator(".sgnb-minimap")
    expect(small).to_be_hidden()
    page.get_by_role("button", name="all 2").click()
    expect(small).to_be_visible()
    box = small.bounding_box()
    assert box
    page.mouse.click(box["x"] + 30, box["y"] + box["height"] / 2)
    middle = stage.evaluate("s => (s.scrollTop + s.clientHeight / 2) / s.scrollHeight")
    assert middle == pytest.approx(0.5, abs=0.02)
    expect(stage).to_have_attribute("data-beyond", "top bottom")
    page.get_by_role("button", name="nodes and links").click()
    expect(small).to_be_visible()


def test_a_range_of_time_is_brushed_and_every_view_follows(page: Page) -> None:
    show_demo(page)
    open_view(page, "branches")
    lanes = picture(page)
    open_view(page, "tree")
    tree = picture(page)
    open_view(page, "time")
    metrics = page.locator(".sgnb-side .sgnb-note")
    expect(metrics).to_contain_text("tokens of prompts and forced text computed and ")
    assert metrics.inner_text().startswith("in ") and "with an unlimited cache" in (
        metrics.inner_text()
    )
    box = page.locator(CANVAS).first.bounding_box()
    assert box
    across = box["width"] - 128
    page.mouse.move(box["x"] + 64 + 0.3 * across, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 64 + 0.6 * across, box["y"] + 40, steps=5)
    page.mouse.up()
    let_go = page.locator(".sgnb-foot").get_by_role("button", name="×")
    expect(let_go).to_be_visible()
    expect(metrics).to_have_text(re.compile("^in these "))
    tokens = page.locator(".sgnb-token")
    within = page.locator(".sgnb-ranged .sgnb-token.sgnb-within")
    assert 0 < within.count() < tokens.count()
    faded = page.locator(".sgnb-token:not(.sgnb-within)").first
    style = "token => [token, token.parentElement].map(e => getComputedStyle(e).textDecorationLine)"
    assert faded.evaluate(style) == ["none", "none"]
    open_view(page, "branches")
    assert picture(page) != lanes
    open_view(page, "tree")
    assert picture(page) != tree
    assert not findings(page, ".sgnb-card")
    page.locator(TREE).focus()
    page.keyboard.press("Escape")
    expect(let_go).to_be_hidden()
    assert within.count() == 0 and picture(page) == tree

    open_view(page, "time")
    page.locator(CANVAS).first.focus()
    for _ in range(4):
        page.keyboard.press("Shift+ArrowLeft")
    expect(let_go).to_be_visible()
    page.keyboard.press("Escape")
    expect(let_go).to_be_hidden()
    page.mouse.click(box["x"] + 64 + 0.5 * across, box["y"] + 40)
    expect(page.get_by_role("button", name="now")).to_be_visible()
    expect(let_go).to_be_hidden()


@pytest.mark.parametrize("view", ["tree", "branches", "time"])
def test_views_follow_a_resize(page: Page, view: str) -> None:
    show_demo(page)
    open_view(page, view)
    for width in (700, 1600, 700):
        resize(page, width)
        expect_no_sideways_scroll(page)
        side = page.locator(".sgnb-side").bounding_box()
        box = page.locator(CANVAS).first.bounding_box()
        assert side and box and side["width"] - 40 < box["width"] <= side["width"]
        stage = page.locator(".sgnb-stage")
        if view == "tree":
            cut = stage.evaluate("s => s.scrollWidth > s.clientWidth + 1")
            assert ("right" in (stage.get_attribute("data-beyond") or "")) == cut
            if cut:
                stage.evaluate("s => { s.scrollLeft = s.scrollWidth; }")
                settle(page)
                assert "right" not in (stage.get_attribute("data-beyond") or "")
                assert "left" in (stage.get_attribute("data-beyond") or "")
                stage.evaluate("s => { s.scrollLeft = 0; }")


def test_an_icicle_that_is_cut_says_so(page: Page) -> None:
    log = EventLog()
    engine = WordEngine(log)
    text = "turn"
    for i in range(40):
        text += f" {i} and what was said then"
        engine.insert(engine.encode(text))
        engine.insert(engine.encode(f"{text} or not"))
    show(page, log)
    for width in (700, 1600):
        resize(page, width)
        beyond = page.locator(".sgnb-stage").get_attribute("data-beyond") or ""
        assert "right" in beyond and "bottom" in beyond


CELL = """
import sgnb
sgnb.load("tiny")
@sgnb.function
def tell(s, what, tokens):
    s += what + sgnb.gen("text", max_tokens=tokens, temperature=0, ignore_eos=True)
sgnb.dashboard()
tell.run("The capital of France is", 4).text()
state = tell.run("A story:", 1500)
"""


def test_a_node_is_pinned_and_evicted_by_a_button(notebook: Notebook, lab: Lab) -> None:
    """The records of a run draw the pane again meanwhile."""
    cells = CELL, "state.text()[:0]", "sgnb.cache.pins()"
    notebook.open(lab.write("pins.ipynb", *cells).name)
    notebook.run_cell(0)
    page = notebook.page
    expect(page.locator(".sgnb-status")).to_have_text("done")
    open_view(page, "tree")
    page.locator(TREE).focus()
    page.keyboard.press("ArrowDown")
    inspector, buttons = page.locator(".sgnb-inspector"), page.locator(".sgnb-actions")
    buttons.get_by_role("button", name="pin", exact=True).click()
    expect(inspector).to_contain_text("tokens are kept")
    expect(inspector).to_contain_text("by view")
    expect(buttons.get_by_role("button", name="unpin")).to_be_visible()
    notebook.run_cell(1)
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("view")
    buttons.get_by_role("button", name="evict").click()
    expect(inspector).to_contain_text("stay: pinned")
    buttons.get_by_role("button", name="unpin").click()
    expect(inspector).to_contain_text("not pinned any more")
    ended = "views[0].status === 'done' && views[0].output_tokens === 1500 && !views[0].locked"
    (before,) = notebook.stats(ended)
    buttons.get_by_role("button", name="evict").click()
    notebook.stats(f"views[0].nodes < {before['nodes']}")


def test_an_answer_of_the_kernel_is_kept_after_the_run(page: Page) -> None:
    """Whether a node is pinned, whatever else was asked since; an error says nothing of the run."""
    log = EventLog()
    engine = WordEngine(log)
    for text in ("a text", "another text"):
        engine.insert(engine.encode(text))
    feed = Feed(Trees(), 0.0)
    feed.push(list(log.read().records), 0)
    answers = "({ text: node === 2 ? 'closed\\n  hint: load it' : action, failed: node === 2 })"
    ask = f'{{"ask": async (action, node) => {answers}, "run"'
    page.set_content(standalone(feed.lines, "").replace('{"run"', ask))
    open_view(page, "tree")
    buttons, inspector = page.locator(".sgnb-actions button"), page.locator(".sgnb-inspector")
    page.locator(TREE).click(position={"x": 8, "y": 8})
    buttons.filter(has_text="pin").click()
    expect(buttons).to_have_text(["unpin", "evict"])
    buttons.filter(has_text="evict").click()
    expect(inspector).to_contain_text("evict. This view shows the tree at the end of the run")
    expect(buttons).to_have_text(["unpin", "evict"])
    page.locator(TREE).focus()
    page.keyboard.press("ArrowDown")
    expect(buttons).to_have_text(["pin", "evict"])
    buttons.filter(has_text="pin").click()
    expect(inspector).to_contain_text("hint: load it")
    assert inspector.inner_text().endswith("closed\nhint: load it")
    expect(buttons).to_have_text(["pin", "evict"])
    page.keyboard.press("Shift+Tab")
    page.locator(TREE).focus()
    page.keyboard.press("ArrowUp")
    expect(buttons).to_have_text(["unpin", "evict"])


def test_an_empty_cache_says_so(page: Page) -> None:
    log = EventLog()
    engine = WordEngine(log)
    engine.insert(engine.encode("gone"))
    engine.evict(engine.leaves()[0])
    show(page, log)
    open_view(page, "tree")
    expect(page.locator(".sgnb-tree")).to_be_hidden()
    expect(page.get_by_text("nothing is cached")).to_be_visible()


@pytest.mark.parametrize("views", [("text", "tree"), VIEWS])
def test_views_that_are_named_are_open(page: Page, views: tuple[str, ...]) -> None:
    log = EventLog()
    log.emit(RunStarted("r1", "small", "", 1))
    log.emit(BranchStarted("r1", "0", "", ""))
    log.emit(RunFinished("r1", "done", ""))
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    every = standalone(feed.lines, "r1")
    page.set_content(every.replace(json.dumps(VIEWS), json.dumps(views)))
    expect(page.locator(".sgnb-tab[data-view=tree]")).to_have_attribute(
        "aria-selected", str(views != VIEWS).lower()
    )


def test_a_comparison_that_ran_nothing(page: Page) -> None:
    log = EventLog()
    log.emit(VariantRan("c1", "as it is", "", ""))
    log.emit(ComparisonDone("c1", ("stopped before the end",)))
    show(page, log)
    expect(page.get_by_text("stopped before the end")).to_be_visible()
