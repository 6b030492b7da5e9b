"""Make docs/images/radix-tree.gif: a hit and a split of the radix tree, in runs of a small model.

    .venv/bin/python -m tools.animation [--out FILE]

Runs two programs with an equal beginning, draws the tree after each event, and joins the pictures.
Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from PIL import Image
from playwright.sync_api import sync_playwright

import sgnb
from sgnb.events import NodeAdded, NodeSplit, Record, RequestAdmitted, RunStarted, replay
from sgnb.viz.state.log_state import LogState
from sgnb.viz.static.bundle import picture
from sgnb.viz.static.kept_views import TreeView
from sgnb.viz.static.plain_text import counted
from tests.browser.lab import FLAGS, find_chromium

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "images" / "radix-tree.gif"
MAX_BYTES = 500_000
WIDTH, HEIGHT = 880, 255
COLORS = 64
SECONDS, LAST_SECONDS = 2.0, 4.0
"""Time of a frame, and of the last frame."""

SHARED = (
    "Q: What is the capital of Italy?\nA: The capital of Italy is Rome.\n"
    "Q: What is the capital of Spain?\nA: The capital of Spain is Madrid.\n"
    "Q: What is the capital of "
)
COUNTRIES = "France", "Peru", "Kenya"


class Frame(NamedTuple):
    caption: str
    svg: str


@sgnb.function
def capital(s: Any, country: str) -> None:
    s += SHARED + country + "?\nA:" + sgnb.gen("answer", max_tokens=12, stop="\n")


def record() -> list[Record]:
    """Return the records of the programs, from an empty cache."""
    sgnb.load("tiny")
    sgnb.cache.flush()
    sgnb.recordings.on()
    for country in COUNTRIES:
        capital.run(country=country, temperature=0).wait()

    return list(replay(sgnb.recordings.off().lines))


def frames(records: list[Record]) -> Iterator[Frame]:
    """Yield a frame per event of the cache that changes the tree, or finds a prefix."""
    states, run, country = LogState(), "", ""
    countries = iter(COUNTRIES)
    for entry in records:
        states.apply(entry)
        event, caption = entry.event, ""
        if isinstance(event, RunStarted):
            run, country = event.run, next(countries)
        elif isinstance(event, RequestAdmitted):
            caption = f"Hit: the prompt about {country} finds {event.cached} tokens in the tree"
            if not event.cached:
                caption = f"The cache is empty: the prompt about {country} is computed"
        elif isinstance(event, NodeSplit):
            caption = f"Split: the common {event.length} tokens become a node of their own"
        elif isinstance(event, NodeAdded) and run:
            caption = f"Insert: {counted(len(event.tokens), 'token')} of {country} stay in the tree"

        if caption:
            view = TreeView(states.tree, states.runs[run])
            yield Frame(caption, picture([view], 12, "sgnb-static"))


def painted(shots: list[Frame]) -> list[Image.Image]:
    """Return the frames as images of equal size."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no Chromium or Chrome on the PATH")

    images = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for number, frame in enumerate(shots, 1):
            title = f"{number} of {len(shots)} · {escape(frame.caption)}"
            page.set_content(
                "<body style='margin:10px;background:#fff;font:600 16px sans-serif;color:#1f2328'>"
                f"<p style='margin:0 0 8px'>{title}</p>{frame.svg}"
            )
            images.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        browser.close()

    return images


def save(images: list[Image.Image], path: Path) -> int:
    """Write the images as an endless GIF with one palette, and return the size in bytes."""
    palette = images[-1].quantize(COLORS, dither=Image.Dither.NONE)
    still = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [1000 * SECONDS] * (len(still) - 1) + [1000 * LAST_SECONDS]
    still[0].save(
        path, save_all=True, append_images=still[1:], duration=times, loop=0, optimize=True
    )
    return path.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=OUT)
    path = parser.parse_args().out
    shots = list(frames(record()))
    size = save(painted(shots), path)
    print(f"{path}: {len(shots)} frames, {size:,} bytes")
    return int(size > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
