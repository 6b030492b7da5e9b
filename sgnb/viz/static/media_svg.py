"""Thumbnails of images, videos and sounds in SVG.

A document defines each thumbnail once, while the limit on the size allows; further items are
hatched boxes.
"""

from __future__ import annotations

import re

from ...events import MediaNamed
from ..state.media import title
from ..state.run_state import RunState
from .chips import items_of
from .svg import INSIDE, tag, text_at

SIDE = 96
"""Width and height of a thumbnail in its own coordinates."""
BASE64 = re.compile("[A-Za-z0-9+/]+={0,2}")

STRIP_SIDE, STRIP_STEP, STRIP_HEIGHT = 44, 74, 64
STRIP_ROWS = 2
"""Size of a thumbnail above the text, distance to the next, height of a row, and maximum rows."""

HATCH_STEP = 6


class Thumbnails:
    """Thumbnails of a document.

    Args:
        name: Name of the document, as prefix of the ids.
        room: Maximum number of characters of all pictures.
    """

    def __init__(self, name: str = "", room: int = 0) -> None:
        self._name, self._room = name, room
        self._ids: dict[str, str] = {}  # by thumbnail; "" for a picture that is left out

    def draw(self, item: MediaNamed, x: float, y: float, side: float) -> str:
        """Draw an item in a square: the thumbnail, or a hatched box."""
        picture = item.thumbnail
        if picture not in self._ids:
            fits = bool(BASE64.fullmatch(picture)) and len(picture) <= self._room
            self._room -= len(picture) * fits
            self._ids[picture] = f"{self._name}-item-{len(self._ids)}" * fits
        if not self._ids[picture]:
            return _hatched(x, y, side)
        place = f"translate({x:.1f} {y:.1f}) scale({side / SIDE:.4f})"
        frame = tag("rect", class_="l", fill="none", x=x, y=y, width=side, height=side)
        return tag("use", href=f"#{self._ids[picture]}", transform=place) + frame

    def definitions(self) -> str:
        """Return the pictures used by `draw`."""
        images = [
            tag("image", id=id, href=f"data:image/jpeg;base64,{data}", width=SIDE, height=SIDE)
            for data, id in self._ids.items()
            if id
        ]
        return tag("defs", "".join(images)) if images else ""


def _hatched(x: float, y: float, side: float) -> str:
    lines = "".join(
        f"M{x + max(0, at - side):.1f} {y + min(at, side):.1f}"
        f"L{x + min(at, side):.1f} {y + max(0, at - side):.1f}"
        for at in range(HATCH_STEP, int(2 * side), HATCH_STEP)
    )
    box = tag("rect", class_="v", x=x, y=y, width=side, height=side)
    return box + tag("path", class_="l", d=lines)


def draw_strip(state: RunState, thumbnails: Thumbnails) -> tuple[str, float]:
    """Draw the items of a run in rows; return body and height."""
    items, in_row = items_of(state), INSIDE // STRIP_STEP
    shown = items[: STRIP_ROWS * in_row]
    out, rows = [], -(-len(shown) // in_row)
    for i, item in enumerate(shown):
        x, y = i % in_row * STRIP_STEP, i // in_row * STRIP_HEIGHT
        out.append(thumbnails.draw(item, x, y, STRIP_SIDE))
        out.append(text_at(x, y + STRIP_SIDE + 13, title(item), "m"))
    height = rows * STRIP_HEIGHT
    if len(items) > len(shown):
        out.append(text_at(0, height + 10, f"and {len(items) - len(shown)} more", "m"))
        height += 18
    return "".join(out), height + 4 * bool(items)
