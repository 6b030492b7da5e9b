"""No link leads nowhere: files and anchors of the pages, and of the notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OTHERS = [
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "sgnb/models/tiny/README.md",
    ROOT / "sgnb/models/tiny-vision/README.md",
]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS, *NOTEBOOKS], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = prose(page)
    for link in re.findall(r"\]\(<?([^)\s>]+)>?\)", text):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_an_anchor_is_what_github_makes_of_a_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What's *new*, in `s.fork(n)`?\n```sh\n# no heading\n```\n## A\n## A\n")
    assert anchors(page) == {"whats-new-in-sforkn", "a", "a-1"}


def prose(page: Path) -> str:
    """The Markdown of a page or of a notebook's cells, without blocks of code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        repeats = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
        found.add(f"{slug}-{repeats}" if repeats else slug)
    return found
