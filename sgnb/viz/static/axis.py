"""Time axes of static pictures: round ticks with units. Equal to the page's `page/axis.js`."""

from __future__ import annotations

from math import ceil, floor, log10

from .svg import LETTER, tag, text_at

ABOUT = 1e-9
"""Tolerance for rounding errors, relative."""


LABEL_GAP = 8
"""Minimum pixels between labels of ticks."""


def tick_of(seconds: float) -> float:
    """Return the distance of axis ticks: a round number of seconds, at least 10 µs, for at most six
    ticks in `seconds`."""
    least = max(seconds / 6, 1e-5)
    power = float(10 ** floor(log10(least) + ABOUT))
    steps = (power * times for times in (1, 2, 5, 10))
    return next(step for step in steps if step >= least * (1 - ABOUT))


def tick_label(t: float, step: float, end: float) -> str:
    """Return the label of a tick; all ticks of an axis have the unit and decimals of the axis.

    Args:
        t: Time of the tick in seconds.
        step: Distance of the ticks in seconds.
        end: Last time of the axis in seconds.
    """
    if abs(t) < step / 1000:
        return "0"

    size, unit = (1.0, "s") if end >= 1 else (1e-3, "ms")
    return f"{t / size:.{max(0, ceil(-log10(step / size) - ABOUT))}f} {unit}"


def draw_ticks(seconds: float, x: float, width: float, y: float, height: float) -> list[str]:
    """Draw grid lines of an axis from 0 to `seconds`, and labels below.

    Args:
        seconds: Last time of the axis.
        x: Position of time 0.
        width: Pixels of the axis.
        y: Top of the grid lines.
        height: Height of the grid lines.
    """
    shapes, step, free = [], tick_of(seconds), float("-inf")
    for i in range(int(seconds / step + ABOUT) + 1):
        at, label = x + width * step * i / seconds, tick_label(step * i, step, seconds)
        shapes.append(tag("path", class_="l", d=f"M{at:.1f} {y:.1f}v{height + 4:.1f}"))
        length = LETTER * len(label)
        label_x = min(max(x, at - length / 2), x + width - length)
        if label_x >= free:
            shapes.append(text_at(label_x, y + height + 16, label, "m"))
            free = label_x + length + LABEL_GAP

    return shapes
