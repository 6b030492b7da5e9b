"""States as one still SVG picture, coloured and marked as the live views. Escapes all text."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from .plain_text import Shown, label, run_heading, shown, tree_heading
from .run import RunState
from .tokens import visible, visible_segments
from .tree import ROOT, Node, TreeState

WIDTH = 860
COLUMNS, CHAR, LINE, MARGIN = 104, 7.8, 19, 18
BAR, ROW, STEP = 20, 26, 26
"""Of the tree: a bar's height, the distance of rows, the distance from a bar to its children."""

STYLE = """
text{white-space:pre;font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#1f2328}
.h{font:600 13px system-ui,sans-serif}.m{font:12px system-ui,sans-serif;fill:#57606a}
.cached{fill:#009e7333}.computed{fill:#e69f0033}.sampled{fill:#0072b22e}.jumped{fill:#b8568f2e}
.text{fill:none}
.u{stroke-width:2;fill:none}.u.cached{stroke:#009e73;stroke-dasharray:2 2}
.u.computed{stroke:#c98a00;stroke-dasharray:7 3}.u.sampled{stroke:#0072b2}
.u.jumped{stroke:#b8568f;stroke-dasharray:10 2 2 2}.u.text{stroke:none}
.e{fill:none;stroke:#8c959f}.n{stroke:#009e73}.k{stroke:#1f2328;stroke-width:2.5}
.b{font-size:11px}.c{text-anchor:end;opacity:.7}
"""

Run = tuple[str, str]
"""A kind and a piece of text without line breaks."""


def picture(states: Sequence[Shown], rows: int) -> tuple[str, int]:
    """An SVG document and its width in pixels, at least `WIDTH`.

    `rows` bounds the lines of text and the nodes of the tree.
    """
    parts, y, width = [], float(MARGIN), float(WIDTH)
    for state in states:
        drawn = _run(state, rows) if isinstance(state, RunState) else _tree(state, rows)
        body, height, needed = drawn
        parts.append(_tag("g", body, transform=f"translate({MARGIN} {y:.0f})"))
        y += height + MARGIN
        width = max(width, needed + 2 * MARGIN)
    card = _tag("rect", width=width, height=y, rx=8, fill="#fff")
    body = _tag("style", STYLE) + card + "".join(parts)
    view = f"0 0 {width:.0f} {y:.0f}"
    return _tag("svg", body, xmlns="http://www.w3.org/2000/svg", viewBox=view), math.ceil(width)


def _tag(name: str, body: str = "", **attributes: str | float) -> str:
    """An element around a `body` of markup. Attributes are escaped; `class_` is `class`."""
    head = name
    for key, value in attributes.items():
        text = f"{value:.5g}" if isinstance(value, float) else str(value)
        head += f" {key.rstrip('_')}={quoteattr(text)}"
    return f"<{head}>{body}</{name}>"


