"""Time from a click on `pause` to the page's paused state, in JupyterLab on the same machine: the
request to the kernel, the stop after the next token, the record, and the drawing."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.lab import FLAGS, Lab, Notebook, find_chromium

from .common import Report

PAUSES = 60
LIMIT_MS = 100
SETUP = "%load_ext sgnb\nimport sgnb\nsgnb.load('tiny')"
CELL = """%%sglang --step -o stepped
s += "Once upon a time" + gen("a", max_tokens=4000, ignore_eos=True)
"""
MEASURE = """async (count) => {
  const bar = [...document.querySelectorAll(".sgnb-stepper")].at(-1);
  const press = (name) => [...bar.querySelectorAll("button")].find((one) => one.textContent === name).click();
  const frames = async (ready) => {
    while (!ready()) await new Promise(requestAnimationFrame);
  };
  const paused = () => bar.textContent.includes("paused after a token");
  const times = [];
  for (let i = 0; i < count; i += 1) {
    press("to the end");
    await frames(() => !bar.textContent.includes("paused"));
    await new Promise((done) => setTimeout(done, 20 + (i % 7) * 10));
    const begin = performance.now();
    press("pause");
    await frames(paused);
    times.push(performance.now() - begin);
  }
  return times;
}"""  # noqa: E501


def measure() -> list[float]:
    """Return the times in milliseconds."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        lab = Lab(Path(folder))
        try:
            browser = driver.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(300_000)
            book = Notebook(lab, page)
            lab.write("steps.ipynb", SETUP, CELL)
            book.open("steps.ipynb")
            book.run_cell(0)
            book.run_cell(1)
            page.wait_for_selector(".sgnb-stepper button")
            times: list[float] = page.evaluate(MEASURE, PAUSES)
            page.close()
            return times
        finally:
            lab.close()


def run() -> Report:
    times = measure()
    p95 = statistics.quantiles(times, n=20)[18]
    report = Report(
        f"Pause to shown in JupyterLab: {PAUSES} pauses of a generation, bundled model",
        ("", "ms", "at most"),
        bar="the last column",
    )
    report.rows = [
        ("click on pause to the drawn stop, median", round(statistics.median(times)), ""),
        ("the same, 95 of 100", round(p95), LIMIT_MS),
    ]
    report.met = p95 <= LIMIT_MS
    report.note = f"Load average of the machine: {os.getloadavg()[0]:.1f}."
    return report
