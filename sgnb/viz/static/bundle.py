"""The static twin: the states as a picture and as text, for a notebook without a kernel.

There is no HTML in it: nbconvert's sanitiser and GitHub escape or strip what HTML would need, but
show `image/svg+xml` as an `<img>`, where nothing can run, and the text where they do not. All text
in the picture is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .plain_text import Shown, plain_text
from .svg import picture

LIMIT = 60_000
"""Bytes of the whole bundle at most, as a notebook stores it."""
TEXT_LIMIT = 12_000
"""Characters of the text."""
FIRST_ROWS = 24

LAB_STYLE = (
    ".jp-OutputArea-child:is("
    ":has(> .lm-Panel.jp-OutputArea-output):not(:has(> .jp-OutputArea-output > *)),"
    ":has(> .jp-RenderedJavaScript:empty)"
    "):has(~ .jp-OutputArea-child img[src*=sgnb-twin]){display:none}"
    ".jp-OutputArea-output > img[src*=sgnb-twin]{max-width:100%}"
)
"""For JupyterLab. Hides the "Loading widget..." of live views without a kernel, and the empty place
of `STYLE_BUNDLE`; fits the picture to the notebook."""

STYLE_BUNDLE = {
    "application/javascript": (
        "document.getElementById('sgnb-style')||document.head.append("
        "Object.assign(document.createElement('style'),"
        f"{{id:'sgnb-style',textContent:{json.dumps(LAB_STYLE)}}}))"
    ),
    "text/plain": "",
}
"""An output that gives a page `LAB_STYLE`. Where scripts are stripped nothing is left of it; of a
`<style>` sanitisers leave the text."""


def twin_bundle(states: Sequence[Shown], uid: str) -> dict[str, str]:
    """`image/svg+xml` and `text/plain`, at most `LIMIT` bytes; the live view of `uid` hides it."""
    text = plain_text(states)
    if len(text) > TEXT_LIMIT:
        text = text[:TEXT_LIMIT] + f"\n… and {len(text) - TEXT_LIMIT} more characters"
    rows = FIRST_ROWS
    bundle = _bundle(states, uid, rows, text)
    while size(bundle) > LIMIT and rows > 1:
        rows //= 2
        bundle = _bundle(states, uid, rows, text)
    return bundle


def _bundle(states: Sequence[Shown], uid: str, rows: int, text: str) -> dict[str, str]:
    svg = picture(states, rows, f"sgnb-twin sgnb-twin-{uid}")
    return {"image/svg+xml": svg, "text/plain": text}


def size(bundle: dict[str, str]) -> int:
    """Bytes of a bundle in a notebook's file."""
    return len(json.dumps(bundle, ensure_ascii=False).encode())
