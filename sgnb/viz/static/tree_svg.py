"""Drawing of a radix tree as an icicle in SVG, equal to the page's drawing (`page/tree.js`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from ...events import MediaNamed
from ..state.copied_blocks import WHERE
from ..state.residency import with_copies
from ..state.run_state import RunState
from ..state.tree import ROOT, TreeNode, TreeState
from .media_svg import Thumbnails
from .plain_text import counted, in_line, label, tree_heading
from .svg import COPY_STYLE, INSIDE, LETTER, columns, fitted, tag, text_at, wrap_label

# Tree dimensions, equal to `page/tree.js`:
LOWEST, HIGHEST, TALL = 22, 44, 300
"""Pixels: minimum and maximum row height, and the target height of all rows."""
SHORTEST = 12
"""Minimum length of a node in pixels."""
LABEL_LINE = 15
NARROW = 6
"""Minimum letters for horizontal text; narrower nodes have vertical text."""
LEAST_THUMBNAIL, THUMBNAIL = 12, 40
"""Minimum and maximum size of a thumbnail in a node, in pixels."""
MARK = 14
"""Width of the checkpoint mark next to a label, in pixels."""
COPY_BAR = 3
"""Height of a bar of copies, in pixels; equal to the stroke width in the style sheet."""

LOGARITHMIC = "widths grow with the logarithm of the tokens"

Extent = tuple[float, float]
"""Start and width of a node."""


class Box(NamedTuple):
    """A node of the icicle, in pixels except for rows."""

    x: float
    width: float
    row: int
    rows: int


def draw_tree(
    tree: TreeState, run: RunState | None, rows: int, thumbnails: Thumbnails
) -> tuple[str, float]:
    """Draw the radix tree as an icicle.

    Args:
        tree: State of the tree.
        run: Run whose nodes are highlighted, or None.
        rows: Limit on the size: `rows // 2` leaves.
        thumbnails: Pictures of the document.

    Returns:
        SVG elements, and the height in pixels.
    """
    out = [text_at(0, 12, label(tree_heading(tree, run), 110), "h")]
    shown, tree = tree, with_copies(tree)
    out += [tag("style", COPY_STYLE)] * (tree is not shown)
    node_ids = shown_nodes(tree, run, max(1, rows // 2))
    if not node_ids:
        return "".join(out), 20
    order = list(_in_order(tree, run))
    hidden = _hidden(order, node_ids)
    boxes, is_linear, scale = layout([node for node in order if node.id in node_ids], INSIDE)
    count = sum(box.rows for node, box in boxes.items() if tree.nodes[node].parent == ROOT)
    row = max(LOWEST, min(HIGHEST, TALL / count))
    pinned = tree.pinned()
    for number, box in boxes.items():
        node, pins = tree.nodes[number], pinned[number]
        frame = " k" if node.locks > pins else " h" if pins else ""
        drawn = _node(tree, node, run, box, row, hidden[number], frame)
        drawn += _copies(node, box, row)
        out.append(drawn + _thumbnail(tree, node, box, row, thumbnails))

    y = 26 + count * row
    legend, height = _tree_legend(tree, run, scale if is_linear else None, len(node_ids))
    return "".join(out) + tag("g", legend, transform=f"translate(0 {y:.0f})"), y + height


def _in_order(tree: TreeState, run: RunState | None) -> Iterator[TreeNode]:
    """Yield every node except the root, parents first; nodes of the run precede siblings."""
    stack = [tree.root]
    while stack:
        node = stack.pop()
        if node.id != ROOT:
            yield node
        children = sorted(tree.children(node), key=lambda child: not _is_of_run(child, run))
        stack += children[::-1]


def shown_nodes(tree: TreeState, run: RunState | None, leaves: int) -> set[int]:
    """Return the nodes on the paths to `leaves` leaves: leaves created or hit by the run, and the
    most recently used leaves."""
    ends = [node for node in tree.nodes.values() if node.id != ROOT and not node.children]
    ends.sort(key=lambda node: (_is_of_run(node, run), node.tick), reverse=True)
    node_ids: set[int] = set()
    for node in ends[:leaves]:
        while node.id != ROOT and node.id not in node_ids:
            node_ids.add(node.id)
            node = tree.nodes[node.parent]
    return node_ids


def _is_new(node: TreeNode, run: RunState | None) -> bool:
    return run is not None and node.made_by == run.run


def _is_hit(node: TreeNode, run: RunState | None) -> bool:
    return run is not None and run.began is not None and node.found >= run.began


def _is_of_run(node: TreeNode, run: RunState | None) -> bool:
    return _is_new(node, run) or _is_hit(node, run)


def _hidden(nodes: Sequence[TreeNode], shown: set[int]) -> Counter[int]:
    """Count the hidden nodes below each shown node. `nodes` are ordered parents first."""
    hidden = Counter[int]()
    above = {ROOT: ROOT}
    for node in nodes:
        above[node.id] = node.id if node.id in shown else above[node.parent]
        hidden[above[node.id]] += node.id not in shown
    return hidden


def layout(nodes: Sequence[TreeNode], width: float) -> tuple[dict[int, Box], bool, float]:
    """Compute the layout of an icicle: a longer node is always wider, above `SHORTEST`.

    Args:
        nodes: Shown nodes, parents first and siblings in order.
        width: Width of the drawing in pixels.

    Returns:
        Box per node; True if widths are linear in tokens, False if they grow with the logarithm;
        and pixels per token or per doubling.
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

    def spread(lengths: dict[int, float], unit: float, least: float) -> dict[int, Extent]:
        extents: dict[int, Extent] = {}
        for node in nodes:
            x = sum(extents.get(node.parent, (0.0, 0.0)))
            extents[node.id] = x, max(least, lengths[node.id] * unit)
        return extents

    def reach(extents: dict[int, Extent]) -> float:
        return max(map(sum, extents.values()))

    lengths = {node.id: float(len(node.tokens)) for node in nodes}
    is_linear = reach(spread(lengths, 1, 0)) <= width / 5
    if not is_linear:
        lengths = {id: math.log2(1 + length) for id, length in lengths.items()}
    scale = min(10 if is_linear else 40, width / reach(spread(lengths, 1, 0)))
    extents = spread(lengths, scale, SHORTEST)
    right = reach(extents)
    fit = min(1, width / right)  # many short nodes in a chain
    boxes = {id: Box(x * fit, w * fit, *spans[id]) for id, (x, w) in extents.items()}
    return boxes, is_linear, scale * fit


