"""The views outside JupyterLab: a trace's page from disk, a saved notebook as HTML, notebook 7,
marimo. Text that would act is text in all of them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

from sgnb import events
from sgnb.events import EventLog
from sgnb.viz import Feed, Recording, Trees
from tests.browser.lab import Lab, Notebook
from tests.browser.pages import (
    SECONDS,
    Stopwatch,
    expect_no_sideways_scroll,
    findings,
    open_view,
    wait_until,
)
from tests.viz.make_log import HOSTILE, Program, WordEngine, demo

ACTS = f"{HOSTILE} </style><b>b</b> $x$ \\(y\\) \u2066 \ud800 \x1b[31m"
LONG = "x" * 100_000
# The first is marimo's own, when its page closes.
LOCAL = (
    "Failed to update a ServiceWorker",
    "file:",
    "data:",
    "blob:",
    "http://127.0.0.1:",
    "ws://127.0.0.1:",
)


def hostile_trace() -> Recording:
    log = EventLog()
    program = Program(WordEngine(log), "r1", f"title {ACTS}")
    program.branch("0")
    program.add("0", f"Prompt {ACTS}")
    list(program.gen("0", f"name{ACTS}", f" Output {HOSTILE}"))
    program.branch("0.0", "0")
    program.add("0.0", LONG)
    list(program.gen("0.0", "long", f" {LONG[:20_000]}"))
    request = program.engine.latest
    drawn: dict[str, Any] = {
        "starts": (0,),
        "targets": (1,),
        "ways": (0,),
        "parts": (0,),
        "tracks": (-1,),
    }
    drawn |= {"texts": (ACTS,), "paths": ((("", "H"),),), "part_names": (ACTS,), "final": (2,)}
    places: dict[str, Any] = {"states": (1, 2), "columns": (0, 1), "rows": (0, 0)}
    log.emit(events.AutomatonDrawn(7, ACTS, ACTS, True, **places, **drawn))
    log.emit(events.GrammarReady(request, ACTS, 1, 0.0, False, 7))
    log.emit(events.Jumped(request, "forced", 0, (0,), "H", -1, -1, (ACTS,)))
    program.end("0.0", f"error {ACTS} {LONG}")
    program.end("0")
    program.finish("error", f"message {ACTS}")
    return kept(log)


def kept(log: EventLog) -> Recording:
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    return Recording(feed.lines, "r1")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test on a console error, and on any request but for files."""
    page = browser.new_page()
    page.set_default_timeout(1000 * SECONDS)
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: problems.append(asked.url))
    yield page
    page.close()
    assert not [one for one in problems if not one.startswith(LOCAL)]


@pytest.mark.parametrize("width", [700, 1600])
def test_hostile_text_is_text_in_a_page_from_disk(page: Page, tmp_path: Path, width: int) -> None:
    path = hostile_trace().save(tmp_path / "trace.html")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path.as_uri())
    for view in ("tree", "branches", "time", "grammar"):
        open_view(page, view)
        expect_no_sideways_scroll(page)
    for part in (".sgnb-title", ".sgnb-note", ".sgnb-text", ".sgnb-vars", ".sgnb-error"):
        text = "".join(page.locator(part).all_inner_texts())
        assert '<img onerror="window' in text and "\u202e" not in text, part
    assert page.evaluate("window.__pwned") is None and page.locator("img").count() == 0
    page.locator(".sgnb-automaton canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sgnb-where")).to_contain_text("<img onerror=")
    page.locator(".sgnb-select:visible").first.select_option("probability")
    assert page.evaluate("window.__sgnb.page.stats.missing") == 0


def test_a_compared_run_that_asked_a_service_is_drawn(page: Page, tmp_path: Path) -> None:
    """Calls of a service have no request number to select."""
    log = EventLog()
    list(demo(log))
    log.emit(events.ModelAsked("r1", "0", "x", 1, "a service", 1))
    log.emit(events.ModelAnswered("r1", "0", 3, 0, 2))
    for variant in ("as it is", "nocache"):
        log.emit(events.VariantRan("c", variant, "r1", ""))
    page.goto(kept(log).save(tmp_path / "trace.html").as_uri())
    open_view(page, "compare")
    expect(page.locator(".sgnb-compared tbody tr")).to_have_count(2)


