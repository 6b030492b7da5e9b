"""Static form of a live view: picture and text, for a notebook without a kernel.

The bundle contains no HTML, because nbconvert's sanitizer and GitHub escape or strip HTML. Both
show `image/svg+xml` as an `<img>` without scripts, or fall back to the text. All text in the
picture is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..state.comparison import Comparison
from ..state.run_state import RunState
from ..state.tree import TreeState
from .media_svg import Thumbnails
from .plain_text import Shown, plain_text, without_empty_trees
from .run_svg import draw_run
from .svg import MARGIN, STYLE, document, tag
from .timeline import draw_comparison
from .tree_svg import draw_tree

LIMIT = 60_000
"""Maximum size of the bundle without thumbnails in bytes, as stored in a notebook."""
RUNNING_LIMIT, FINAL_LIMIT = 64 << 10, 256 << 10
"""Maximum size with thumbnails, of pictures that are refreshed and of the last picture. Further
thumbnails are hatched boxes."""
TEXT_LIMIT = 12_000
"""Maximum length of the text in characters."""
FIRST_ROWS = 24

LAB_STYLE = (
    ".jp-OutputArea-child:is("
    ":has(> .lm-Panel.jp-OutputArea-output):not(:has(> .jp-OutputArea-output > *)),"
    ":has(> .jp-RenderedJavaScript:empty)"
    "):has(~ .jp-OutputArea-child img[src*=sgnb-static]){display:none}"
    ".jp-OutputArea-output > img[src*=sgnb-static]{max-width:100%}"
)
"""Style for JupyterLab. Hides "Loading widget..." of live views without a kernel, and the empty
output of `STYLE_BUNDLE`; fits the picture to the notebook's width."""

STYLE_BUNDLE = {
    "application/javascript": (
        "document.getElementById('sgnb-style')||document.head.append("
        "Object.assign(document.createElement('style'),"
        f"{{id:'sgnb-style',textContent:{json.dumps(LAB_STYLE)}}}))"
    ),
    "text/plain": "",
}
"""Output with a script to install `LAB_STYLE`. Script removal leaves no trace, but sanitizers would
leave the text of a `<style>` element."""


def static_bundle(states: Sequence[Shown], uid: str, limit: int = FINAL_LIMIT) -> dict[str, str]:
    """Return the static picture of states.

    Args:
        states: States to draw.
        uid: Id of the live view; the live view hides the static picture.
        limit: Maximum size with thumbnails in bytes.

    Returns:
        `image/svg+xml` and `text/plain`.
    """
    text = plain_text(states)
    if len(text) > TEXT_LIMIT:
        text = text[:TEXT_LIMIT] + f"\n… and {len(text) - TEXT_LIMIT} more characters"
    rows = FIRST_ROWS
    bundle = _bundle(states, uid, rows, text)
    while size(bundle) > LIMIT and rows > 1:
        rows //= 2
        bundle = _bundle(states, uid, rows, text)
    return _bundle(states, uid, rows, text, limit - size(bundle))


def _bundle(
    states: Sequence[Shown], uid: str, rows: int, text: str, room: int = 0
) -> dict[str, str]:
    svg = picture(states, rows, f"sgnb-static sgnb-static-{uid}", room)
    return {"image/svg+xml": svg, "text/plain": text}


def picture(states: Sequence[Shown], rows: int, name: str, room: int = 0) -> str:
    """Draw states as an SVG document, `WIDTH` pixels wide.

    Args:
        states: States to draw.
        rows: Maximum lines of text and rows of a batch; half of `rows` limits the leaves of the
            tree.
        name: CSS class of the document.
        room: Maximum number of characters of thumbnails.
    """
    parts, y, style = [], float(MARGIN), STYLE
    thumbnails = Thumbnails(name.rpartition(" ")[2], room)
    states = without_empty_trees(states)
    runs = [state for state in states if isinstance(state, RunState)]
    for state in states:
        if isinstance(state, RunState):
            body, height = draw_run(state, rows, thumbnails)
        elif isinstance(state, TreeState):
            body, height = draw_tree(state, runs[-1] if runs else None, rows, thumbnails)
        elif isinstance(state, Comparison):
            body, height = draw_comparison(state)
        else:
            body, height = state.draw(rows, thumbnails)
            style += state.style
        parts.append(tag("g", body, transform=f"translate({MARGIN} {y:.0f})"))
        y += height + MARGIN

    return document(thumbnails.definitions() + "".join(parts), y, name, style)


def size(bundle: dict[str, str]) -> int:
    """Return the size of a bundle in a notebook file, in bytes."""
    return len(json.dumps(bundle, ensure_ascii=False).encode())