def _run(state: RunState, rows: int) -> tuple[str, float, float]:
    """The body, its height and its width."""
    out = [_text(0, 12, label(run_heading(state), 110), "h"), _text(0, 30, state.line(), "m")]
    out.append(_legend(state))
    y = 62.0
    passages = [passage for passage in state.passages() if passage.segments]
    for branch, segments, _ in passages:
        if len(passages) > 1:
            out.append(_text(0, y + 12, branch.name, "m"))
            y += LINE
        lines = list(wrap(segments, COLUMNS))
        room = max(2, rows // len(passages))
        for line in lines[:room]:
            out.append(_line(line, y))
            y += LINE + 3
        if len(lines) > room:
            out.append(_text(0, y + 12, f"… {len(lines) - room} more lines", "m"))
            y += LINE
        y += 6
    if state.hidden:
        more = f"and {state.hidden} more branches, counted but not shown"
        out.append(_text(0, y + 12, more, "m"))
        y += LINE
    return "".join(out), y, WIDTH - 2 * MARGIN


def _legend(state: RunState) -> str:
    counts = enumerate(state.figures.by_kind().items())
    return "".join(_line([(kind, f" {kind} {n} ")], 38, 170 * i) for i, (kind, n) in counts)


def _line(runs: Sequence[Run], y: float, x: float = 0) -> str:
    """Runs side by side, their widths forced, so that marks and letters agree in any font."""
    out = []
    for kind, text in runs:
        width = columns(text) * CHAR
        out += [
            _tag("rect", class_=kind, x=x, y=y, width=width, height=LINE - 2),
            _tag("path", class_=f"u {kind}", d=f"M{x:.1f} {y + LINE - 2:.1f}h{width:.1f}"),
            _tag("text", escape(text), x=x, y=y + 13, textLength=width),
        ]
        x += width
    return "".join(out)


def _text(x: float, y: float, text: str, style: str) -> str:
    return _tag("text", escape(visible(text)), class_=style, x=x, y=y)


def columns(text: str) -> int:
    """The cells that a text takes in a fixed-width font."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def wrap(segments: Sequence[Sequence[str]], width: int) -> Iterator[list[Run]]:
    """Wrap coloured text to lines of at most `width` cells, at spaces where there are any."""
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
                    cut = 1  # a character wider than the line
                yield [*line, (kind, piece[:cut])] if cut else line
                line, used, piece = [], 0, piece[cut:]
            if piece:
                line.append((kind, piece))
                used += columns(piece)
    if line:
        yield line


def _break(piece: str, room: int) -> int:
    """Characters of `piece` that fit `room` cells, up to the last space if that is near."""
    cut = len(piece[:room])
    while columns(piece[:cut]) > room:
        cut -= 1
    space = piece.rfind(" ", 0, cut) + 1
    return space if space > cut * 0.6 else cut


def _tree(tree: TreeState, rows: int) -> tuple[str, float, float]:
    """The body, its height and its width."""
    kept, hidden = shown(tree, rows)
    out = [_text(0, 12, tree_heading(tree), "h")]
    at = _layout(tree, kept, hidden)
    ticks = sorted({tree.nodes[node].tick for node in kept if node != ROOT})
    newest = {tick: i for i, tick in enumerate(ticks)}
    bottom = right = 0.0
    for node_id, (x, y, width) in at.items():
        node = tree.nodes[node_id]
        recency = newest[node.tick] / max(1, len(newest) - 1)
        out += [_edge(at.get(node.parent), x, y), _bar(tree, node, x, y, width, recency)]
        if hidden[node_id]:
            out.append(_text(x + width + 8, y + 14, f"+{hidden[node_id]} more", "m"))
        bottom, right = max(bottom, y), max(right, x + width + 70 * bool(hidden[node_id]))
    if hidden[ROOT]:
        bottom += ROW
        out.append(_text(0, bottom + 14, f"+{hidden[ROOT]} more", "m"))
    return "".join(out), bottom + ROW, right


def _layout(
    tree: TreeState, kept: set[int], hidden: dict[int, int]
) -> dict[int, tuple[float, float, float]]:
    """x, y and width of every shown node: a row for each leaf, parents between their children."""
    at: dict[int, tuple[float, float, float]] = {}
    y = 26.0
    stack = [(node, 0.0, False) for node in reversed(tree.children(tree.root)) if node.id in kept]
    while stack:
        node, x, done = stack.pop()
        width = 84 + 24 * math.log2(1 + len(node.tokens))
        children = [child for child in tree.children(node) if child.id in kept]
        if done:
            first, last = at[children[0].id][1], at[children[-1].id][1]
            at[node.id] = (x, (first + last) / 2, width)
        elif children:
            stack.append((node, x, True))
            stack += [(child, x + width + STEP, False) for child in reversed(children)]
        else:
            at[node.id] = (x, y, width)
            y += ROW
    return at


def _edge(parent: tuple[float, float, float] | None, x: float, y: float) -> str:
    if parent is None:
        return ""
    x0, y0, y1 = parent[0] + parent[2], parent[1] + BAR / 2, y + BAR / 2
    h = (x0 + x) / 2
    curve = f"M{x0:.1f} {y0:.1f}C{h:.1f} {y0:.1f} {h:.1f} {y1:.1f} {x:.1f} {y1:.1f}"
    return _tag("path", class_="e", d=curve)


def _bar(tree: TreeState, node: Node, x: float, y: float, width: float, recency: float) -> str:
    count = str(len(node.tokens))
    room = max(1, int((width - 22) / 6.7) - len(count))
    style = f"fill:#009e73;fill-opacity:{0.08 + 0.42 * recency:.2f}"
    kind = "n k" if node.locks else "n"
    rect = _tag("rect", class_=kind, x=x, y=y, width=width, height=BAR, rx=5, style=style)
    words = escape(label(tree.text(node).lstrip(" "), room))
    text = _tag("text", words, class_="b", x=x + 8, y=y + 14)
    return rect + text + _tag("text", count, class_="b c", x=x + width - 8, y=y + 14)
