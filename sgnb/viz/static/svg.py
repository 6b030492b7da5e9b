"""SVG elements, text layout and the style sheet of static pictures. Escapes all text.

Colours, marks and sizes equal the live views: text has the tint of its origin, and the line style
of the origin in the legend or with more contrast. Knows no states.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ..state.token_table import visible, visible_segments

WIDTH = 860
COLUMNS, CHAR, LINE, MARGIN = 104, 7.8, 19, 16
INSIDE = WIDTH - 2 * MARGIN
LETTER = 6.65
"""Width of a letter of small text in pixels."""

STYLE = """
text{white-space:pre;font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#1f2328}
.h{font:600 13px system-ui,sans-serif}.m,.g,.r{font:12px system-ui,sans-serif;fill:#57606a}
.g{fill:#1f2328;font-weight:600}.r{text-anchor:end}.x{fill:#c0392b}
.cached{fill:#009e7333}.computed{fill:#e69f0033}.sampled{fill:#0072b22e}.jumped{fill:#b8568f2e}
.again{fill:#e69f0018}.reused{fill:#009e7318}.sampled.other{fill:#6f42c12e}
.model{fill:#1f2328;stroke:#1f2328}.model+path+text{fill:#fff;font-weight:700}
.u{stroke-width:2;fill:none;display:none}.i .u{display:inline}
@media(prefers-contrast:more){.u{display:inline}}
.u.cached{stroke:#009e73;stroke-dasharray:2 2}
.u.computed{stroke:#c98a00;stroke-dasharray:7 3}.u.again{stroke:#c98a00;stroke-dasharray:2 5}
.u.reused{stroke:#009e73;stroke-dasharray:2 5}
.u.sampled{stroke:#0072b2}.u.sampled.other{stroke:#6f42c1}
.u.jumped{stroke:#b8568f;stroke-dasharray:10 2 2 2}
.l{stroke:#d8dee4}
.n{stroke:#8c959f;fill:#8c959f18}.n.f{stroke:#009e73;fill:#009e7333}.n.o{stroke:#c98a00;fill:#e69f0033}
.n.k{stroke:#1f2328;stroke-width:2}.n.h{stroke:#1f2328;stroke-dasharray:3 2}
.q{fill:#1f2328;stroke:#fff}
.s{fill:#c98a00}.v{stroke:#57606a;fill:none}
.b,.c{font-size:11px}.c{fill:#57606a}
.w{fill:#8c959f59}.p{fill:#c98a00}.d{fill:#0072b2bf}.j{stroke:#b8568f;stroke-width:2}
.t{fill:#6f42c1}.y{fill:#eee;stroke:#1f2328}.z{stroke:#009e73;stroke-width:3;fill:none}
.e{stroke:#8c959f;stroke-dasharray:2 3}
"""

COPY_STYLE = """
.n.a{fill:none;stroke-dasharray:1 3}.a+text{fill:#57606a}
.host,.disk{stroke:#00798c;stroke-width:3;fill:none}.disk{stroke:#8d5524;stroke-dasharray:3 2}
"""
"""Style of copies in lower tiers, for the pictures with copies."""

ColouredText = tuple[str, str]
"""Kind and text without line breaks."""


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


def document(body: str, height: float, name: str, style: str = STYLE) -> str:
    """Return an SVG document with a border, `WIDTH` pixels wide.

    Args:
        body: Markup of the drawing.
        height: Height in pixels.
        name: CSS class of the document.
        style: Style sheet.
    """
    card = tag(
        "rect", class_="l", fill="#fff", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=8
    )
    return tag(
        "svg",
        tag("style", style) + card + body,
        class_=name,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        width=WIDTH,
        height=f"{height:.0f}",
    )


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


def wrap(segments: Sequence[Sequence[str]], width: int) -> Iterator[list[ColouredText]]:
    """Wrap coloured text to lines of at most `width` cells, preferably at spaces."""
    line: list[ColouredText] = []
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


def wrap_label(text: str, width: int, lines: int) -> list[str]:
    """Wrap a label to at most `lines` lines of `width` characters, after a word if the line keeps
    half of its length. The last line of a longer text ends with an ellipsis."""
    wrapped: list[str] = []
    start = 0
    while start < len(text) and len(wrapped) < lines and width > 1:
        if start and text[start] == " ":
            start += 1
        remaining, is_last = text[start:], len(wrapped) == lines - 1
        if len(remaining) <= width:
            return [*wrapped, remaining]
        limit = width - is_last
        line_end = min(limit, remaining.rfind("⏎", 0, limit) + 1)
        word_end = max(remaining.rfind(" ", 0, limit + 1), line_end)
        end = word_end if word_end >= limit / 2 else limit
        wrapped.append(remaining[:end] + "…" * is_last)
        start += end
    return wrapped


def names_within(names: str, width: int) -> str:
    """Shorten a list of names to `width` characters, after a whole name if possible."""
    if len(names) <= width:
        return names
    end = names.rfind(",", 0, max(0, width - 2))
    return f"{names[:end]}, …" if end > 0 else f"{names[: max(1, width - 1)]}…"


def fitted(text: str, room: int) -> str:
    """Shorten a text to `room` cells."""
    if columns(text) <= room:
        return text
    cut = len(text[:room])
    while columns(text[:cut]) >= room:
        cut -= 1
    return text[:cut] + "…"
