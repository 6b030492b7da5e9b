"""The static twin: the states as one picture with a table, for a notebook without a kernel.

The picture is an SVG inside an `<img>`, where nothing can run and hosts strip nothing. All text in
it is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from .plain_text import Shown, label, plain_text, run_heading, tree_heading
from .run import RunState
from .svg import picture

LIMIT = 200_000
"""Characters of the whole bundle at most."""
TEXT_LIMIT = 20_000
FIRST_ROWS = 48

NO_PLACEHOLDERS = (
    ".jp-OutputArea-child:has(> .lm-Panel.jp-OutputArea-output)"
    ":not(:has(> .jp-OutputArea-output > *))"
    ":has(~ .jp-OutputArea-child .sgnb-twin){display:none}"
)
"""Hides the "Loading widget..." that JupyterLab shows for live views without a kernel."""


def twin_bundle(states: Sequence[Shown], uid: str) -> dict[str, str]:
    """`text/html` and `text/plain`, at most `LIMIT` characters; the live view of `uid` hides it."""
    text = plain_text(states)
    if len(text) > TEXT_LIMIT:
        text = text[:TEXT_LIMIT] + f"\n… and {len(text) - TEXT_LIMIT} more characters"
    rows = FIRST_ROWS
    html = _figure(states, uid, rows)
    while len(html) + len(text) > LIMIT and rows > 1:
        rows //= 2
        html = _figure(states, uid, rows)
    return {"text/html": html, "text/plain": text}


def _figure(states: Sequence[Shown], uid: str, rows: int) -> str:
    svg, width = picture(states, rows)
    alt = escape(label("; ".join(_summary(state) for state in states), 600), quote=True)
    table = "".join(f"<tr>{_table_cells(state)}</tr>" for state in states)
    source = base64.b64encode(svg.encode()).decode()
    return (
        f'<figure class="sgnb-twin sgnb-twin-{uid}" style="margin:0">'
        f"<style>{NO_PLACEHOLDERS}</style>"
        f'<img alt="{alt}" width="{width}" style="max-width:100%"'
        f' src="data:image/svg+xml;base64,{source}">'
        f"<figcaption><table>{table}</table></figcaption></figure>"
    )


def _summary(state: Shown) -> str:
    if isinstance(state, RunState):
        return f"{run_heading(state)}: {state.line()}"
    return tree_heading(state)


def _table_cells(state: Shown) -> str:
    if isinstance(state, RunState):
        figures = state.figures
        cells = [
            label(run_heading(state), 120),
            f"{figures.prompt_tokens} prompt tokens",
            f"{figures.cached_tokens} cached",
            f"{figures.output_tokens} new",
            *([f"{figures.jumped_tokens} jumped"] if figures.jumped_tokens else []),
            f"hit rate {figures.hit_rate:.0%}",
            f"{figures.tokens_per_second:.0f} tok/s",
            f"{figures.passes} passes",
        ]
    else:
        cells = tree_heading(state).replace(": ", " · ", 1).split(" · ")
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)
