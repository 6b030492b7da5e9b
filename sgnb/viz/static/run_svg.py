"""Drawing of a run as SVG: the coloured text of the branches, or the table of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from ..state.metrics import KIND_NAMES
from ..state.models import letter_of, with_marks
from ..state.run_state import RunState
from .chips import with_chips
from .lanes_svg import draw_lanes
from .media_svg import Thumbnails, draw_strip
from .plain_text import (
    cache_lines,
    counted,
    label,
    losses,
    model_lines,
    row_cells,
    row_head,
    run_heading,
    shared_prefix,
    shown_rows,
)
from .svg import CHAR, COLUMNS, INSIDE, LINE, ColouredText, columns, fitted, tag, text_at, wrap
from .workers_svg import draw_workers

PREFIX_LINES = 6
"""Maximum lines of a batch's common prefix."""
CELLS = {"#": 28, "cached": 622, "prompt": 684, "new": 738, "time": INSIDE}
"""Right ends of the columns of a batch table; arguments and answer take the space after the first
column."""
AGAIN = 62
"""Width of the additional column "again" in pixels. The column "cached" moves left."""
ARGUMENTS_X, ANSWER_X, ANSWER_END = 40, 236, 560
"""Pixels; without arguments the answer starts at `ARGUMENTS_X`."""


def draw_run(state: RunState, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
    """Draw a run: heading, metrics, legend, images, and the text of the branches or the rows of a
    batch.

    Args:
        state: State of the run.
        rows: Maximum lines of text, or rows of a batch.
        thumbnails: Pictures of the document.

    Returns:
        SVG elements, and the height in pixels.
    """
    gain = state.metrics.gain()
    style = "g" if state.metrics.cached_tokens else "m"
    heads = [(run_heading(state), "h"), *([(gain, style)] if gain else [])]
    lines = *cache_lines(state), state.line(), state.time.line()
    heads += [(line, "m") for text in lines for line in text.splitlines()]
    heads += [(line, "m") for line in (*state.stops.lines(), *model_lines(state), *losses(state))]
    out, y = [], 0.0
    for text, style in heads:
        out.append(text_at(0, y + 12, label(text, 120), style))
        y += 18
    out.append(_legend(state, y))
    y += LINE + 8
    strip, height = draw_strip(state, thumbnails)
    out.append(tag("g", strip, transform=f"translate(0 {y:.0f})") if strip else "")
    y += height
    drawings = (
        [_rows(state, rows)] if state.is_batch else [_passages(state, rows), draw_lanes(state)]
    )
    drawings.append(draw_workers(state, rows))
    for body, height in drawings:
        out.append(tag("g", body, transform=f"translate(0 {y:.0f})") if body else "")
        y += height
    return "".join(out), y


def _passages(state: RunState, rows: int) -> tuple[str, float]:
    """Draw the text of a run's branches; return body and height."""
    out, y = [], 0.0
    passages = [passage for passage in state.passages() if passage.segments]
    for branch, segments, _ in passages:
        if len(passages) > 1:
            out.append(text_at(0, y + 12, branch.name, "m"))
            y += LINE
        body, height = _wrapped(with_chips(state, segments), max(2, rows // len(passages)))
        out.append(tag("g", body, transform=f"translate(0 {y:.0f})"))
        y += height + 6

    if state.hidden:
        more = f"and {state.hidden} more branches, counted but not shown"
        out.append(text_at(0, y + 12, more, "m"))
        y += LINE
    return "".join(out), y


def _wrapped(segments: Sequence[Sequence[str]], limit: int) -> tuple[str, float]:
    """Draw at most `limit` lines of coloured text: the beginning, and more of the end, because the
    answer is there. Return body and height."""
    lines = list(wrap(with_marks(segments), COLUMNS))
    left_out = max(0, len(lines) - limit)
    head = limit // 3 if left_out else len(lines)
    out, y = [], 0.0
    for line in lines[:head]:
        out.append(_line(line, y))
        y += LINE + 3

    if left_out:
        out.append(text_at(0, y + 12, f"… {counted(left_out, 'more line')}", "m"))
        y += LINE

    for line in lines[head + left_out :]:
        out.append(_line(line, y))
        y += LINE + 3
    return "".join(out), y


def _rows(state: RunState, rows: int) -> tuple[str, float]:
    """Draw a batch as a table with the common prefix below; return body and height."""
    shown = shown_rows(state, rows)
    called = any(row.arguments for row in shown)
    at = ANSWER_X if called else ARGUMENTS_X
    ends, answer_end = CELLS, ANSWER_END
    if "again" in row_head(state):
        at_cached = CELLS["cached"]
        ends = {**CELLS, "cached": at_cached - AGAIN, "again": at_cached}
        answer_end -= AGAIN

    out = [text_at(x, 12, name, "r") for name, x in ends.items()]
    out.append(text_at(at, 12, "answer", "m"))
    out += [text_at(ARGUMENTS_X, 12, "arguments", "m")] if called else []
    y = float(LINE)
    for row in shown:
        cells = row_cells(row)
        out.append(tag("path", class_="l", d=f"M0 {y - 2:.0f}h{INSIDE}"))
        answer = fitted(cells["answer"], int((answer_end - at) / CHAR))
        out.append(text_at(at, y + 13, answer, "x" if row.error else ""))
        if called:
            room = int((ANSWER_X - ARGUMENTS_X) / CHAR) - 1
            out.append(text_at(ARGUMENTS_X, y + 13, fitted(cells["arguments"], room), ""))
        out += [text_at(x, y + 13, cells[name], "r") for name, x in ends.items() if cells[name]]
        y += LINE + 2

    if len(state.rows) > rows:
        out.append(text_at(40, y + 12, f"… {counted(len(state.rows) - rows, 'more row')}", "m"))
        y += LINE

    prefix = shared_prefix(state)
    if prefix:
        out.append(text_at(0, y + 18, "every row begins with", "m"))
        body, height = _wrapped(with_chips(state, prefix), PREFIX_LINES)
        out.append(tag("g", body, transform=f"translate(0 {y + 24:.0f})"))
        y += 24 + height

    return "".join(out), y


def _legend(state: RunState, y: float) -> str:
    counts = state.metrics.by_kind().items()
    items = [(kind, f" {KIND_NAMES.get(kind, kind)} {count} ") for kind, count in counts]
    body = "".join(_line([item], y, 170 * i) for i, item in enumerate(items))
    return tag("g", body, class_="i") if body else ""


def _line(runs: Sequence[ColouredText], y: float, x: float = 0) -> str:
    """Draw text runs in a row with forced widths, to align marks and letters in any font."""
    out = []
    for whole, text in runs:
        width = columns(text) * CHAR
        kind = whole.partition(" ")[0] + " other" * bool(letter_of(whole))
        if kind != "text":
            line = f"M{x:.1f} {y + LINE - 2:.1f}h{width:.1f}"
            out.append(tag("rect", class_=kind, x=x, y=y, width=width, height=LINE - 2))
            out.append(tag("path", class_=f"u {kind}", d=line))
        out.append(tag("text", escape(text), x=x, y=y + 13, textLength=width))
        x += width
    return "".join(out)
