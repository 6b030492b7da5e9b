"""The views in JupyterLab on the same machine: from a record's emission in the kernel to the frame
in which the page drew it, and how much longer 64 forks of 100 tokens take beside the page's work.

The clock is the machine's: the kernel says when its log began, the page adds the record's time to
that. A frame counts once its drawing is done. Runs with and without views take turns in one
kernel and one page, with an empty cache each.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.lab import FLAGS, Lab, Notebook, find_chromium

from .common import Report

REPETITIONS = 5
LATENCY_MS = 120
RATIO = 1.15

BODY = """
s += "Some tips for a good day.\\n"
forks = s.fork(64)
for i, fork in enumerate(forks):
    fork += f"Tip {i}:"
    fork += gen("tip", max_tokens=100, ignore_eos=True, temperature=0)
"""

CELLS = (
    "%load_ext sgnb\nimport time, sgnb\nfrom sgnb.events import RunFinished, RunStarted\n"
    "engine = sgnb.load('tiny')",
    "sgnb.flush_cache()",
    f"%%sglang --show all\n{BODY}",
    f"%%sglang --show none -q\n{BODY}",
    "records = engine.log.read().records\n"
    "began, = [r.t for r in records if isinstance(r.event, RunStarted)][-1:]\n"
    "ended, = [r.t for r in records if isinstance(r.event, RunFinished)][-1:]\n"
    "print('took', ended - began, 'zero', time.time() - engine.log.now())",
)
LOAD, FLUSH, SHOWN, HIDDEN, SAY = range(len(CELLS))

WATCH = """() => {
  const old = new Set(Object.keys(window.__sgnb ?? {}));
  const seen = window.__seen = { drawn: [], come: [] };
  const after = new MessageChannel();
  const note = (list, count) => {
    if (count && count !== list.at(-1)?.[1]) list.push([Date.now(), count]);
  };
  after.port1.onmessage = () => {
    const view = Object.entries(window.__sgnb ?? {}).find(([name]) => !old.has(name))?.[1];
    note(seen.drawn, view?.stats.records);
    note(seen.come, view?.store.records.length);
    if (window.__watching) requestAnimationFrame(() => after.port2.postMessage(0));
  };
  window.__watching = true;
  after.port2.postMessage(0);
}"""
"""How many records the new view has drawn and has, and when. A message that a frame's callback
posts arrives when all of the frame's work is done."""

LATENCIES = """(zero) => {
  window.__watching = false;
  const { store } = Object.values(window.__sgnb).at(-1);
  const first = store.records.findIndex(({ kind }) => kind === "RunStarted");
  const after = (seen) => store.records.slice(first).flatMap(({ t }, i) => {
    const at = seen.find(([, count]) => count > first + i);
    return at ? [at[0] - 1000 * (zero + t)] : [];
  });
  const { drawn, come } = window.__seen, found = after(drawn);
  const left = store.records.length - first - found.length;
  return { drawn: found, come: after(come), frames: drawn.length, left };
}"""


def run_cell(book: Notebook, cell: int) -> tuple[float, float]:
    """Seconds that the run took, and when the log began, in seconds since the epoch."""
    book.run_cell(FLUSH)
    book.run_cell(cell)
    book.run_cell(SAY)
    book.output(SAY).get_by_text("took").wait_for()
    _, took, _, zero = book.output(SAY).inner_text().split()
    return float(took), float(zero)


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(300_000)
            book = Notebook(lab, page)
            lab.write("forks.ipynb", *CELLS)
            book.open("forks.ipynb")
            for cell in (LOAD, FLUSH, SHOWN, HIDDEN):
                book.run_cell(cell)
            took: dict[int, list[float]] = {SHOWN: [], HIDDEN: []}
            drawn, come, frames = [], [], []
            for _ in range(REPETITIONS):
                took[HIDDEN].append(run_cell(book, HIDDEN)[0])
                page.evaluate(WATCH)
                seconds, zero = run_cell(book, SHOWN)
                took[SHOWN].append(seconds)
                book.stats("views.at(-1).status === 'done'")  # all that has come is drawn
                page.wait_for_timeout(100)
                found = page.evaluate(LATENCIES, zero)
                assert not found["left"], "records that no frame drew"
                drawn += found["drawn"]
                come += found["come"]
                frames.append(found["frames"] / seconds)
            page.close()
        finally:
            lab.close()
    return {"took": took, "drawn": drawn, "come": come, "frames": statistics.median(frames)}


def run() -> Report:
    found = measure()
    shown, hidden = (statistics.median(found["took"][cell]) for cell in (SHOWN, HIDDEN))
    p50, *_, p95 = statistics.quantiles(found["drawn"], n=20)[9:19]
    come = statistics.median(found["come"])
    report = Report(
        "Views in JupyterLab: 64 forks of 100 tokens, bundled model",
        ("", "measured", "at most"),
        bar="the last column",
    )
    report.rows = [
        ("from a record's emission to its frame, median, ms", round(p50), ""),
        ("the same, 95 of 100, ms", round(p95), LATENCY_MS),
        ("time with the views in a browser over that without", round(shown / hidden, 2), RATIO),
    ]
    report.met = p95 <= LATENCY_MS and shown / hidden <= RATIO
    spread = max(max(found["took"][cell]) / min(found["took"][cell]) for cell in (SHOWN, HIDDEN))
    report.note = (
        f"{REPETITIONS} runs each in turns: {hidden:.2f} s without views, {shown:.2f} s with; the"
        f" longest of a kind took {spread:.2f} times the shortest. {found['frames']:.1f} frames a"
        f" second drew something new; {len(found['drawn']):,} records,"
        f" of which half were in the page after {come:.0f} ms, a frame more or less."
    )
    return report