def _node(
    tree: TreeState,
    node: TreeNode,
    run: RunState | None,
    box: Box,
    row: float,
    hidden: int,
    frame: str,
) -> str:
    """Draw a node: wrapped text, then length and number of hidden nodes. `frame` is the CSS class
    of a locked or pinned node."""
    y, tall = 24 + box.row * row, box.rows * row - 3
    copies = (COPY_BAR + 1) * len(node.copied)
    is_made, is_hit = _is_new(node, run), _is_hit(node, run)
    style = "n" + " f" * is_hit + " o" * (is_made and not is_hit) + frame + " a" * node.is_outline
    out = [tag("rect", class_=style, x=box.x + 0.5, y=y, width=box.width - 1.5, height=tall)]
    if is_made:
        out.append(tag("rect", class_="s", x=box.x + 1, y=y, width=3, height=tall))
    if node.checkpoint:
        at = box.x + box.width - 7
        out.append(_diamond(max(at, box.x + 5), y + tall - 8))

    count = (
        f"{len(node.tokens)}" + f" · found {node.hits}×" * is_hit + f" · +{hidden}" * (hidden > 0)
    )
    tall -= copies
    has_count_line = tall >= 2 * LABEL_LINE  # separate line for the count
    room, mark = box.width, MARK * node.checkpoint
    letters = int((room - 11 - mark * (not has_count_line)) / LETTER)

    if letters < NARROW and letters * LETTER < tall / 2:
        turned = int((tall - 8 - mark * (room < LABEL_LINE + MARK)) / LETTER)
        if room > LABEL_LINE and turned > 1:
            text = fitted(_text_of(tree, node, turned), turned)
            out.append(
                _small(box.x + 8, y + 5, text, "b", f"rotate(90 {box.x + 8:.1f} {y + 5:.1f})")
            )
        return "".join(out)

    lines = max(1, int(tall / LABEL_LINE) - has_count_line)
    indent = _indent(tree, node, box, tall)
    letters -= int(indent / LETTER)
    aside = 0 if has_count_line or letters < len(count) + 8 else len(count) + 2
    width = letters - aside
    if width > 1:
        text = _text_of(tree, node, 2 * lines * width)
        top = y + 12 + (0 if has_count_line else (tall - LABEL_LINE) / 2)
        for i, line in enumerate(wrap_label(text, width, lines)):
            shortened = fitted(line, width)
            out.append(_small(box.x + 7 + indent, top + LABEL_LINE * i, shortened, "b"))

    if aside:
        out.append(_small(box.x + 7 + indent + LETTER * (width + 2), y + tall / 2 + 4, count, "c"))
    elif has_count_line and (room - indent - 11 - mark) / LETTER >= len(count):
        out.append(_small(box.x + 7 + indent, y + tall - 5, count, "c"))
    return "".join(out)


