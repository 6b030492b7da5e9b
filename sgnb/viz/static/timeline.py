"""Drawing of a comparison as SVG: findings, metrics, and the lanes of each variant on a common time
axis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10

from ..state.comparison import Bar, Comparison
from ..state.metrics import duration
from ..state.run_state import RunState
from ..state.token_table import visible
from .plain_text import (
    COMPARE_HEAD,
    compare_cells,
    compare_heading,
    counted,
    in_line,
    label,
    losses,
)
from .svg import INSIDE, tag, text_at

LANE, LANES = 15, 6
"""Height of a lane in pixels, and maximum lanes per variant."""
GUTTER, END = 132, 744
"""x positions of time 0 and of the end of the longest run."""
COLUMNS = dict(zip(COMPARE_HEAD, (0, 190, 330, 420, 500, 570, 650, 730, 824), strict=True))
"""Right ends of the columns; the first value is the left end of the first column."""
COMPUTED_AGAIN = 450
"""Right end of "computed" if the column includes recomputed tokens."""
GAIN = re.compile(r" it takes (?!only ).*the same text$")
"""Sentence of a technique with a gain."""
SMALL = 0.8
"""Minimum width of a bar in pixels."""


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
        rows = list(state.timeline(run.run).items())
        limit = len(rows) if len(rows) == LANES + 1 else LANES
        tall = LANE * (1 + min(len(rows), limit) + (len(rows) > limit))
        if run is not shown[0][1]:
            shapes.append(tag("path", class_="e", d=f"M{base:.1f} {y - 4:.1f}v{tall}"))
        line = f"M{end:.1f} {y + 4:.1f}v{tall - 6:.1f}"
        shapes += [
            tag("path", class_="v", d=line),
            text_at(end + 5, y + 11, duration(run.metrics.seconds), "m"),
        ]
        lanes, y = _lane_rows(run, rows, scale, y + LANE, limit)
        shapes += lanes
        y += 5

    return [*_axis(longest, scale, top, y), *shapes, *_legend(y + 20)], y + 40 - top


def draw_lanes(
    run: RunState, lanes: Mapping[str, Sequence[Bar]], y: float, limit: int
) -> tuple[list[str], float]:
    """Draw the lanes of one run with a time axis below; return shapes and height.

    Args:
        run: State of the run.
        lanes: Requests by branch.
        y: Top of the first lane in pixels.
        limit: Maximum number of lanes.
    """
    seconds = run.metrics.seconds or 1e-9
    scale = (END - GUTTER) / seconds
    shapes, bottom = _lane_rows(run, list(lanes.items()), scale, y, limit)
    axis = _axis(seconds, scale, y, bottom)
    return [*axis, *shapes, *_legend(bottom + 20)], bottom + 40 - y


def lane_lines(run: RunState, lanes: Mapping[str, Sequence[Bar]]) -> Iterator[str]:
    """Yield a line per lane: the branch, and begin and seconds of each request."""
    begin = run.began or 0.0
    end = begin + run.metrics.seconds
    for branch, bars in lanes.items():
        calls = (
            f"{visible(bar.name)} at {duration(bar.queued - begin)}"
            f" for {duration((end if bar.finished is None else bar.finished) - bar.queued)}"
            for bar in bars
        )
        yield f"{visible(branch)}: {', '.join(calls)}"


def _lane_rows(
    run: RunState, rows: Sequence[tuple[str, Sequence[Bar]]], scale: float, y: float, limit: int
) -> tuple[list[str], float]:
    """Draw at most `limit` lanes; return shapes and the bottom."""
    shapes: list[str] = []
    for branch, bars in rows[:limit]:
        shapes.append(text_at(10, y + 10, in_line(f"{branch} {bars[-1].name}", 18), "c"))
        for bar in bars:
            shapes += _bar(bar, run, scale, y)
        y += LANE
    if len(rows) > limit:
        shapes.append(text_at(10, y + 10, f"and {counted(len(rows) - limit, 'more lane')}", "m"))
        y += LANE
    return shapes, y


def _axis(seconds: float, scale: float, top: float, bottom: float) -> Iterator[str]:
    """Draw ticks behind the lanes, and their times below."""
    tick = tick_of(seconds)
    for i in range(int(seconds / tick) + 1):
        x = GUTTER + scale * tick * i
        yield tag("path", class_="l", d=f"M{x:.1f} {top:.1f}v{bottom - top:.1f}")
        yield text_at(x, bottom + 12, duration(tick * i) if i else "0", "m")


def tick_of(seconds: float) -> float:
    """Return the distance of axis ticks: a round number of seconds, at least 1 ms, for at most six
    ticks in `seconds`."""
    least = max(seconds / 6, 1e-3)
    power = float(10 ** floor(log10(least)))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least)


def _bar(bar: Bar, run: RunState, scale: float, y: float) -> Iterator[str]:
    """Draw the phases of a request: waiting, prefill, decode and jumps. An unfinished request ends
    with the run."""
    begin = run.began or 0.0
    over = begin + run.metrics.seconds
    end = over if bar.finished is None else bar.finished
    admitted = end if bar.admitted is None else bar.admitted
    first = end if bar.first is None else bar.first
    spans = [("w", bar.queued, admitted), ("p", admitted, first), ("d", first, end)]
    for style, start, stop in spans:
        width = (stop - start) * scale
        if width >= SMALL:
            x = GUTTER + scale * (start - begin)
            yield tag("rect", class_=style, x=x, y=y + 1, width=width, height=LANE - 4)

    if bar.jumps:
        marks = "".join(
            f"M{GUTTER + scale * (t - begin):.1f} {y:.1f}v{LANE - 2}" for t in bar.jumps[:40]
        )
        yield tag("path", class_="j", d=marks)


def _legend(y: float) -> Iterator[str]:
    names = [("w", "waiting"), ("p", "prompt computed"), ("d", "tokens sampled"), ("j", "forced")]
    x = 0.0
    for style, text in names:
        if style == "j":
            yield tag("path", class_=style, d=f"M{x + 8} {y + 1}v12")
        else:
            yield tag("rect", class_=style, x=x, y=y + 2, width=16, height=10)
        yield text_at(x + 22, y + 11, text, "m")
        x += 46 + 7 * len(text)


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
