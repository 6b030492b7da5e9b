"""The dashboard through the life of a kernel: after a reload, two at once, in the background, as a
trace, after an interrupt and a restart; every view is accessible in both themes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook
from tests.browser.pages import findings, open_view, settle

FORK = """%%sglang --temperature 0 --max-tokens 24
s += "Here are two tips for staying healthy.\\n1." + gen("first", stop="\\n") + "\\n"
forks = s.fork(2)
forks += lambda i: f"Now, expand tip {i + 1} into a paragraph.\\n"
forks += gen("detail", stop="\\n")
forks.join()"""
RECORD = """%%sglang --temperature 0 --max-tokens 40
s += "Text: Omar called from Cairo. He was annoyed.\\nJSON: "
s += gen("record", regex=r'\\{"name": "[A-Z][a-z]+", "mood": "(calm|annoyed)"\\}')"""
LONG = "%%sglang {}\ns += 'A story.'\ns += gen('story', max_tokens=3900, ignore_eos=True)"


@pytest.mark.slow
def test_views_are_accessible_in_both_themes(notebook: Notebook, lab: Lab) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    automaton = "%sglang fsm (yes|no)!{1,3} --tokens"
    notebook.open(lab.write("axe.ipynb", "%load_ext sgnb", FORK, RECORD, automaton).name)
    for index in range(4):
        notebook.run_cell(index)
    for index in (1, 2):
        expect(notebook.cell(index).locator(".sgnb-status")).to_have_text("done")
    settle(notebook.page)
    drawn = "() => document.querySelector('.sgnb-side .sgnb-canvas').toDataURL()"
    width = "() => document.querySelector('.sgnb-side .sgnb-canvas').clientWidth"
    room = notebook.page.evaluate(width)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        before = notebook.page.evaluate(drawn)
        notebook.theme(theme)
        if theme == "JupyterLab Dark":
            notebook.page.wait_for_function(f"before => ({drawn})() !== before", arg=before)
        notebook.page.wait_for_function(f"room => ({width})() === room", arg=room)
        for index, views in ((1, ["branches", "time", "source", "tree"]), (2, ["grammar"])):
            cell = notebook.cell(index)
            for view in views:
                open_view(cell, view)
                assert not findings(notebook.page, ".sgnb-card"), (theme, view)


@pytest.mark.slow
def test_the_keyboard_reaches_everything(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("keys.ipynb", "%load_ext sgnb", FORK).name)
    notebook.run_cell(0)
    notebook.run_cell(1)
    page, cell = notebook.page, notebook.cell(1)
    inspector = cell.locator(".sgnb-inspector")
    expect(cell.locator(".sgnb-status")).to_have_text("done")
    expect(inspector).to_have_attribute("aria-live", "polite")
    expect(inspector).to_contain_text("Point at")
    cell.locator(".sgnb-text").first.focus()
    page.keyboard.press("ArrowRight")
    expect(inspector).to_contain_text("computed: computed by the model as prompt")
    for _ in range(40):  # the tokens of the prompt
        if "sampled: chosen by the model" in inspector.inner_text():
            break
        page.keyboard.press("ArrowRight")
    expect(inspector).to_contain_text("sampled: chosen by the model")
    first = inspector.inner_text()
    page.keyboard.press("ArrowRight")
    expect(inspector).not_to_have_text(first, use_inner_text=True)
    page.keyboard.press("Escape")
    expect(inspector).to_contain_text("Point at")
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.dataset.view ?? document.activeElement.className")
        )
    assert {"sgnb-search", "tree", "sgnb-canvas", "sgnb-slider"} <= seen, seen
    for view, words in (("branches", "branch 0.1: "), ("time", "in the tree")):
        cell.locator(f".sgnb-tab[data-view={view}]").click()
        canvas = cell.locator(".sgnb-side .sgnb-canvas")
        expect(canvas).to_have_attribute("aria-label", re.compile(words))
        canvas.focus()
        if view == "branches":
            page.keyboard.press("ArrowDown")
            expect(inspector).to_contain_text("branch 0")
            page.keyboard.press("ArrowDown")
            expect(inspector).to_contain_text("branch 0.0, detail")
        else:
            page.keyboard.press("ArrowLeft")
            expect(cell.get_by_role("button", name="now")).to_be_visible()


@pytest.mark.slow
def test_a_reload_shows_a_finished_run_again(notebook: Notebook, lab: Lab) -> None:
    path = lab.write("reload.ipynb", "%load_ext sgnb", FORK)
    notebook.open(path.name)
    notebook.run_cell(0)
    notebook.run_cell(1)
    expect(notebook.cell(1).locator(".sgnb-status")).to_have_text("done")
    expect(notebook.cell(1).locator(".sgnb-branches")).to_contain_text("Now, expand tip 2")
    words = notebook.cell(1).locator(".sgnb-branches").inner_text()
    notebook.save()
    notebook.open(path.name)
    card = notebook.cell(1).locator(".sgnb-card")
    expect(card.locator(".sgnb-branches")).to_have_text(words, use_inner_text=True)
    expect(card.locator(".sgnb-status")).to_have_text("done")
    expect(notebook.cell(1).locator("img[src*=sgnb-static]")).to_be_hidden()


@pytest.mark.slow
def test_two_dashboards_in_the_background_stopped(notebook: Notebook, lab: Lab) -> None:
    """A run in the background and the whole engine are live at once, while no cell runs."""
    cells = (
        "%load_ext sgnb",
        "import sgnb\nsgnb.dashboard()",
        LONG.format("--bg -o h"),
        "h.cancel(); h.wait()",
    )
    notebook.open(lab.write("two.ipynb", *cells).name)
    for index in range(2):
        notebook.run_cell(index)
    with notebook.held("StepRan", 300):
        notebook.run_cell(2)
        for characters in (50, 200):
            grown = f"views.filter(view => view.characters > {characters}).length === 2"
            notebook.stats(grown)
        expect(notebook.cell(2).locator(".sgnb-status")).to_have_text("running")
        notebook.start_cell(3)
    notebook.wait_cell()
    expect(notebook.cell(2).locator(".sgnb-status")).to_have_text("interrupted")
    expect(notebook.cell(1).locator(".sgnb-side .sgnb-canvas")).to_be_visible()


@pytest.mark.slow
def test_a_trace_opens_in_a_kernel_without_an_engine(notebook: Notebook, lab: Lab) -> None:
    cells = (
        "%load_ext sgnb",
        FORK,
        "import sgnb\nsgnb.recording().save('run.jsonl')",
        "%sglang recording",
    )
    notebook.open(lab.write("trace.ipynb", *cells).name)
    for index in range(4):
        notebook.run_cell(index)
    expect(notebook.cell(1).locator(".sgnb-status")).to_have_text("done")
    words = notebook.cell(1).locator(".sgnb-branches").inner_text()
    shown = notebook.cell(3).locator(".sgnb-card .sgnb-branches")
    expect(shown).to_have_text(words, use_inner_text=True)
    opens = "import sgnb, sys\nsgnb.open_recording('run.jsonl')"
    notebook.open(lab.write("again.ipynb", opens, "'torch' in sys.modules").name)
    notebook.run_cell(0)
    shown = notebook.cell(0).locator(".sgnb-card .sgnb-branches")
    expect(shown).to_have_text(words, use_inner_text=True)
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("False")


@pytest.mark.slow
def test_a_restart_is_said_and_nothing_looks_live(notebook: Notebook, lab: Lab) -> None:
    notebook.open(lab.write("dead.ipynb", "%load_ext sgnb", LONG.format("--bg -o h")).name)
    notebook.run_cell(0)
    with notebook.held("StepRan", 100):
        notebook.run_cell(1)
        notebook.stats("views[0]?.characters > 50")
        restart = "window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
        notebook.page.evaluate(restart)
    card = notebook.cell(1).locator(".sgnb-card")
    status = card.locator(".sgnb-status")
    expect(status).to_contain_text("no message from the kernel")
    expect(card.locator(".sgnb-caret, .sgnb-is-running")).to_have_count(0)