def test_hostile_text_is_text_in_the_twin(page: Page, tmp_path: Path) -> None:
    """Where it has the least shelter: as a part of the page, as nbconvert places it."""
    path = tmp_path / "twin.html"
    trace = hostile_trace()
    svg = trace._repr_mimebundle_()["image/svg+xml"]
    path.write_text(f"<!doctype html><meta charset=utf-8>{svg}", encoding="utf-8")
    page.goto(path.as_uri())
    expect(page.locator("svg")).to_have_count(1)
    assert "<img onerror=" in (page.locator("svg").text_content() or "")
    assert page.evaluate("window.__pwned") is None
    expect(page.locator("b, img, script")).to_have_count(0)


def test_a_page_from_disk_is_accessible(page: Page, tmp_path: Path) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page.goto(hostile_trace().save(tmp_path / "trace.html").as_uri())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert not findings(page, "main"), scheme


def test_checkpoints_are_seen_and_said(page: Page, tmp_path: Path) -> None:
    log = EventLog()
    engine = WordEngine(log, states=8)
    list(engine.generate("one two three", " four"))
    program = Program(engine, "r1", "states")
    program.branch("0")
    program.add("0", "one two three five six")
    list(program.gen("0", "answer", " seven"))
    program.end("0")
    program.finish()
    page.goto(kept(log).save(tmp_path / "trace.html").as_uri())
    page.locator(".sgnb-tab[data-view=tree]").click()
    tree = page.locator(".sgnb-stage canvas")
    expect(page.get_by_text("checkpoint: a request can resume here")).to_be_visible()
    expect(page.get_by_text("2 of 8 states kept, 2.0 MiB")).to_be_visible()
    expect(tree).to_have_attribute("aria-label", re.compile("2 with a checkpoint"))
    tree.focus()
    said = page.locator(".sgnb-inspector")
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("starts at the first token and recomputes 3 tokens")
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("a request can resume here: the recurrent states take 1.0 MiB")
    expect(page.locator(".sgnb-text .sgnb-k-again")).to_have_text(
        "one two three", use_inner_text=True
    )
    expect(page.locator(".sgnb-gain")).to_contain_text("3 more recomputed")
    page.locator(".sgnb-tab[data-view=time]").click()
    drawn = page.get_by_role("img", name="of states 1 in the tree, 0 of running requests, 7 free")
    expect(drawn).to_be_visible()
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    page.locator(".sgnb-tab[data-view=tree]").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert not findings(page, "main"), scheme


@pytest.mark.slow
def test_a_tree_of_50000_nodes_moves(page: Page, tmp_path: Path) -> None:
    log = EventLog()
    engine, feed, place = WordEngine(log), Feed(Trees(), 0.0), 0
    for i in range(500):
        for j in range(100):
            engine.insert(engine.encode(f"subject {i} has the question {j} of many"))
        records, lost = log.read(place)
        feed.push(records, lost)
        place = records[-1].seq
    page.goto(Recording(feed.lines).save(tmp_path / "large.html").as_uri())
    page.get_by_role("button", name="all 50").click()
    stage = page.locator(".sgnb-stage")
    wait_until(stage, "stage => stage.scrollHeight > 900_000")
    scroll = """() => {
        const stage = document.querySelector(".sgnb-stage");
        stage.scrollTop += 9000;
        stage.dispatchEvent(new Event("scroll"));
    }"""
    stopwatch = Stopwatch(page)
    frames = [stopwatch.time(scroll) for _ in range(20)]
    assert min(frames) < 33, frames


SAVED = """
from tests.viz.make_log import demo
from sgnb.events import EventLog
from sgnb.viz import Display, Emitter

log = EventLog()
shown = Display(Emitter(log))
shown.open("r1")
list(demo(log))
shown.close()
"""


