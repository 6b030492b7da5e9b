"""Waits and measures of any page with views."""

from __future__ import annotations

import time
from typing import Any

from playwright.sync_api import Locator, Page, expect

SECONDS = 120
"""Maximum wait for a state of a page on a busy machine."""

CANVAS = ".sgnb-side .sgnb-panel canvas:visible"


def findings(page: Page, part: str) -> list[str]:
    """What axe finds wrong within the elements that `part` selects."""
    from axe_playwright_python.base import AXE_FILE_PATH

    page.evaluate(AXE_FILE_PATH.read_text())
    script = "part => axe.run({ include: [[part]] }, { resultTypes: ['violations'] })"
    found = page.evaluate(script, part)["violations"]
    return [
        f"{one['id']}: {node['target']} {node['any']}" for one in found for node in one["nodes"]
    ]


def settle(page: Page) -> None:
    """Wait until the page has drawn the effects of earlier input: handlers draw in the next frame,
    observers of sizes at its end."""
    frame = "new Promise(requestAnimationFrame)"
    page.evaluate(f"async () => {{ await {frame}; await {frame}; }}")


def picture(page: Page) -> str:
    """Return the drawing of the open view."""
    settle(page)
    found: str = page.locator(CANVAS).first.evaluate("canvas => canvas.toDataURL()")
    return found


def wait_until(part: Locator, holds: str, arg: Any = None) -> None:
    """Wait until `holds`, a function in JavaScript, is true of the element and `arg`."""
    end = time.monotonic() + SECONDS
    while not part.evaluate(holds, arg):
        assert time.monotonic() < end, f"{holds} is false of {part}"
        part.page.wait_for_timeout(50)


def expect_inside(part: Locator, around: str) -> None:
    """Wait until the ancestor `around` is as wide as `part` needs."""
    script = """(part, around) => {
        const box = part.getBoundingClientRect();
        const area = part.closest(around).getBoundingClientRect();
        return box.width && box.left >= area.left && box.right <= area.right + 1;
    }"""
    wait_until(part, script, around)


def expect_no_sideways_scroll(page: Page) -> None:
    wait_until(page.locator("html"), "html => html.scrollWidth <= html.clientWidth")


def resize(page: Page, width: int, height: int = 1000) -> None:
    """Change the size of the window, and wait until the page has drawn in the new size."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("width => innerWidth === width", arg=width)
    settle(page)


def open_view(place: Page | Locator, name: str) -> None:
    """Open a view, unless open already, and wait for the drawing in its final size."""
    tab = place.locator(f".sgnb-tab[data-view={name}]")
    if tab.get_attribute("aria-selected") != "true":
        tab.click()
    expect(tab).to_have_attribute("aria-selected", "true")
    settle(place if isinstance(place, Page) else place.page)


WORK = "() => { let sum = 0; for (let i = 1; i < 2e7; i += 1) sum += 1 / i; return sum; }"
WORK_MILLISECONDS = 25.0
"""Processor time of `WORK` on a machine of usual speed."""


class Stopwatch:
    """Processor time of a page in milliseconds, of a machine of usual speed: neither other
    processes nor a slow machine change the time."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        slowness = min(self._time(page, WORK) for _ in range(3)) / WORK_MILLISECONDS
        self._page, self._slowness = page, max(1.0, slowness)

    def time(self, script: str, arg: Any = None) -> float:
        return self._time(self._page, script, arg) / self._slowness

    def _time(self, page: Page, script: str, arg: Any = None) -> float:
        before = self._now()
        page.evaluate(script, arg)
        return self._now() - before

    def _now(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(1000 * entry["value"] for entry in metrics if entry["name"] == "TaskDuration")
