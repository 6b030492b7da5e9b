"""Build the documentation's site into docs/_site, without network: `make docs`.

build/site collects the sources in the layout of the repository, so links work in both places. The
API reference comes from the docstrings (`tools/reference.py`). Notebooks appear with the stored
outputs.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path

from tools import reference

ROOT = Path(__file__).resolve().parent.parent

GUIDES = (
    "LANGUAGE",
    "COMPILER",
    "MEDIA",
    "API_MODELS",
    "CONSTRAINED",
    "JSON_SCHEMA",
    "VIEWS",
    "MODELS",
    "BENCHMARKS",
    "GPU",
    "CACHE",
    "SCALE_OUT",
    "FAQ",
)
"""In the menu's order; pages of docs/ that are nowhere else follow."""
COMING_FROM = {
    "from_sglang": "SGLang",
    "from_guidance": "Guidance",
    "from_outlines": "Outlines",
    "from_langchain": "LangChain",
}
PROJECT = ("docs/ARCHITECTURE", "benchmarks/RESULTS", "CONTRIBUTING", "CHANGELOG")


def build(work: Path, target: Path) -> int:
    """Build the site at `target` with the folder `work`; both folders are emptied first. Returns
    the exit status of Sphinx: not 0 after a warning such as a broken link, and then no site."""
    from sphinx.cmd.build import build_main

    shutil.rmtree(work, ignore_errors=True)
    sources, built = work / "sources", work / "html"
    for name, text in gather().items():
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", sources / "docs" / "images")
    setup = str(ROOT / "docs" / "site")
    flags = ["-q", "-W", "--keep-going", "-d", str(work / "doctrees"), "-c", setup]
    code: int = build_main([*flags, str(sources), str(built)])
    if code == 0:
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(built, target)
    return code


def gather() -> dict[str, str]:
    """The sources by their path."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    books = sorted((ROOT / "notebooks").glob("*.ipynb"))
    menu = {
        "Tutorials": [f"notebooks/{book.stem}" for book in books],
        "Guides": [f"docs/{name}" for name in _guides(pages)],
        "Coming from": [f"{title} <docs/{name}>" for name, title in COMING_FROM.items()],
        "Reference": [f"api/{name}" for name in (*reference.PAGES, "magics")],
        "Project": list(PROJECT),
    }
    known = set(reference.labels())
    sources = {name: _read(name) for name in ("LICENSE", *(f"{page}.md" for page in PROJECT))}
    sources |= {f"docs/{page.name}": _dressed(_read(page), known) for page in pages}
    sources |= {f"notebooks/{book.name}": _folded(_read(book)) for book in books}
    sources |= {f"api/{name}.md": text for name, text in reference.pages().items()}
    front = _dressed(_read("README.md"), known)
    sources["index.md"] = "\n\n".join([front, *map(_toctree, menu, menu.values())])
    return sources


def _guides(pages: list[Path]) -> list[str]:
    elsewhere = {*COMING_FROM, *(Path(page).stem for page in PROJECT), *GUIDES}
    return [*GUIDES, *(page.stem for page in pages if page.stem not in elsewhere)]


def _read(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def _dressed(text: str, known: set[str]) -> str:
    """Return a page with pictures in the color of the theme, and links from public names to the
    reference."""
    both = r"\1-light.png){.only-light}\n\1-dark.png){.only-dark}"
    text = re.sub(r"(!\[[^\]]*\]\([\w/]+)-(?:light|dark)\.png\)", both, text)

    def link(span: re.Match[str]) -> str:
        label = f"sgnb.{span[2]}"
        return f"{{py:obj}}`{span[1]} <{label}>`" if label in known else span[0]

    spans = r"(?<![`\[}])`((?:sgnb|sgl)\.([\w.]+)(?:\([^`<>\\]*)?)`(?!`)"
    parts = re.split(r"(^```.*?^```$|^#.*?$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part[:1] in ("`", "#") else re.sub(spans, link, part) for part in parts)


def _folded(notebook: str) -> str:
    """Hide the source of a cell: JupyterLab reads the metadata, MyST reads a tag."""
    held = json.loads(notebook)
    for cell in held["cells"]:
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            cell["metadata"].setdefault("tags", []).append("hide-input")
    return json.dumps(held)


def main() -> int:
    began = time.monotonic()
    target = ROOT / "docs" / "_site"
    code = build(ROOT / "build" / "site", target)
    if code == 0:
        pages = len([*target.rglob("*.html")])
        where = (target / "index.html").relative_to(ROOT)
        print(f"{pages} pages in {time.monotonic() - began:.0f} s: {where}")
    return code


if __name__ == "__main__":
    sys.exit(main())
