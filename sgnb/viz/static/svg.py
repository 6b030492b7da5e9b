"""States as a static SVG picture with the colours and marks of the live views. Escapes all text.
Needs no browser."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from ..state.metrics import KIND_NAMES
from ..state.models import with_marks
from ..state.run import RunState
from ..state.tokens import visible, visible_segments
from ..state.tree import ROOT, Node, TreeState
from .plain_text import (
    Shown,
    counted,
    in_line,
    label,
    losses,
    model_lines,
    row_cells,
    row_head,
    run_heading,
    shared_prefix,
    shown_rows,
    tree_heading,
)
from .timeline import draw

WIDTH = 860
COLUMNS, CHAR, LINE, MARGIN = 104, 7.8, 19, 18
INSIDE = WIDTH - 2 * MARGIN
PREFIX_LINES = 6
"""Maximum lines of a batch's common prefix."""
CELLS = {"#": 28, "cached": 622, "prompt": 684, "new": 738, "time": INSIDE}
"""Right ends of the columns of a batch table; arguments and answer take the space after the first
column."""
AGAIN = 62
"""Width of the additional column "again" in pixels, at the place of "cached"; "cached" moves left.
"""
ARGUMENTS_X, ANSWER_X, ANSWER_END = 40, 236, 560
"""Pixels; without arguments the answer starts at `ARGUMENTS_X`."""

# Tree dimensions, equal to `page/tree.js`:
LOWEST, HIGHEST, TALL = 22, 44, 300
"""Pixels: minimum and maximum row height, and the target height of all rows."""
SHORTEST = 12
"""Minimum length of a node in pixels."""
LETTER, LABEL_LINE = 6.65, 15
NARROW = 6
"""Minimum letters for horizontal text; narrower nodes have vertical text."""
BREAK = 10
"""Width of the break mark at the end of a shortened node, in pixels."""
MARK = 14
"""Width of the checkpoint mark next to a label, in pixels."""

STYLE = """
text{white-space:pre;font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#1f2328}
.h{font:600 13px system-ui,sans-serif}.m,.g,.r{font:12px system-ui,sans-serif;fill:#57606a}
.g{fill:#00724f;font-weight:500}.r{text-anchor:end}.x{fill:#c0392b}
.cached{fill:#009e7333}.computed{fill:#e69f0033}.sampled{fill:#0072b22e}.jumped{fill:#b8568f2e}
.again{fill:#e69f0018}.sampled.other{fill:#6f42c12e}
.text{fill:none}.model{fill:#1f2328;stroke:#1f2328}.model+path+text{fill:#fff;font-weight:700}
.u{stroke-width:2;fill:none}.u.cached{stroke:#009e73;stroke-dasharray:2 2}
.u.computed{stroke:#c98a00;stroke-dasharray:7 3}.u.again{stroke:#c98a00;stroke-dasharray:2 5}
.u.sampled{stroke:#0072b2}.u.sampled.other{stroke:#6f42c1}
.u.jumped{stroke:#b8568f;stroke-dasharray:10 2 2 2}.u.text{stroke:none}
.l{stroke:#d8dee4}
.n{stroke:#8c959f;fill:#8c959f18}.n.f{stroke:#009e73;fill:#009e7333}.n.o{stroke:#c98a00;fill:#e69f0033}
.n.k{stroke:#1f2328;stroke-width:2}.n.h{stroke:#1f2328;stroke-dasharray:3 2}
.q{fill:#1f2328;stroke:#fff}
.s{fill:#c98a00}.z{fill:#fff}.v{stroke:#57606a;fill:none}
.b{font-size:11px}.c{font-size:11px;fill:#57606a}
.w{fill:#8c959f59}.p{fill:#c98a00}.d{fill:#0072b2bf}.j{stroke:#b8568f;stroke-width:2}
.e{stroke:#8c959f;stroke-dasharray:2 3}
"""

Run = tuple[str, str]
"""Kind and text without line breaks."""


