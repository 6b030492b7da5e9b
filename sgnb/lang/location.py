"""Source locations: the file and line of the user's program that errors name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

_OURS = (__name__.partition(".")[0] + ".", "contextlib", "IPython.")
"""Modules whose frames are not the user's: IPython's where a magic asks."""


class Location(NamedTuple):
    """A line of the user's program; a notebook cell is a file of its own."""

    file: str
    line: int

    def __str__(self) -> str:
        cell = _cell_label(self.file)
        return f"{cell}, line {self.line}" if cell else f"{self.file}:{self.line}"


def _no_cell(file: str) -> str | None:
    return None


_cell_label: Callable[[str], str | None] = _no_cell


def name_cells(label: Callable[[str], str | None]) -> None:
    """Have locations in a file that `label` knows named as it says, such as "Cell In[3]"."""
    global _cell_label
    _cell_label = label


standing: ContextVar[Location | None] = ContextVar("standing", default=None)
"""The user's line where it is not among the callers: a graph runs in place of its program."""


def caller() -> Location:
    """The nearest line on the calling thread that is the user's. About half a microsecond."""
    if (known := standing.get()) is not None:
        return known
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


def is_ours(frame: FrameType) -> bool:
    """Whether its code is not the user's, nor of a library that the user calls."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


_warned: dict[Any, Any] = {}
"""`warnings`' registry of what was said, and at which lines."""


def warn_once(message: str, location: Location) -> None:
    """Say `message` as a warning of the user's line, once for each line."""
    file, line = location
    warnings.warn_explicit(f"{location}: {message}", UserWarning, file, line, registry=_warned)


def add_location(error: BaseException, what: str, location: Location) -> None:
    """Note on `error` where it happened; once, even when branches share the error."""
    note = f"in {what}, at {location}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
        vars(error).setdefault("_located", {})[note] = location


def located(error: BaseException, note: str) -> Location | None:
    """Where a note of `add_location` says that it was."""
    found: Location | None = vars(error).get("_located", {}).get(note)
    return found
