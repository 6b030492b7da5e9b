"""Drawing of lanes as SVG: calls, tools, Python time, and forks with the shared prefix as a trunk.
Marks equal the page's `page/lane_drawing.js`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..state.copied_blocks import PLACES
from ..state.lanes import Bar, Lane, LaneFork
from ..state.metrics import duration
from ..state.run_state import RunState
from .axis import draw_ticks
from .plain_text import counted, in_line
from .svg import COPY_STYLE, INSIDE, LETTER, names_within, tag, text_at

LANE, SHOWN_LANES = 16, 12
"""Height of a lane in pixels, and maximum lanes of a run."""
GUTTER = 160
"""Pixels of the labels."""
INDENT = 12
"""Pixels per fork."""
SMALL = 0.8
"""Minimum width of a bar in pixels."""
KEPT_JUMPS = 40


class LaneScale:
    """Positions of a run's lanes: `x` is the position of the run's start."""

    def __init__(self, run: RunState, x: float, pixels_per_second: float) -> None:
        self.begin = run.began or 0.0
        self.end = self.begin + run.metrics.seconds
        self._x, self._scale = x, pixels_per_second

    def x(self, t: float) -> float:
        return self._x + self._scale * (t - self.begin)


def draw_lanes(run: RunState) -> tuple[str, float]:
    """Draw the lanes of a run with forks, tools or cache loads; nothing for other runs.

    Returns:
        SVG elements, and the height in pixels.
    """
    lanes = list(run.lanes)
    if len(lanes) < 2 and not any(lane.activities for lane in lanes) and not run.loads.bars:
        return "", 0.0

    return draw_all_lanes(run, SHOWN_LANES)


def draw_all_lanes(run: RunState, limit: int) -> tuple[str, float]:
    """Draw at most `limit` lanes of any run; see `draw_lanes`."""
    lanes = list(run.lanes)
    shown, seconds = lanes[:limit], max(run.metrics.seconds, 1e-4)
    scale = LaneScale(run, GUTTER, (INSIDE - GUTTER) / seconds)
    tall = LANE * len(shown)

    ticks_end = tall + LANE * bool(run.loads.bars)
    shapes = draw_ticks(seconds, GUTTER, INSIDE - GUTTER, 0, ticks_end)
    for i, lane in enumerate(shown):
        shapes += [draw_label(lane, LANE * i), *draw_lane(run, lane, scale, LANE * i)]
    rows = {lane.branch: LANE * (i + 0.5) for i, lane in enumerate(shown)}
    for group in run.lanes.fork_groups():
        shapes += _fork(group, scale, rows)

    if run.loads.bars:
        shapes += draw_loads(run, scale, tall)
        tall += LANE

    y, hidden = tall + 24.0, len(lanes) - len(shown) + run.lanes.hidden
    if hidden:
        shapes.append(text_at(0, y + 12, f"and {counted(hidden, 'more lane')}", "m"))
        y += LANE

    shapes += draw_legend(y)
    if run.loads.bars:
        y += 18
        shapes += draw_legend(
            y,
            [(name, f"loaded from {PLACES[name]}") for name in run.loads.stores if name in PLACES],
        )
    return "".join(shapes), y + 20


def draw_label(lane: Lane, y: float, x: float = 0) -> str:
    x += INDENT * min(4, lane.branch.count("."))
    label = names_within(
        in_line(f"{lane.branch} {lane.names}".strip(), 80), int((GUTTER - 8 - x) / LETTER)
    )
    return text_at(x, y + 11, label, "c")


def draw_lane(run: RunState, lane: Lane, scale: LaneScale, y: float) -> Iterator[str]:
    """Draw Python time, tools, pauses and calls of a branch."""
    middle = y + LANE / 2
    for began, ended in run.lanes.python_spans(lane, scale.end):
        yield from draw_span("t", scale, began, ended, middle - 2, 4)

    for activity in lane.activities:
        ended = scale.end if activity.ended is None else activity.ended
        if activity.kind == "tools":
            yield from draw_span("y", scale, activity.began, ended, y + 2, LANE - 4)
        elif activity.kind == "paused":
            yield from draw_span("w", scale, activity.began, ended, middle - 1, 2)

    for bar in lane.bars:
        yield from draw_bar(bar, scale, y)


def draw_loads(run: RunState, scale: LaneScale, y: float) -> Iterator[str]:
    """Draw the cache loads of a run in one lane. A bar with room has the tokens and the time."""
    yield tag("style", COPY_STYLE)
    yield text_at(0, y + 11, "cache loads", "c")
    for bar in run.loads.bars:
        left, right = scale.x(bar.began), scale.x(bar.ended)
        yield tag("rect", class_="w", x=left, y=y + 2, width=max(right - left, 2), height=LANE - 4)
        line = f"M{left:.1f} {y + LANE - 3.5:.1f}H{max(right, left + 2):.1f}"
        yield tag("path", class_=bar.store if bar.store in PLACES else "v", d=line)
        words = f"{bar.tokens:,} {bar.store}, {duration(bar.ended - bar.began)}"
        if right - left > LETTER * len(words) + 8:
            yield text_at(left + 4, y + 11, words, "c")


def draw_span(
    style: str, scale: LaneScale, begin: float, end: float, y: float, height: float
) -> Iterator[str]:
    """Draw a time as a rectangle, if visible."""
    start, width = scale.x(begin), scale.x(end) - scale.x(begin)
    if width >= SMALL:
        yield tag("rect", class_=style, x=start, y=y, width=width, height=height)


def draw_bar(bar: Bar, scale: LaneScale, y: float) -> Iterator[str]:
    """Draw the phases of a request: waiting, prefill, decode and jumps. An unfinished request ends
    with the run."""
    end = scale.end if bar.finished is None else bar.finished
    admitted = end if bar.admitted is None else bar.admitted
    first = end if bar.first is None else bar.first
    for style, start, stop in (
        ("w", bar.queued, admitted),
        ("p", admitted, first),
        ("d", first, end),
    ):
        yield from draw_span(style, scale, start, stop, y + 2, LANE - 4)

    if bar.jumps:
        marks = "".join(f"M{scale.x(t):.1f} {y:.1f}v{LANE - 2}" for t in bar.jumps[:KEPT_JUMPS])
        yield tag("path", class_="j", d=marks)


def _fork(group: LaneFork, scale: LaneScale, rows: dict[str, float]) -> Iterator[str]:
    """Draw the trunk to the branches of a fork, and the lines back at the join."""
    ends = [(rows[lane.branch], lane) for lane in group.branches if lane.branch in rows]
    if group.parent.branch not in rows or not ends:
        return

    top, bottom, x = rows[group.parent.branch], max(y for y, _ in ends), scale.x(group.forked)
    branches = "".join(f"M{x:.1f} {y - 5:.1f}q0 5 5 5" for y, _ in ends)
    yield tag("path", class_="z", d=f"M{x:.1f} {top:.1f}V{bottom - 5:.1f}{branches}")

    if group.joined is not None:
        to = scale.x(group.joined)
        lines = "".join(f"M{scale.x(lane.ended or 0):.1f} {y:.1f}H{to:.1f}" for y, lane in ends)
        yield tag("path", class_="v", d=f"{lines}M{to:.1f} {bottom:.1f}V{top:.1f}")


LEGEND: Sequence[tuple[str, str]] = (
    ("w", "waiting"),
    ("p", "prompt computed"),
    ("d", "tokens sampled"),
    ("j", "forced"),
    ("t", "Python"),
    ("y", "tools"),
    ("z", "shared prefix of a fork"),
)


def draw_legend(y: float, marks: Sequence[tuple[str, str]] = LEGEND) -> Iterator[str]:
    x = 0.0
    for style, text in marks:
        if style == "j":
            yield tag("path", class_=style, d=f"M{x + 8} {y + 1}v12")
        elif style in ("v", "z", *PLACES):
            yield tag("path", class_=style, d=f"M{x} {y + 7}h16")
        else:
            tall = 4 if style == "t" else 10
            yield tag("rect", class_=style, x=x, y=y + 7 - tall / 2, width=16, height=tall)
        yield text_at(x + 22, y + 11, text, "m")
        x += 46 + 7 * len(text)
