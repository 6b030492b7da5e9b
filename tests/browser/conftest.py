"""Fixtures for tests in a browser: one JupyterLab and one Chromium for all, a fresh page for each
test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="browser tests need the package playwright")
pytest.importorskip("jupyterlab", reason="browser tests need JupyterLab")

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.lab import FLAGS, Lab, Notebook, find_chromium
from tests.browser.pages import SECONDS

expect.set_options(timeout=1000 * SECONDS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Playwright keeps an event loop running on the main thread, where asyncio.run refuses that:
    it has to end with the tests in a browser."""
    path = find_chromium()
    if path is None:
        pytest.skip("needs a Chromium or Chrome on the PATH")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    server = Lab(tmp_path_factory.mktemp("lab"))
    yield server
    server.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, with the options of Playwright. The test fails on an error of a page."""
    pages: list[Page] = []
    problems: list[str] = []

    def opened(**options: Any) -> Page:
        page = browser.new_page(**options)
        page.set_default_timeout(1000 * SECONDS)
        page.on("pageerror", lambda error: problems.append(error.stack or error.message))
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert not problems, "\n".join(problems)


@pytest.fixture
def notebook(browser: Browser, lab: Lab) -> Iterator[Notebook]:
    """A page of its own. The test fails on any console error and on any request to another host."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(1000 * SECONDS)
    page.add_init_script("window.__sgnb = {}")  # a page without a view holds no views
    book = Notebook(lab, page)
    yield book
    page.close()
    lab.end_kernels()
    assert not book.problems, "\n".join([*book.problems, lab.log_end()])
