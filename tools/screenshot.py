"""Take the README's pictures: run a notebook in JupyterLab and photograph one of its cells.

    .venv/bin/python tools/screenshot.py [--notebook FILE] [--cell "fork("] [--theme dark] [--out
    FILE]

Needs Chromium and playwright; drives the same JupyterLab as the browser tests.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.lab import FLAGS, Lab, Notebook, find_chromium  # noqa: E402


def photograph(page: Page, lab: Lab, source: Path, marker: str, dark: bool, target: Path) -> None:
    """Run the code cells up to the first that contains `marker`, and save that cell as a
    picture."""
    cells = nbformat.read(source, as_version=4).cells
    last = next(
        i for i, cell in enumerate(cells) if cell.cell_type == "code" and marker in cell.source
    )
    shutil.copy(source, lab.work / source.name)
    book = Notebook(lab, page)
    book.open(source.name)
    if dark:
        book.theme("JupyterLab Dark")
    for index in range(last + 1):
        if cells[index].cell_type == "code":
            book.run_cell(index, seconds=120)
    page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0"
    )  # its toolbar is in the way
    page.wait_for_timeout(1500)  # new nodes have faded to their resting colours
    cell = page.locator(".jp-Notebook .jp-Cell").nth(last)
    cell.scroll_into_view_if_needed()
    cell.screenshot(path=target)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notebook", type=Path, default=ROOT / "notebooks" / "01_quickstart.ipynb")
    parser.add_argument("--cell", default=".fork(", help="text of the cell to photograph")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "quickstart.png")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("no Chromium or Chrome on the PATH", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            page = browser.new_page(
                viewport={"width": 1180, "height": 1400}, device_scale_factor=1.5
            )
            photograph(
                page, lab, options.notebook, options.cell, options.theme == "dark", options.out
            )
        finally:
            lab.close()
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
