"""The documentation's site in Chromium, from the disk. It needs the site's tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import SECONDS, expect_no_sideways_scroll
from tools import site

pytest.importorskip("furo", reason="the site's tools come with `make docs`")


@pytest.mark.slow
def test_the_site_works_from_the_disk_and_asks_no_host(browser: Browser, tmp_path: Path) -> None:
    assert site.build(tmp_path / "work", tmp_path / "site") == 0
    page = browser.new_page(viewport={"width": 700, "height": 900}, color_scheme="dark")
    page.set_default_timeout(1000 * SECONDS)
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    for path in sorted((tmp_path / "site").rglob("*.html")):
        page.goto(path.as_uri())
        expect_no_sideways_scroll(page)

    page.goto((tmp_path / "site" / "search.html").as_uri() + "?q=majority_vote")
    expect(page.locator("#search-results a").first).to_have_text("sgnb.majority_vote")
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert problems == []
