"""Drawing of a fleet's workers over time as SVG: a lane per worker with its calls. Equal to the
page's `page/workers.js`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..state.run_fleet import Absence, WorkerCall, WorkerLane, rows_of
from ..state.run_state import RunState
from .axis import draw_ticks
from .lanes_svg import LANE, LaneScale, draw_bar, draw_legend, draw_span
from .plain_text import counted, label
from .svg import INSIDE, tag, text_at

LEFT, RIGHT = 96, 116
"""Pixels of the labels, and of the found tokens at the right."""
PAD = 6
"""Pixels between lanes."""
SHOWN_ROWS, SHOWN_CALLS = 8, 100
"""Maximum rows and drawn calls per worker."""
LEGEND = (
    ("v", "in the fleet"),
    ("w", "waiting"),
    ("p", "prompt computed"),
    ("d", "tokens sampled"),
    ("j", "forced"),
    ("x", "worker ended, calls moved"),
)


@dataclass(frozen=True, slots=True)
class PlacedLane:
    """Drawn calls of a worker, with the positions of the call's rows in pixels."""

    lane: WorkerLane
    calls: Sequence[WorkerCall]
    tops: Sequence[float]
    top: float
    height: float


def draw_workers(run: RunState, limit: int) -> tuple[str, float]:
    """Draw the workers of a run with calls; nothing for a run without a fleet.

    Args:
        run: State of the run.
        limit: Maximum rows of all workers.

    Returns:
        SVG elements, and the height in pixels.
    """
    if not run.fleet.used:
        return "", 0.0
    seconds, room = max(run.metrics.seconds, 1e-4), INSIDE - LEFT - RIGHT
    scale = LaneScale(run, LEFT, room / seconds)
    lanes = list(_placed(run, limit, scale.end))
    bottom = lanes[-1].top + lanes[-1].height

    shapes = draw_ticks(seconds, LEFT, room, 0, bottom)
    for lane in lanes:
        shapes += _lane(lane, scale)
    shapes += _moves(lanes, scale)

    y, hidden = bottom + 24, len(run.fleet.used) - len(lanes)
    if hidden:
        shapes.append(text_at(0, y + 12, f"and {counted(hidden, 'more worker')}", "m"))
        y += LANE
    return "".join([*shapes, *draw_legend(y, LEGEND)]), y + 20


def _placed(run: RunState, limit: int, now: float) -> Iterator[PlacedLane]:
    """Yield the lanes with room for at least one row per worker."""
    calls, top = run.fleet.calls(run.lanes), float(PAD)
    used = run.fleet.used[: max(1, limit)]
    for lane in used:
        drawn = calls[lane.worker][:SHOWN_CALLS]
        most = min(SHOWN_ROWS, max(1, limit // len(used)))
        rows = rows_of(drawn, now)
        height = LANE * max(2, min(most, max(rows, default=0) + 1))
        kept = [(call, row) for call, row in zip(drawn, rows, strict=True) if row < most]
        tops = [top + LANE * row for _, row in kept]
        yield PlacedLane(lane, [call for call, _ in kept], tops, top, height)
        top += height + PAD


def _lane(placed: PlacedLane, scale: LaneScale) -> Iterator[str]:
    """Draw labels, absences and calls of a worker."""
    lane, y = placed.lane, placed.top
    hidden = lane.calls - len(placed.calls)
    counts = f"{lane.calls:,}, {hidden:,} hidden" if hidden else counted(lane.calls, "call")
    found = f"{lane.cached:,} of {lane.tokens:,}"
    yield tag("path", class_="l", d=f"M0 {y - PAD / 2:.0f}h{INSIDE}")
    yield text_at(0, y + 11, f"worker {lane.worker}", "b")
    yield text_at(0, y + LANE + 11, counts, "c")
    yield text_at(INSIDE - RIGHT + 8, y + 11, found, "c")

    for absence in lane.absences:
        yield from _absence(absence, scale, y, placed.height)
    for call, top in zip(placed.calls, placed.tops, strict=True):
        yield from _call(call, scale, top)


def _absence(absence: Absence, scale: LaneScale, y: float, height: float) -> Iterator[str]:
    ended = scale.end if absence.ended is None else absence.ended
    left, right = (min(scale.x(t), INSIDE - RIGHT) for t in (absence.began, ended))
    if right > left:
        yield tag("rect", class_="x", opacity=0.15, x=left, y=y, width=right - left, height=height)
        yield tag("rect", class_="x", x=left - 1, y=y, width=2, height=height)


def _call(call: WorkerCall, scale: LaneScale, y: float) -> Iterator[str]:
    sent = call.route.t
    if scale.x(sent) - scale.x(call.began) >= 1:
        line = f"M{scale.x(call.began):.1f} {y + LANE / 2}H{scale.x(sent):.1f}"
        yield tag("path", class_="v", d=line)
    arrived = call.bars[0].queued if call.bars else sent
    yield from draw_span("w", scale, sent, arrived, y + 2, LANE - 4)
    for bar in call.bars:
        yield from draw_bar(bar, scale, y)

    event, moved = call.route.event, call.route.moved
    begin = next((bar.first for bar in call.bars if bar.first is not None), None)
    if begin is not None:
        name = label(f"{event.branch} {event.name}", 40)
        room = scale.x(call.end(scale.end)) - scale.x(begin)
        if room > 7 * len(name) + 8:
            yield text_at(scale.x(begin) + 4, y + 11, name, "b")
    if moved is not None:
        yield tag("rect", class_="x", x=scale.x(moved) - 1.5, y=y + 1, width=3, height=LANE - 2)


def _moves(lanes: Sequence[PlacedLane], scale: LaneScale) -> Iterator[str]:
    """Draw lines from the end of a worker to the next decision of each moved call."""
    places = [
        (call.route, top + LANE / 2)
        for lane in lanes
        for call, top in zip(lane.calls, lane.tops, strict=True)
    ]
    places.sort(key=lambda place: place[0].t)

    for route, y in places:
        moved, key = route.moved, (route.event.branch, route.event.name)
        if moved is None:
            continue
        for other, end in places:
            if other.t >= moved and (other.event.branch, other.event.name) == key:
                line = f"M{scale.x(moved):.1f} {y}L{scale.x(other.t):.1f} {end}"
                yield tag("path", class_="e", d=line)
                break
