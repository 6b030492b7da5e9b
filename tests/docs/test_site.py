"""The site as `make docs` builds it: every page is there, no link in it is dead, and nothing of it
asks another host. Runs where the site's tools are installed (the extra `docs`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.blocks import ROOT
from tools import reference, site

pytest.importorskip("furo", reason="the site's tools come with `make docs`")
pytest.importorskip("myst_nb", reason="the site's tools come with `make docs`")

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """What a page loads, where it leads to, and its own anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.leads: set[str] = set()
        self.ids: set[str] = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids.add(found.get("id", ""))
        for name in ("src", "href"):
            if name in found:
                (self.leads if tag == "a" else self.loads).add(found[name])


read = cache(Links)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    assert site.build(folder / "work", folder / "site") == 0, "Sphinx warned: see its output"
    yield folder / "site"


def test_all_pages_are_there(built: Path) -> None:
    for folder, kind in (("docs", "md"), ("notebooks", "ipynb")):
        for source in (ROOT / folder).glob(f"*.{kind}"):
            assert (built / folder / f"{source.stem}.html").exists(), source
    assert "structured generation" in (built / "index.html").read_text(encoding="utf-8")


def test_the_reference_has_an_anchor_for_every_name(built: Path) -> None:
    anchors = {anchor for page in (built / "api").glob("*.html") for anchor in read(page).ids}
    assert set(reference.labels()) <= anchors


def test_nothing_is_loaded_from_another_host(built: Path) -> None:
    for page in built.rglob("*.html"):
        for link in read(page).loads:
            assert not re.match(r"(https?:)?//", link), f"{page.name} loads {link}"
    for style in built.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        for link in re.findall(r"url\(([^)]*)\)|@import\s+(\S+)", text):
            assert not re.match(r"[\"']?(https?:)?//", "".join(link)), f"{style.name}: {link}"


def test_no_link_is_dead(built: Path) -> None:
    for page in built.rglob("*.html"):
        links = read(page)
        for link in links.leads | links.loads:
            if re.match(r"https?:|mailto:|data:|javascript:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            assert target.exists(), f"{page.relative_to(built)}: {link}"
            if anchor and target.suffix == ".html":
                assert anchor in read(target).ids, f"{page.relative_to(built)}: {link}"