def picture(states: Sequence[Shown], rows: int, name: str) -> str:
    """Draw states as an SVG document, `WIDTH` pixels wide.

    Args:
        states: States to draw.
        rows: Maximum lines of text and rows of a batch; half of `rows` limits the leaves of the
            tree.
        name: CSS class of the document.
    """
    parts, y = [], float(MARGIN)
    runs = [state for state in states if isinstance(state, RunState)]
    for state in states:
        if isinstance(state, RunState):
            body, height = _run(state, rows)
        elif isinstance(state, TreeState):
            body, height = _tree(state, runs[-1] if runs else None, rows)
        else:
            shapes, height = draw(state, INSIDE)
            body = "".join(
                tag(n, escape(visible(text)), **attributes) for n, attributes, text in shapes
            )
        parts.append(tag("g", body, transform=f"translate({MARGIN} {y:.0f})"))
        y += height + MARGIN
    card = tag("rect", class_="l", fill="#fff", x=0.5, y=0.5, width=WIDTH - 1, height=y - 1, rx=8)
    return tag(
        "svg",
        tag("style", STYLE) + card + "".join(parts),
        class_=name,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {y:.0f}",
        width=WIDTH,
        height=f"{y:.0f}",
    )


def tag(name: str, body: str = "", **attributes: str | float) -> str:
    """Return an XML element.

    Args:
        name: Tag name.
        body: Markup inside the element.
        attributes: Attributes, escaped; `class_` becomes `class`.
    """
    head = name
    for key, value in attributes.items():
        text = f"{value:.5g}" if isinstance(value, float) else str(value)
        head += f" {key.rstrip('_')}='{escape(text, {chr(39): '&apos;'})}'"
    return f"<{head}>{body}</{name}>" if body else f"<{head}/>"


def _run(state: RunState, rows: int) -> tuple[str, float]:
    """Draw a run; return body and height."""
    gain = state.gain()
    style = "g" if state.figures.cached_tokens else "m"
    heads = [(run_heading(state), "h"), *([(gain, style)] if gain else []), (state.line(), "m")]
    heads += [(line, "m") for line in (*model_lines(state), *losses(state))]
    out, y = [], 0.0
    for text, style in heads:
        out.append(text_at(0, y + 12, label(text, 120), style))
        y += 18
    out.append(_legend(state, y))
    y += LINE + 8
    body, height = _rows(state, rows) if state.is_batch else _passages(state, rows)
    return "".join(out) + tag("g", body, transform=f"translate(0 {y:.0f})"), y + height


