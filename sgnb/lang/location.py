"""Source locations: file and line of the user's program, for error messages."""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple

from ..errors import SgnbWarning

_OURS = (__name__.partition(".")[0] + ".", "contextlib", "IPython.")
"""Prefixes of modules without user code. IPython frames occur if a magic calls the language."""

_PATHS = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_LIBRARIES = (*(f"{path}{os.sep}" for path in _PATHS), "<frozen ")
"""Beginnings of the file names of the standard library and of installed packages."""


class Location(NamedTuple):
    """Line of the user's program. A notebook cell counts as a file."""

    file: str
    line: int

    def __str__(self) -> str:
        cell = _cell_label(self.file)
        return f"{cell}, line {self.line}" if cell else f"{self.file}:{self.line}"


def _no_cell(file: str) -> str | None:
    return None


_cell_label: Callable[[str], str | None] = _no_cell


def name_cells(label: Callable[[str], str | None]) -> None:
    """Set the function that labels notebook cells in locations.

    Args:
        label: Returns a label such as "Cell In[3]" for the file name of a cell, or None for other
            files.
    """
    global _cell_label
    _cell_label = label


_our_files: dict[str, bool] = {}
"""Source file -> whether the frames of the file are not the user's."""

standing: ContextVar[Location | None] = ContextVar("standing", default=None)
"""Location for code without the user's line on the call stack, for example while a graph runs."""


def caller() -> Location:
    """Return the innermost user line on the call stack of this thread. Takes about 0.5 µs."""
    if (location := standing.get()) is not None:
        return location
    frame = sys._getframe(1)
    outer = frame.f_back
    while outer is not None:
        ours = _our_files.get(frame.f_code.co_filename)
        if not (_is_in_our_file(frame) if ours is None else ours):
            break
        frame, outer = outer, outer.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)


def program_line() -> Location:
    """Return the nearest line on the calling thread outside of sgnb and of libraries, or `caller()`
    if all lines are in libraries."""
    if (known := standing.get()) is not None:
        return known
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_program(frame):
        frame = frame.f_back
    return caller() if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def line_of_error(error: BaseException) -> Location:
    """Return the program's line closest to the error, or `caller()`."""
    lines = [
        Location(frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if is_program(frame)
    ]
    return lines[-1] if lines else caller()


def is_program(frame: FrameType) -> bool:
    """Return whether a frame belongs to neither sgnb nor a library."""
    return not (is_ours(frame) or is_library(frame.f_code.co_filename))


def is_library(file: str) -> bool:
    """Return whether a source file belongs to the standard library or an installed package."""
    return file.startswith(_LIBRARIES)


def _is_in_our_file(frame: FrameType) -> bool:
    """Return `is_ours(frame)`, and remember the answer for the file."""
    file, ours = frame.f_code.co_filename, is_ours(frame)
    if not file.startswith("<"):  # several modules may have code without a file
        _our_files[file] = ours
    return ours


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame belongs to sgnb, contextlib or IPython."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


_warned: dict[Any, Any] = {}
"""Registry for `warnings`: messages already shown, by line."""


def warn_once(message: str, location: Location) -> None:
    """Issue `message` as a SgnbWarning of the user's line, once per line."""
    file, line = location
    warnings.warn_explicit(f"{location}: {message}", SgnbWarning, file, line, registry=_warned)


def add_location(error: BaseException, subject: str, location: Location) -> None:
    """Add a note with the location to `error`. Branches that share the error add a single note."""
    note = f"in {subject}, at {location}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
        vars(error).setdefault("_located", {})[note] = location


def located(error: BaseException, note: str) -> Location | None:
    """Return the location that belongs to a note of `add_location`."""
    location: Location | None = vars(error).get("_located", {}).get(note)
    return location
