"""Comparisons in JupyterLab: a program beside itself, and two of its branches; saved and opened
without a kernel."""

from __future__ import annotations

import re

import nbformat
import pytest
from playwright.sync_api import Page, expect

from sgnb.viz.static.bundle import size
from tests.browser.lab import Hold, Lab, Notebook
from tests.browser.pages import findings

CELLS = (
    "%load_ext sgnb\n%sglang load tiny",
    """%%sglang tips --vs nocache,nojump,nofork --rounds 1 --temperature 0
s += "Answer in one word. " * 12
forks = s.fork(3)
forks += lambda i: f"Name a {['city', 'song', 'book'][i]}:" + gen("name", max_tokens=24)
forks.join()
s += gen("record", regex=r'\\{"city": "(Paris|Rome)", "land": "(France|Italy)"\\}')
""",
    "[row['variant'] for row in s.rows], s.state.text()[:6]",
)


@pytest.mark.slow
def test_a_program_beside_itself_and_two_of_its_branches(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("compare.ipynb", *CELLS)
    notebook.open(path.name)
    notebook.run_cell(0)
    notebook.watch_cell(1, Hold("ComparisonDone", 1, "now.view === 'compare' && now.live"))
    assert not notebook.failed(1)
    notebook.run_cell(2)
    expect(notebook.output(2)).to_have_text(re.compile(r"'nojump',\s*'nofork'\],\s*'Answer'"))
    page = notebook.page
    variants_are_linked(page)
    branches_are_compared(page)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        for view in ("compare", "branches"):
            page.locator(f".sgnb-tab[data-view={view}]").click()
            page.locator(".sgnb-title").hover()
            assert findings(page, ".sgnb-card") == []
    notebook.save()
    (output,) = [
        output.data
        for output in nbformat.read(path, as_version=4).cells[1].outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert size(output) < 20_000 and "tips compared with itself" in output["text/plain"]

    notebook.open_without_kernel(path.name)
    picture = notebook.cell(1).locator("img[src*=sgnb-static]")
    expect(picture).to_be_visible()
    expect(page.locator(".sgnb-card")).to_have_count(0)


def variants_are_linked(page: Page) -> None:
    """A row shows its run in the other views; a lane's tokens are found in the text."""
    expect(page.locator(".sgnb-found")).to_contain_text("nofork: ")
    found = page.locator(".sgnb-found").inner_text().splitlines()
    assert "each began with an empty cache" in found[0]
    assert [line.split(":")[0] for line in found[1:]] == ["nocache", "nojump", "nofork"]
    rows = page.locator(".sgnb-compared tbody tr")
    title = page.locator(".sgnb-title")
    expect(title).to_have_text("tips, as it is")
    rows.filter(has_text="nojump").click()
    expect(title).to_have_text("tips, nojump")
    expect(page.locator(".sgnb-k-jumped:visible")).to_have_count(0)
    page.keyboard.press("Tab")
    page.locator(".sgnb-compared").focus()
    page.keyboard.press("ArrowLeft")
    expect(title).to_have_text("tips, nocache")
    canvas = page.locator(".sgnb-side canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("as it is"))
    page.keyboard.press("ArrowLeft")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".sgnb-main .sgnb-lit")).to_have_count(1)
    page.keyboard.press("Escape")


def branches_are_compared(page: Page) -> None:
    page.locator(".sgnb-tab[data-view=branches]").click()
    page.get_by_label("compare branch").select_option("0.0")
    page.get_by_label("with branch").select_option("0.2")
    pair = page.locator(".sgnb-pair")
    expect(pair.locator(".sgnb-note")).to_have_text(
        re.compile("tokens in common, then “␣city” in 0.0, “␣book” in 0.2.$")
    )
    assert pair.locator(".sgnb-differs").all_inner_texts() == [" city", " book"]
    expect(pair.get_by_text("Answer in one word")).to_have_count(1)  # the prefix once
    pair.locator(".sgnb-k-sampled .sgnb-token").first.hover()
    expect(page.locator(".sgnb-main .sgnb-lit")).to_have_count(1)  # the same token in the text
    canvas = page.locator(".sgnb-side canvas")
    canvas.focus()
    for key in ("Escape", "ArrowDown", "ArrowDown", "ArrowDown", "c"):
        page.keyboard.press(key)
    expect(page.get_by_label("with branch")).to_have_value("0.1")
