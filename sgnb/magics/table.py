"""Rows and figures that print as a table: in a notebook as escaped HTML, elsewhere as text."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable
from typing import Any


class Table(list[dict[str, Any]]):
    """Rows with the same keys in the same order. `empty` is what an empty table says."""

    def __init__(self, rows: Iterable[dict[str, Any]] = (), empty: str = "nothing yet") -> None:
        super().__init__(rows)
        self.empty = empty

    def __repr__(self) -> str:
        if not self:
            return self.empty
        lines = [list(self[0]), *([str(value) for value in row.values()] for row in self)]
        widths = [max(map(_columns, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(_padded, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self:
            return f"<p>{html.escape(self.empty)}</p>"
        head = _cells("th", self[0])
        body = "".join(f"<tr>{_cells('td', row.values())}</tr>" for row in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _columns(text: str) -> int:
    """How many columns of a screen `text` takes."""
    shown = [character for character in text if not unicodedata.combining(character)]
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in shown)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _cells(tag: str, values: Iterable[Any]) -> str:
    texts = (html.escape(str(value)) for value in values)
    return "".join(f"<{tag} style='text-align:left'>{text}</{tag}>" for text in texts)


class Facts(dict[str, Any]):
    """Figures by name, shown as a table of two columns."""

    def _table(self) -> Table:
        return Table({"figure": name, "value": _short(value)} for name, value in self.items())

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def _short(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else value
