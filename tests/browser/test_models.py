"""A program over two engines and a model that is no engine, in JupyterLab: whose each answer is,
what each model did, and the cache of each; its trace, and the notebook without a kernel."""

from __future__ import annotations

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab import Hold, Lab, Notebook
from tests.browser.pages import findings, open_view

CELLS = (
    """%load_ext sgnb
%sglang load tiny
import sgnb
from tests.lang.fake import FakeExecutor
judge = sgnb.Engine("tiny")
far = FakeExecutor("Both are short.", delay=0.3)
far.model_name = "far-away"
""",
    """%%sglang duel --temperature 0
s += user("Name an animal, and say in a few words what it does.")
drafts = s.fork(2)
for i, draft in enumerate(drafts):
    draft += assistant("Draft: the " + ["fox", "owl"][i] + gen("draft", max_tokens=24))
drafts.join()
s += user("One: " + s["draft"][0] + "\\nTwo: " + s["draft"][1] + "\\nWhich is better?")
s += assistant(select("best", ["One", "Two"], backend=judge) + ", for it"
    + gen("why", max_tokens=12, backend=judge))
s += user("And in short?") + assistant(gen("short", max_tokens=8, backend=far))
""",
    "%sglang recording",
    "[row['call'] for row in sgnb.why_no_hit(s).table()], sgnb.why_no_hit(s)",
)


@pytest.mark.slow
def test_a_program_over_several_models(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("models.ipynb", *CELLS)
    notebook.open(path.name)
    notebook.run_cell(0)
    notebook.watch_cell(1, Hold("RunFinished", 1, "now.engines === 2 && now.live"))
    assert not notebook.failed(1), notebook.output(1).inner_text()
    page = notebook.page
    card = notebook.cell(1).locator(".sgnb-card")
    notebook.stats("views.length === 1 && views[0].status === 'done' && !views[0].live")
    expect(card.locator(".sgnb-status")).to_have_text("done")
    shown_time, *lines = card.locator(".sgnb-models").inner_text().splitlines()
    assert shown_time.startswith("of ")
    assert [line.split(":")[0] for line in lines] == ["A tiny", "B tiny", "C far-away"]
    made = card.locator(".sgnb-branches .sgnb-k-sampled.sgnb-by")
    assert [one.get_attribute("data-by") for one in made.all()][-1] == "C"
    assert {one.get_attribute("data-by") for one in made.all()} == {"B", "C"}
    assert card.locator(".sgnb-k-sampled.sgnb-by .sgnb-token").count() > 3, "B's, one by one"
    chips = card.locator(".sgnb-chip.sgnb-by").all_inner_texts()
    assert [chip.split(" = ")[0] for chip in chips] == ["best", "why", "short"]

    engines = card.locator(".sgnb-engines")
    open_view(card, "tree")
    expect(engines.locator("option")).to_have_text(["cache of A tiny", "cache of B tiny"])
    tree = card.locator(".sgnb-stage canvas")
    before = tree.get_attribute("aria-label")
    engines.select_option(label="cache of B tiny")
    expect(tree).not_to_have_attribute("aria-label", before or "")
    tree.focus()
    page.keyboard.press("ArrowDown")
    expect(card.locator(".sgnb-inspector")).to_contain_text("run run1, branch 0")
    expect(card.locator(".sgnb-actions .sgnb-button", has_text="evict")).to_have_count(0)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        for view in ("branches", "time", "tree"):
            card.locator(f".sgnb-tab[data-view={view}]").click()
            page.locator(".sgnb-title").first.hover()
            assert findings(page, ".sgnb-card") == []

    notebook.run_cell(2)
    again = notebook.cell(2).locator(".sgnb-card")
    words = "\n".join([shown_time, *lines])
    expect(again.locator(".sgnb-models")).to_have_text(words, use_inner_text=True)
    notebook.run_cell(3)
    expect(notebook.output(3)).to_contain_text("B tiny")
    notebook.save()
    (text,) = [
        output.data["text/plain"]
        for output in nbformat.read(path, as_version=4).cells[1].outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert "radix tree of A tiny" in text and "radix tree of B tiny" in text
    assert "(by B)" in text and "short = 'Both are short.'  (by C)" in text
    notebook.open_without_kernel(path.name)
    expect(notebook.cell(1).locator("img[src*=sgnb-static]")).to_be_visible()
