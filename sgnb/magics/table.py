"""Tables of rows and figures: escaped HTML in a notebook, text elsewhere.

Cells may contain text from a model or file, so each cell is shown as text on one line, shortened.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ..viz.static.plain_text import label
from ..viz.static.svg import columns

ROWS_SHOWN = 100
CELL_CHARACTERS = 120
LINE_CHARACTERS = 300
WHOLE_CHARACTERS = 12
"""Cells up to this number of characters are not wrapped."""
WHOLE_IN_HEAD = 30
"""Words of a head up to this number of characters are not broken."""


class Displayable(ABC):
    """Object displayed as `repr`, or in a notebook as HTML without MathJax formulas."""

    @abstractmethod
    def _html(self) -> str:
        """Return escaped HTML."""

    def _repr_html_(self) -> str:
        return f'<div class="tex2jax_ignore mathjax_ignore">{self._html()}</div>'

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


class Table(list[dict[str, Any]], Displayable):
    """Table rows with equal keys in equal order. At most `ROWS_SHOWN` rows are shown; `empty` is
    the text of an empty table."""

    def __init__(self, rows: Iterable[dict[str, Any]] = (), empty: str = "nothing yet") -> None:
        super().__init__(rows)
        self.empty = empty

    def __repr__(self) -> str:
        if not self:
            return self.empty
        lines = [list(self[0]), *self._shown()]
        widths = [max(map(columns, column)) for column in zip(*lines, strict=True)]
        padded = ["  ".join(map(_padded, line, widths)).rstrip() for line in lines]
        return "\n".join([*padded, *self._hidden()])

    def _html(self) -> str:
        if not self:
            return f"<p>{html.escape(self.empty)}</p>"
        head = _cells("th", self[0])
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in self._shown())
        hidden = "".join(f"<p>{line}</p>" for line in self._hidden())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{hidden}"

    def _shown(self) -> list[list[str]]:
        return [[_cell(value) for value in row.values()] for row in self[:ROWS_SHOWN]]

    def _hidden(self) -> list[str]:
        hidden = len(self) - ROWS_SHOWN
        return [f"and {hidden:,} more rows"] if hidden > 0 else []


def with_equal_columns(rows: Sequence[dict[str, Any]], empty: str) -> Table:
    """Return a table of rows that lack some columns."""
    names = dict.fromkeys(name for row in rows for name in row)
    return Table([dict.fromkeys(names, "") | row for row in rows], empty)


class Facts(dict[str, Any], Displayable):
    """Figures by name, shown as a table with two columns."""

    def _table(self) -> Table:
        return Table({"figure": name, "value": short(value)} for name, value in self.items())

    def __repr__(self) -> str:
        return repr(self._table())

    def _html(self) -> str:
        return self._table()._html()


def html_lines(tag: str, lines: Iterable[str]) -> str:
    """Wrap each line in the element `tag`, escaped and shortened."""
    shown = (html.escape(one_line(line)) for line in lines)
    return "".join(f"<{tag}>{line}</{tag}>" for line in shown)


def one_line(text: str) -> str:
    return label(text, LINE_CHARACTERS)


def _cell(value: Any) -> str:
    return label(str(value), CELL_CHARACTERS)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(
        f'<{tag} style="text-align:left;{_wrap(text, tag == "th")}">{html.escape(text)}</{tag}>'
        for text in texts
    )


def _wrap(text: str, is_head: bool) -> str:
    """Return CSS to keep numbers and short words unbroken in a narrow notebook. A head with several
    settings breaks between the settings."""
    if len(text) <= WHOLE_CHARACTERS:
        return "white-space:pre"
    if is_head and max(map(len, text.split()), default=0) <= WHOLE_IN_HEAD:
        return "white-space:pre-wrap"
    return "white-space:pre-wrap;overflow-wrap:anywhere"


def short(value: Any) -> Any:
    """Return a figure with three significant digits."""
    return f"{value:.3g}" if isinstance(value, float) else value
