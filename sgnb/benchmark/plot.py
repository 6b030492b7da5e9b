"""Matplotlib plot of a benchmark: paired ratios, median and interval per variant, and the
conditions. The light background is readable on light and dark pages. Computes no statistics."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..errors import OptionError
from .findings import Finding, Verdict

PAPER, INK, FAINT, LINE = "#fbfbfa", "#1f2328", "#57606a", "#d8dee4"
COLOURS: dict[Verdict, str] = {
    "slower": "#b8621b",
    "faster": "#0072b2",
    "no difference": "#57606a",
    "too few rounds": "#8c959f",
}
WIDTH, ROW, DPI = 8.6, 0.5, 150
"""Width and row height in inches, and dots per inch: 860 page pixels at 1.5 times the resolution.
"""
LEFT, PLOT, RIGHT = 0.2, 2.35, 2.0
"""Inches: left margin of text, left end of the axes, and right margin."""
LINE_WIDTH, SMALL_PRINT_WIDTH = 135, 165
"""Characters per line of text and of small print."""


def figure(
    title: str, results: Sequence[Finding], conditions: Mapping[str, str], lines: Sequence[str]
) -> Any:
    """Draw a benchmark.

    Args:
        title: Heading of the figure.
        results: Finding per variant.
        conditions: Display text by label.
        lines: Findings as sentences.

    Returns:
        A matplotlib figure with a display method for notebooks.

    Raises:
        OptionError: Matplotlib is missing.
    """
    try:
        kind = import_module("matplotlib.figure").Figure
    except ImportError:
        raise OptionError("plot() needs matplotlib", "pip install matplotlib") from None

    class Picture(kind):  # type: ignore[misc, valid-type]
        def _repr_png_(self) -> bytes:
            return png(self)

    compared = [finding for finding in results if finding.ratios]
    notes = [finding.sentence() for finding in results if finding.note]
    small = [f"{name}: {value}" for name, value in conditions.items()]
    says, prints = _wrapped(lines, LINE_WIDTH), _wrapped([*notes, *small], SMALL_PRINT_WIDTH)
    rows = max(1, len(compared)) * ROW
    above, below = 0.55 + 0.19 * len(says), 0.75 + 0.16 * len(prints)
    height = above + rows + below
    picture = Picture(figsize=(WIDTH, height), facecolor=PAPER)

    def write(line: str, down: float, **style: Any) -> None:
        down = 1 - down / height
        picture.text(LEFT / WIDTH, down, line, va="center", parse_math=False, **style)

    write(title, 0.24, size=12, weight="bold", color=INK)
    for i, line in enumerate(says):
        write(line, 0.52 + 0.19 * i, size=8.5, color=INK)
    for i, line in enumerate(prints):
        write(line, height - below + 0.66 + 0.16 * i, size=7, color=FAINT)

    width = WIDTH - PLOT - RIGHT
    axes = picture.add_axes((PLOT / WIDTH, below / height, width / WIDTH, rows / height))
    axes.set_facecolor(PAPER)
    _draw(axes, compared)
    return picture


def png(picture: Any) -> bytes:
    """Encode the figure as PNG."""
    file = io.BytesIO()
    picture.savefig(file, format="png", dpi=DPI, facecolor=PAPER)
    return file.getvalue()


def _draw(axes: Any, compared: Sequence[Finding]) -> None:
    axes.axvline(1, color=INK, linewidth=1)
    axis_transform = axes.get_yaxis_transform()
    for i, finding in enumerate(compared):
        y, colour = -i, COLOURS[finding.verdict]
        axes.axhline(y, color=LINE, linewidth=0.8, zorder=0)
        spread = [y + 0.24 * ((7 * k) % 5 - 2) / 2 for k in range(len(finding.ratios))]
        axes.plot(finding.interval[:2], [y, y], color=colour, linewidth=3, solid_capstyle="butt")
        axes.scatter(finding.ratios, spread, s=12, color=colour, alpha=0.5, linewidths=0, zorder=2)
        axes.scatter([finding.ratio], [y], s=46, color=colour, edgecolors=PAPER, zorder=3)

        low, high, level = finding.interval
        style = {"transform": axis_transform, "va": "center", "parse_math": False}
        axes.text(1.03, y + 0.14, f"{finding.ratio:.2f} times", size=9, color=colour, **style)
        sure = f"{level:.1%}: {low:.2f} to {high:.2f}"
        axes.text(1.03, y - 0.2, sure, size=7, color=FAINT, **style)

        end = (LEFT - PLOT) / (WIDTH - PLOT - RIGHT)
        axes.text(end, y + 0.14, _short(finding.variant, 30), size=9, color=INK, **style)
        axes.text(end, y - 0.2, _short(finding.title, 42), size=7, color=FAINT, **style)

    axes.set_yticks([])
    axes.set_ylim(0.6 - max(1, len(compared)), 0.6)
    _scale(axes, [ratio for finding in compared for ratio in finding.ratios])
    axes.set_xlabel("time relative to the unmodified program", size=8, color=FAINT)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)


def _scale(axes: Any, ratios: Sequence[float]) -> None:
    """Scale the axis logarithmically with plain numbers, because the ratios 1/2 and 2 are equally
    far from 1."""
    low, high = min([*ratios, 0.9]) * 0.96, max([*ratios, 1.1]) * 1.04
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
    shown = [step for step in steps if low <= step <= high]
    while len(shown) > 8:
        shown = [step for step in shown if step == 1 or step not in shown[1::2]]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(shown, [f"{step:g}" for step in shown])
    axes.minorticks_off()


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, width)]


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