@pytest.mark.slow
def test_a_saved_notebook_as_html_shows_the_twin(browser: Browser, tmp_path: Path) -> None:
    exporters = pytest.importorskip("nbconvert", reason="needs the package nbconvert")
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SAVED)])
    waits = {"startup_timeout": SECONDS, "iopub_timeout": SECONDS}
    NotebookClient(book, store_widget_state=False, **waits).execute()
    html, _ = exporters.HTMLExporter().from_notebook_node(book)
    (tmp_path / "saved.html").write_text(html, encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((tmp_path / "saved.html").as_uri())
    expect(page.locator("svg, img[src*=svg]").filter(visible=True)).to_have_count(1)
    shown = page.locator(".jp-OutputArea-output").filter(visible=True).all_inner_texts()
    assert not any("Dashboard" in text or "Loading" in text for text in shown), shown
    context.close()


@pytest.mark.slow
def test_notebook_7_shows_the_dashboard(notebook: Notebook, lab: Lab) -> None:
    pytest.importorskip("notebook", reason="needs the package notebook")
    lab.write("seven.ipynb", SAVED)
    page = notebook.page
    page.goto(f"{lab.url}/notebooks/seven.ipynb?token={lab.token}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function("() => window.jupyterapp")
    page.evaluate("""async () => {
        const { sessionContext } = window.jupyterapp.shell.currentWidget;
        await sessionContext.ready;
        await sessionContext.session.kernel.info;
    }""")
    notebook.run_cell(0)
    expect(page.locator(".sgnb-card .sgnb-status")).to_have_text("done")
    assert '<img onerror="' in page.locator(".sgnb-branches").inner_text()
    expect(page.locator("img[src*=sgnb-static]")).to_be_hidden()


MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import sgnb

    mo.ui.anywidget(sgnb.open_recording({path!r}).widget())
    return
"""


@pytest.mark.slow
def test_marimo_shows_a_trace(page: Page, tmp_path: Path) -> None:
    pytest.importorskip("marimo", reason="needs the package marimo")
    log = EventLog()
    list(demo(log))
    trace = kept(log).save(tmp_path / "run.jsonl")
    (tmp_path / "app.py").write_text(MARIMO.format(path=str(trace)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "marimo", "-q", "run", "app.py", "--headless", "--no-token"]
    server = subprocess.Popen(
        [*command, "--port", str(port)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        opened(page, f"http://127.0.0.1:{port}")
        expect(page.locator(".sgnb-card .sgnb-status")).to_have_text("done")
    finally:
        server.terminate()
        server.wait()


EXPORTED = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import sgnb

    recording = sgnb.open_recording({path!r})
    mo.ui.anywidget(recording.widget())
    return (recording,)


@app.cell
def _(recording):
    recording
    return
"""


@pytest.mark.slow
def test_marimo_exports_views_and_picture(page: Page, tmp_path: Path) -> None:
    """The page loads marimo's code from a network by default; here the files of the package."""
    marimo = pytest.importorskip("marimo", reason="needs the package marimo")
    log = EventLog()
    list(demo(log))
    (tmp_path / "app.py").write_text(
        EXPORTED.format(path=str(kept(log).save(tmp_path / "run.jsonl")))
    )
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "marimo", "-q", "export", "html", "app.py", "-o", "out.html"]
    environment = {**os.environ, "PYTHONPATH": paths}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdin=subprocess.DEVNULL)

    exported = (tmp_path / "out.html").read_text()
    local = re.sub(r"https://cdn\.jsdelivr\.net/npm/[^/]*/frontend@[^/]*/dist/", "./", exported)
    (tmp_path / "out.html").write_text(local)
    for part in (Path(marimo.__file__).parent / "_static").iterdir():
        (tmp_path / part.name).symlink_to(part)
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/out.html")
        expect(page.locator(".sgnb-card .sgnb-status")).to_have_text("done")
        picture = page.locator("svg.sgnb-static")
        expect(picture).to_be_visible()
        assert "three_tips · done" in picture.text_content()  # type: ignore[operator]
        expect(page.locator("body")).not_to_contain_text("Recording(", use_inner_text=True)
        server.shutdown()


def opened(page: Page, url: str) -> Any:
    for _ in range(600):
        try:
            return page.goto(url)
        except Exception:
            page.wait_for_timeout(200)
    raise AssertionError(f"nothing answers at {url}")