def _passages(state: RunState, rows: int) -> tuple[str, float]:
    """Draw the text of a run's branches; return body and height."""
    out, y = [], 0.0
    passages = [passage for passage in state.passages() if passage.segments]
    for branch, segments, _ in passages:
        if len(passages) > 1:
            out.append(text_at(0, y + 12, branch.name, "m"))
            y += LINE
        body, height = _wrapped(segments, max(2, rows // len(passages)))
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
        answer = _fitted(cells["answer"], int((answer_end - at) / CHAR))
        out.append(text_at(at, y + 13, answer, "x" if row.error else ""))
        if called:
            room = int((ANSWER_X - ARGUMENTS_X) / CHAR) - 1
            out.append(text_at(ARGUMENTS_X, y + 13, _fitted(cells["arguments"], room), ""))
        out += [text_at(x, y + 13, cells[name], "r") for name, x in ends.items() if cells[name]]
        y += LINE + 2
    if len(state.rows) > rows:
        out.append(text_at(40, y + 12, f"… {counted(len(state.rows) - rows, 'more row')}", "m"))
        y += LINE
    prefix = shared_prefix(state)
    if prefix:
        out.append(text_at(0, y + 18, "every row begins with", "m"))
        body, height = _wrapped(prefix, PREFIX_LINES)
        out.append(tag("g", body, transform=f"translate(0 {y + 24:.0f})"))
        y += 24 + height
    return "".join(out), y


def _legend(state: RunState, y: float) -> str:
    counts = state.figures.by_kind().items()
    items = [(kind, f" {KIND_NAMES.get(kind, kind)} {count} ") for kind, count in counts]
    return "".join(_line([item], y, 170 * i) for i, item in enumerate(items))


def _line(runs: Sequence[Run], y: float, x: float = 0) -> str:
    """Draw text runs in a row with forced widths, to align marks and letters in any font."""
    out = []
    for whole, text in runs:
        width = columns(text) * CHAR
        kind, _, letter = whole.partition(" ")
        kind += " other" * bool(letter)
        out += [
            tag("rect", class_=kind, x=x, y=y, width=width, height=LINE - 2),
            tag("path", class_=f"u {kind}", d=f"M{x:.1f} {y + LINE - 2:.1f}h{width:.1f}"),
            tag("text", escape(text), x=x, y=y + 13, textLength=width),
        ]
        x += width
    return "".join(out)


def text_at(x: float, y: float, text: str, style: str) -> str:
    return tag("text", escape(visible(text)), **({"class_": style} if style else {}), x=x, y=y)


def columns(text: str) -> int:
    """Return the width of a text in cells of a fixed-width font."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def wrap(segments: Sequence[Sequence[str]], width: int) -> Iterator[list[Run]]:
    """Wrap coloured text to lines of at most `width` cells, preferably at spaces."""
    line: list[Run] = []
    used = 0
    for kind, text in visible_segments(segments):
        for i, piece in enumerate(text.expandtabs(4).split("\n")):
            if i:
                yield line
                line, used = [], 0
            while columns(piece) > width - used:
                cut = _break(piece, width - used)
                if cut == 0 and not used:
                    cut = 1  # character wider than the line
                yield [*line, (kind, piece[:cut])] if cut else line
                line, used, piece = [], 0, piece[cut:]
            if piece:
                line.append((kind, piece))
                used += columns(piece)
    if line:
        yield line


def _break(piece: str, room: int) -> int:
    """Return the number of characters within `room` cells, up to the last space if close."""
    cut = len(piece[:room])
    while columns(piece[:cut]) > room:
        cut -= 1
    space = piece.rfind(" ", 0, cut) + 1
    return space if space > cut * 0.6 else cut


def _fitted(text: str, room: int) -> str:
    """Shorten a text to `room` cells."""
    if columns(text) <= room:
        return text
    cut = len(text[:room])
    while columns(text[:cut]) >= room:
        cut -= 1
    return text[:cut] + "…"


class Box(NamedTuple):
    """A node of the icicle, in pixels except for rows."""

    x: float
    width: float
    row: int
    rows: int


def _tree(tree: TreeState, run: RunState | None, leaves: int) -> tuple[str, float]:
    """Draw the radix tree as an icicle; return body and height."""
    out = [text_at(0, 12, label(tree_heading(tree, run), 110), "h")]
    node_ids = shown_nodes(tree, run, max(1, leaves // 2))
    if not node_ids:
        return "".join(out), 20
    order = list(_in_order(tree, run))
    hidden = _hidden(order, node_ids)
    boxes, cap, scale = layout([node for node in order if node.id in node_ids], INSIDE)
    count = sum(box.rows for node, box in boxes.items() if tree.nodes[node].parent == ROOT)
    row = max(LOWEST, min(HIGHEST, TALL / count))
    pinned = tree.pinned()
    for number, box in boxes.items():
        node, pins = tree.nodes[number], pinned[number]
        frame = " k" if node.locks > pins else " h" if pins else ""
        out.append(_node(tree, node, run, box, row, cap, hidden[number], frame))
    y = 26 + count * row
    legend, height = _tree_legend(tree, run, cap, scale, len(node_ids))
    return "".join(out) + tag("g", legend, transform=f"translate(0 {y:.0f})"), y + height


def _in_order(tree: TreeState, run: RunState | None) -> Iterator[Node]:
    """Yield every node except the root, parents first; nodes of the run precede siblings."""
    stack = [tree.root]
    while stack:
        node = stack.pop()
        if node.id != ROOT:
            yield node
        children = sorted(tree.children(node), key=lambda child: not _own(child, run))
        stack += children[::-1]


def shown_nodes(tree: TreeState, run: RunState | None, leaves: int) -> set[int]:
    """Return the nodes on the paths to `leaves` leaves: leaves created or hit by the run, and the
    most recently used leaves."""
    ends = [node for node in tree.nodes.values() if node.id != ROOT and not node.children]
    ends.sort(key=lambda node: (_own(node, run), node.tick), reverse=True)
    node_ids: set[int] = set()
    for node in ends[:leaves]:
        while node.id != ROOT and node.id not in node_ids:
            node_ids.add(node.id)
            node = tree.nodes[node.parent]
    return node_ids


def _made(node: Node, run: RunState | None) -> bool:
    return run is not None and node.made_by == run.run


def _found(node: Node, run: RunState | None) -> bool:
    return run is not None and run.began is not None and node.found >= run.began


def _own(node: Node, run: RunState | None) -> bool:
    return _made(node, run) or _found(node, run)


def _hidden(nodes: Sequence[Node], shown: set[int]) -> Counter[int]:
    """Count the hidden nodes below each shown node. `nodes` are ordered parents first."""
    hidden = Counter[int]()
    above = {ROOT: ROOT}
    for node in nodes:
        above[node.id] = node.id if node.id in shown else above[node.parent]
        hidden[above[node.id]] += node.id not in shown
    return hidden


def layout(nodes: Sequence[Node], width: float) -> tuple[dict[int, Box], int, float]:
    """Compute the layout of an icicle.

    Args:
        nodes: Shown nodes, parents first and siblings in order.
        width: Width of the drawing in pixels.

    Returns:
        Box per node, the maximum length with linear scale in tokens, and pixels per token.
    """
    spans: dict[int, tuple[int, int]] = {}
    inner = {node.parent for node in nodes}
    ends = [node.id for node in nodes if node.id not in inner]
    for row, number in enumerate(ends):
        spans[number] = row, 1
    for node in reversed(nodes):
        first, last = spans.get(node.parent, spans[node.id]), spans[node.id]
        start = min(first[0], last[0])
        spans[node.parent] = start, max(sum(first), sum(last)) - start

    def place(cap: int, unit: float, least: float) -> tuple[dict[int, tuple[float, float]], float]:
        placed: dict[int, tuple[float, float]] = {}
        for node in nodes:
            x = sum(placed.get(node.parent, (0.0, 0.0)))
            placed[node.id] = x, max(least, min(len(node.tokens), cap) * unit)
        return placed, max(map(sum, placed.values()))

    cap = max(len(node.tokens) for node in nodes)
    while cap > 8 and place(cap, 1, 0)[1] > width / 5:
        cap = max(8, cap // 2)
    scale = min(10, width / place(cap, 1, 0)[1])
    placed, right = place(cap, scale, SHORTEST)
    fit = min(1, width / right)  # many short nodes in a chain
    boxes = {id: Box(x * fit, w * fit, *spans[id]) for id, (x, w) in placed.items()}
    return boxes, cap, scale * fit


def _node(
    tree: TreeState,
    node: Node,
    run: RunState | None,
    box: Box,
    row: float,
    cap: int,
    hidden: int,
    frame: str,
) -> str:
    """Draw a node: wrapped text, then length and number of hidden nodes. `frame` is the CSS class
    of a locked or pinned node."""
    y, tall = 24 + box.row * row, box.rows * row - 3
    is_made, is_hit = _made(node, run), _found(node, run)
    style = "n" + " f" * is_hit + " o" * (is_made and not is_hit) + frame
    out = [tag("rect", class_=style, x=box.x + 0.5, y=y, width=box.width - 1.5, height=tall)]
    if is_made:
        out.append(tag("rect", class_="s", x=box.x + 1, y=y, width=3, height=tall))
    broken = len(node.tokens) > cap
    if broken:
        x = box.x + box.width - BREAK
        out.append(tag("path", class_="z", d=f"M{x:.1f} {y - 1:.1f}h5v{tall + 2:.1f}h-5z"))
        edges = f"M{x:.1f} {y - 1:.1f}v{tall + 2:.1f}m5 0v-{tall + 2:.1f}"
        out.append(tag("path", class_="v", d=edges))
    if node.checkpoint:
        at = box.x + box.width - 7 - BREAK * broken
        out.append(_diamond(max(at, box.x + 5), y + tall - 8))
    count = (
        f"{len(node.tokens)}" + f" · found {node.hits}×" * is_hit + f" · +{hidden}" * (hidden > 0)
    )
    has_count_line = tall >= 2 * LABEL_LINE  # separate line for the count
    room, mark = box.width - BREAK * broken, MARK * node.checkpoint
    letters = int((room - 11 - mark * (not has_count_line)) / LETTER)
    if letters < NARROW and letters * LETTER < tall / 2:
        turned = int((tall - 8 - mark * (room < LABEL_LINE + MARK)) / LETTER)
        if room > LABEL_LINE and turned > 1:
            text = _fitted(_text_of(tree, node, turned), turned)
            out.append(
                _small(box.x + 8, y + 5, text, "b", f"rotate(90 {box.x + 8:.1f} {y + 5:.1f})")
            )
        return "".join(out)
    lines = max(1, int(tall / LABEL_LINE) - has_count_line)
    aside = 0 if has_count_line or letters < len(count) + 8 else len(count) + 2
    width = letters - aside
    if width > 1:
        text = _text_of(tree, node, lines * width)
        top = y + 12 + (0 if has_count_line else (tall - LABEL_LINE) / 2)
        for i, start in enumerate(range(0, len(text), width)):
            line = _fitted(text[start : start + width], width)
            out.append(_small(box.x + 7, top + LABEL_LINE * i, line, "b"))
    if aside:
        out.append(_small(box.x + 7 + LETTER * (width + 2), y + tall / 2 + 4, count, "c"))
    elif has_count_line and (room - 11 - mark) / LETTER >= len(count):
        out.append(_small(box.x + 7, y + tall - 5, count, "c"))
    return "".join(out)


def _diamond(x: float, y: float) -> str:
    """Draw a checkpoint mark around a point."""
    return tag("path", class_="q", d=f"M{x - 4.5:.1f} {y:.1f}l4.5 -5 4.5 5 -4.5 5z")


def _text_of(tree: TreeState, node: Node, limit: int) -> str:
    return in_line(tree.vocabulary.text(node.tokens[: limit + 1]), limit)


def _small(x: float, y: float, text: str, style: str, transform: str = "") -> str:
    """Draw text with forced width, to stay inside the node in any font."""
    width = columns(text) * LETTER
    turn = {"transform": transform} if transform else {}
    return tag("text", escape(text), class_=style, x=x, y=y, textLength=width, **turn)


def _tree_legend(
    tree: TreeState, run: RunState | None, cap: int, scale: float, shown: int
) -> tuple[str, float]:
    """Draw the legend of lengths, colours and marks, and the number of hidden nodes; return body
    and height."""
    out, x = [], 0
    kinds = [("n f", "found since the run began"), ("n o", "made by this run"), ("n", "neither")]
    marks = [("n k", "in use"), *([("n h", "pinned")] if tree.pins else [])]
    for style, text in [*(kinds if run is not None else []), *marks]:
        out.append(tag("rect", class_=style, x=x + 1, y=4, width=16, height=10))
        if style == "n o":
            out.append(tag("rect", class_="s", x=x + 1, y=4, width=3, height=10))
        out.append(text_at(x + 24, 13, text, "m"))
        x += 44 + 6 * len(text)
    length = max(1, round(60 / scale))
    out.append(tag("path", class_="v", d=f"M{x} 5v8m0 -4h{length * scale:.1f}m0 -4v8"))
    linear = f"{counted(length, 'token')}"
    if any(len(node.tokens) > cap for node in tree.nodes.values()):
        linear += f"; a broken node is longer than {cap}"
    out.append(text_at(x + length * scale + 8, 13, linear, "m"))
    height = 18
    if tree.engine is not None and tree.engine.states:
        out.append(_diamond(9, height + 10))
        out.append(text_at(24, height + 14, "checkpoint: a request can go on from its end", "m"))
        height += 18
    more = len(tree.nodes) - 1 - shown
    if more:
        folded = f"{counted(more, 'more node')} not drawn; +N says how many below a node"
        out.append(text_at(0, height + 14, folded, "m"))
        height += 18
    return "".join(out), height
