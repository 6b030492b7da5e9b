"""Draw a graph as a static SVG: a column per stream, a row per step of the longest path. Escapes
all text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from ...errors import printable
from ..ir import Gen, Select, UnreadMedia
from .nodes import Node, ReturnNode
from .placeholders import Argument, Variable

WIDTH, HEIGHT, GAP, STEP, MARGIN = 232, 22, 40, 36, 14
LETTERS = 30
"""Maximum number of characters of a label in a box."""
ROOM, SMALLEST = 840, 0.7
"""Width of a notebook cell in pixels, and the smallest scale for a wider picture."""

STYLE = """
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
rect{fill:#fff;stroke:#8c959f}.card{stroke:#d0d7de}.generated rect{fill:#0072b22e;stroke:#0072b2}
.filled rect{fill:#e69f0033;stroke:#c98a00}
path{fill:none;stroke:#8c959f;stroke-width:1.3}.across{stroke-dasharray:4 3}
"""


def picture(nodes: Sequence[Node], title: str) -> str:
    """Return topologically sorted `nodes` as an SVG with a `title`."""
    drawn = [node for node in nodes if not isinstance(node.op, ReturnNode)]
    columns = {stream: i for i, stream in enumerate(dict.fromkeys(n.stream for n in drawn))}
    rows: dict[int, int] = {}
    for node in drawn:
        rows[node.id] = max((rows[id] + 1 for id in node.dependency_ids if id in rows), default=0)

    def position(node: Node) -> tuple[float, float]:
        return MARGIN + columns[node.stream] * (WIDTH + GAP), MARGIN + rows[node.id] * STEP

    width = 2 * MARGIN + len(columns) * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + (max(rows.values(), default=0) + 1) * STEP
    boxes, lines = [], []
    for node in drawn:
        x, y = position(node)
        boxes.append(_box(node, x, y))
        for i, dependency in enumerate(node.dependencies):
            # otherwise the node's text names the variable
            if i == 0 or dependency.stream != node.stream:
                lines.append(_line(*position(dependency), x, y))

    description = f"The graph of {printable(title)}: {len(drawn)} nodes in {len(columns)} streams"
    scale = max(min(1, ROOM / width), SMALLEST)
    return svg([*lines, *boxes], width, height, description, STYLE, scale)


def svg(
    elements: Iterable[str], width: int, height: int, description: str, style: str, scale: float = 1
) -> str:
    """Return an SVG document of `width` x `height` pixels, displayed at `scale`. A light background
    suits light and dark pages."""
    label = quoteattr(description)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg"'
        f' width="{scale * width:.0f}" height="{scale * height:.0f}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label={label}>'
        f'<style>{style}</style><rect class="card" x="0.5" y="0.5"'
        f' width="{width - 1}" height="{height - 1}" rx="8"/>{"".join(elements)}</svg>'
    )


def _box(node: Node, x: float, y: float) -> str:
    label = node.label()
    short = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
    is_generated = isinstance(node.op, Gen | Select)
    is_filled = isinstance(node.op, Argument | Variable | UnreadMedia)
    kind = "generated" if is_generated else "filled" if is_filled else ""
    return (
        f'<g class="{kind}"><title>{escape(f"{printable(node.program)}: {label}")}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>'
        f'<text x="{x + 7}" y="{y + 15}">{escape(short)}</text></g>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw an edge downwards, or between two columns if the streams differ."""
    if x1 == x2:
        return f'<path d="M{x1 + WIDTH / 2},{y1 + HEIGHT}V{y2}"/>'
    right = x2 > x1
    begin, end = (x1 + WIDTH, x2) if right else (x1, x2 + WIDTH)
    aside = begin + (GAP / 2 if right else -GAP / 2)
    bend = f"M{begin},{y1 + HEIGHT / 2}H{aside}V{y2 + HEIGHT / 2}H{end}"
    return f'<path class="across" d="{bend}"/>'
