"""Build the documentation's site into docs/_site, without network: `make docs`.

Its sources are gathered in build/site, laid out as the repository is, so that a link which works
there works on the site; the API reference is written from the docstrings (`tools/reference.py`),
and the notebooks are shown with the outputs that they are stored with.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from tools import reference

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "docs" / "site"
SOURCE = ROOT / "build" / "site"
TARGET = ROOT / "docs" / "_site"

GUIDES = ("LANGUAGE", "CONSTRAINED", "JSON_SCHEMA", "VIEWS", "GPU", "FAQ")
COMING_FROM = ("from_sglang", "from_guidance", "from_outlines", "from_langchain")
PROJECT = ("docs/ARCHITECTURE", "benchmarks/RESULTS", "CONTRIBUTING", "CHANGELOG")
"""The other pages of docs/ stand among the guides."""


def gather() -> dict[str, list[str]]:
    """Write the sources; the pages by the caption under which the menu has them."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "images", SOURCE / "docs" / "images")
    for name in ("LICENSE", *(f"{page}.md" for page in PROJECT)):
        _copy(ROOT / name)
    pages = sorted((ROOT / "docs").glob("*.md"))
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in pages:
        _copy(path)
    for path in notebooks:
        _write(path, _with_hidden_solutions(path.read_text(encoding="utf-8")))
    for name, text in reference.pages().items():
        _write(ROOT / "api" / f"{name}.md", text)

    listed = {*COMING_FROM, *(Path(page).stem for page in PROJECT)}
    guides = sorted((path.stem for path in pages if path.stem not in listed), key=_order)
    menu = {
        "Tutorials": [f"notebooks/{path.stem}" for path in notebooks],
        "Guides": [f"docs/{name}" for name in guides],
        "Coming from": [f"docs/{name}" for name in COMING_FROM],
        "Reference": [f"api/{name}" for name in reference.PAGES] + ["api/magics"],
        "Project": list(PROJECT),
    }
    _write(ROOT / "index.md", _front_page(menu))
    return menu


def _order(name: str) -> tuple[int, str]:
    return GUIDES.index(name) if name in GUIDES else len(GUIDES), name


def _front_page(menu: dict[str, list[str]]) -> str:
    """The README, and the menu."""
    parts = [(ROOT / "README.md").read_text(encoding="utf-8")]
    for caption, pages in menu.items():
        parts.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])
        )
    return "\n\n".join(parts) + "\n"


def _with_hidden_solutions(text: str) -> str:
    """JupyterLab folds a cell by its metadata, MyST by a tag."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            cell["metadata"].setdefault("tags", []).append("hide-input")
    return json.dumps(notebook)


def _copy(path: Path) -> None:
    _write(path, path.read_text(encoding="utf-8"))


def _write(path: Path, text: str) -> None:
    """At the same place in the sources of the site."""
    target = SOURCE / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def main() -> int:
    began = time.monotonic()
    gather()
    built = SOURCE.parent / "html"
    shutil.rmtree(built, ignore_errors=True)
    # -W: a link or an anchor that leads nowhere ends the build.
    flags = ["-q", "-E", "-W", "--keep-going", "-d", str(SOURCE.parent / "doctrees")]
    code = build_main([*flags, "-b", "html", "-c", str(SETUP), str(SOURCE), str(built)])
    if code == 0:
        shutil.rmtree(TARGET, ignore_errors=True)
        built.rename(TARGET)
        pages = len([*TARGET.rglob("*.html")])
        where = (TARGET / "index.html").relative_to(ROOT)
        print(f"{pages} pages in {time.monotonic() - began:.0f} s: {where}")
    return code


if __name__ == "__main__":
    sys.exit(main())