def _copies(node: TreeNode, box: Box, row: float) -> str:
    """Draw a bar per store at the bottom of a node, as long as the copied part."""
    out, bottom = [], 24 + (box.row + box.rows) * row - 3
    for i, name in enumerate(reversed([name for name in WHERE if name in node.copied])):
        length = (box.width - 3) * node.copied[name] / len(node.tokens)
        y = bottom - COPY_BAR / 2 - i * (COPY_BAR + 1)
        out.append(tag("path", class_=name, d=f"M{box.x + 1:.1f} {y:.1f}h{length:.1f}"))

    return "".join(out)


def _item(tree: TreeState, node: TreeNode) -> MediaNamed | None:
    """Return the first image, video or sound with tokens in the node."""
    spans = tree.token_table.media.spans(node.tokens)
    return next((span.item for span in spans if span.item is not None), None)


def _indent(tree: TreeState, node: TreeNode, box: Box, tall: float) -> float:
    """Return the width of the node's thumbnail with a margin; 0 without a thumbnail."""
    side = int(min(tall - 4, THUMBNAIL, box.width / 3))
    return side + 4.0 if side >= LEAST_THUMBNAIL and _item(tree, node) is not None else 0.0


def _thumbnail(
    tree: TreeState, node: TreeNode, box: Box, row: float, thumbnails: Thumbnails
) -> str:
    tall = box.rows * row - 3
    item, side = _item(tree, node), _indent(tree, node, box, tall) - 4
    if item is None or side <= 0:
        return ""
    return thumbnails.draw(item, box.x + 6, 24 + box.row * row + (tall - side) / 2, side)


def _diamond(x: float, y: float) -> str:
    """Draw a checkpoint mark around a point."""
    return tag("path", class_="q", d=f"M{x - 4.5:.1f} {y:.1f}l4.5 -5 4.5 5 -4.5 5z")


def _text_of(tree: TreeState, node: TreeNode, limit: int) -> str:
    return in_line(tree.label(node, limit), limit)


def _small(x: float, y: float, text: str, style: str, transform: str = "") -> str:
    """Draw text with forced width, to stay inside the node in any font."""
    width = columns(text) * LETTER
    turn = {"transform": transform} if transform else {}
    return tag("text", escape(text), class_=style, x=x, y=y, textLength=width, **turn)


def _tree_legend(
    tree: TreeState, run: RunState | None, scale: float | None, shown: int
) -> tuple[str, float]:
    """Draw the legend of lengths, colours and marks, and the number of hidden nodes; return body
    and height. `scale`: pixels per token, or None for logarithmic widths."""
    out, x = [], 0
    kinds = [("n f", "found since the run began"), ("n o", "made by this run"), ("n", "neither")]
    marks = [("n k", "in use"), *([("n h", "pinned")] if tree.pins else [])]
    for style, text in [*(kinds if run is not None else []), *marks]:
        out.append(tag("rect", class_=style, x=x + 1, y=4, width=16, height=10))
        if style == "n o":
            out.append(tag("rect", class_="s", x=x + 1, y=4, width=3, height=10))
        out.append(text_at(x + 24, 13, text, "m"))
        x += 44 + 6 * len(text)

    height = 18
    if x + 6 * len(LOGARITHMIC) > INSIDE:
        x, height = 0, 36
    y = height - 18
    if scale is None:
        out.append(text_at(x, y + 13, LOGARITHMIC, "m"))
    else:
        length = max(1, round(60 / scale))
        out.append(tag("path", class_="v", d=f"M{x} {y + 5}v8m0 -4h{length * scale:.1f}m0 -4v8"))
        out.append(text_at(x + length * scale + 8, y + 13, counted(length, "token"), "m"))
    if tree.engine is not None and tree.engine.states:
        out.append(_diamond(9, height + 10))
        out.append(text_at(24, height + 14, "checkpoint: a request can resume here", "m"))
        height += 18

    copies, copies_height = _copy_legend(tree, height)
    out.append(copies)
    height += copies_height

    more = len(tree.nodes) - 1 - shown
    if more:
        folded = f"{counted(more, 'more node')} not drawn; +N says how many below a node"
        out.append(text_at(0, height + 14, folded, "m"))
        height += 18

    return "".join(out), height


def _copy_legend(tree: TreeState, y: int) -> tuple[str, int]:
    """Draw the legend of copies and outlines below `y`; return body and height."""
    out, x = [], 0
    for name, count in tree.copies.counts().items():
        text = f"also {WHERE[name]}: {count:,} tokens"
        out.append(tag("path", class_=name, d=f"M{x} {y + 9}h16"))
        out.append(text_at(x + 24, y + 14, text, "m"))
        x += 44 + 6 * len(text)

    if any(node.is_outline for node in tree.nodes.values()):
        out.append(tag("rect", class_="n a", x=x + 1, y=y + 4, width=16, height=10))
        out.append(text_at(x + 24, y + 14, "evicted, with a copy", "m"))
    return "".join(out), 18 * bool(out)
