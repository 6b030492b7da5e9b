"""Drawing of a comparison as SVG: findings, metrics, and the lanes of each variant on a common time
axis."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..state.comparison import Comparison
from ..state.metrics import duration
from .axis import draw_ticks
from .lanes_svg import LANE, LEGEND, LaneScale, draw_label, draw_lane, draw_legend
from .plain_text import (
    COMPARE_HEAD,
    compare_cells,
    compare_heading,
    counted,
    label,
    losses,
)
from .svg import INSIDE, tag, text_at

LANES = 6
"""Maximum lanes per variant."""
GUTTER, END = 160, 744
"""x positions of time 0 and of the end of the longest run."""
COLUMNS = dict(zip(COMPARE_HEAD, (0, 190, 330, 420, 500, 570, 650, 730, 824), strict=True))
"""Right ends of the columns; the first value is the left end of the first column."""
COMPUTED_AGAIN = 450
"""Right end of "computed" if the column includes recomputed tokens."""
GAIN = re.compile(r" it takes (?!only ).*the same text$")
"""Sentence of a technique with a gain."""


def draw_comparison(state: Comparison) -> tuple[str, float]:
    """Draw a comparison.

    Returns:
        SVG elements, and the height in pixels.
    """
    heading, *more = [compare_heading(state), *losses(state), *state.lines]
    shapes, y = [text_at(0, 12, heading, "h")], 18.0
    for line in more:
        gains = GAIN.search(line)
        for part in _folded(line, int(INSIDE / 6.2)):
            shapes.append(text_at(0, y + 12, part, "g" if gains else "m"))
            y += 17

    y += 6
    again = any(row.get("recomputed_tokens") for row in state.rows())
    ends = COLUMNS | ({"computed": COMPUTED_AGAIN} if again else {})
    shapes += [text_at(x, y + 12, name, "r") for name, x in ends.items() if name]
    y += 18

    for cells in compare_cells(state):
        shapes.append(tag("path", class_="l", d=f"M0 {y:.0f}h{INSIDE}"))
        shapes.append(text_at(0, y + 14, cells[0], ""))
        columns = zip(list(ends.values())[1:], cells[1:], strict=True)
        shapes += [text_at(x, y + 14, cell, "r") for x, cell in columns if cell]
        y += 20

    lanes, height = _lanes(state, y + 12)
    return "".join([*shapes, *lanes]), y + 12 + height


def _lanes(state: Comparison, y: float) -> tuple[list[str], float]:
    shapes: list[str] = []
    shown = [(v.name, v.shown) for v in state.variants.values() if v.shown is not None]
    if not shown:
        return shapes, 0
    top = y
    longest = max(run.metrics.seconds for _, run in shown) or 1e-9
    scale = (END - GUTTER) / longest
    base = GUTTER + scale * shown[0][1].metrics.seconds

    for name, run in shown:
        shapes.append(text_at(0, y + 11, name, "h"))
        end = GUTTER + scale * run.metrics.seconds
        lanes = list(run.lanes)
        limit = len(lanes) if len(lanes) == LANES + 1 else LANES
        tall = LANE * (1 + min(len(lanes), limit) + (len(lanes) > limit))
        if run is not shown[0][1]:
            shapes.append(tag("path", class_="e", d=f"M{base:.1f} {y - 4:.1f}v{tall}"))
        line = f"M{end:.1f} {y + 4:.1f}v{tall - 6:.1f}"
        shapes += [
            tag("path", class_="v", d=line),
            text_at(end + 5, y + 11, duration(run.metrics.seconds), "m"),
        ]
        y += LANE
        positions = LaneScale(run, GUTTER, scale)
        for lane in lanes[:limit]:
            shapes += [draw_label(lane, y, 12), *draw_lane(run, lane, positions, y)]
            y += LANE
        if len(lanes) > limit:
            hidden = counted(len(lanes) - limit, "more lane")
            shapes.append(text_at(12, y + 10, f"and {hidden}", "m"))
            y += LANE
        y += 5

    ticks = draw_ticks(longest, GUTTER, END - GUTTER, top, y - top)
    return [*ticks, *shapes, *draw_legend(y + 24, LEGEND[:6])], y + 44 - top


def _folded(line: str, width: int) -> Sequence[str]:
    """Wrap a line at `width` characters."""
    shown = label(line, 4 * width)
    pieces = []
    while len(shown) > width:
        cut = shown.rfind(" ", width // 2, width)
        cut = width if cut < 0 else cut + 1
        pieces.append(shown[:cut])
        shown = shown[cut:]
    return [*pieces, shown]
