"""Short error display below a cell: message, cell lines with a caret, hint. Knows no session.

The failing cell shows the short form once. Afterwards `%tb` shows the full traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from ..errors import SgnbError, SgnbWarning
from ..lang.location import located
from ..lang.source import frames_of, source_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

CellLabel = Callable[[str], str | None]
"""File name -> "Cell In[3]", or None for files other than cells."""


def cell_label(shell: InteractiveShell) -> CellLabel:
    """Return a function from a file name to the label of the shell's cell."""

    def label(file: str) -> str | None:
        words = shell.compile.format_code_name(file)
        return " ".join(words) if words else None

    return label


def show_warnings(label: CellLabel) -> None:
    """Make Python show each `SgnbWarning` as a line of output, without the file name of the cell.
    Other warnings keep their form."""
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if file is not None or not issubclass(category, SgnbWarning):
            show_others(message, category, filename, lineno, file, line)
            return
        cell, text = label(filename), str(message)
        place = f"{cell}, line {lineno}: " if cell else ""
        print(f"warning: {place}{text.removeprefix(place)}")

    warnings.showwarning = show


def shorten(error: BaseException, label: CellLabel) -> None:
    """Make IPython show the short form of an error once. Call inside the magic's exception handler.

    Args:
        error: Error to shorten.
        label: Returns the label of a cell's file.
    """
    lines = short_lines(error, label)

    def once() -> list[str]:
        vars(error).pop("_render_traceback_", None)
        vars(error)["shown"] = True
        return lines

    vars(error)["_render_traceback_"] = once


def short_lines(error: BaseException, label: CellLabel) -> list[str]:
    """Return the short form of an error, line by line.

    Args:
        error: Error to show.
        label: Returns the label of a cell's file.
    """
    places = [line for place in _places(error, label) for line in place]
    message = _without_place(_message(error), places)
    lines = [type(error).__name__ + (f": {message}" if message else ""), *places]
    for note in getattr(error, "__notes__", ()):
        location = located(error, note)
        line = source_line(*location).strip() if location else ""
        lines += [note, f"    {line}", "    " + "^" * len(line)] if line else [note]

    cause = error.__cause__
    if cause is not None and not isinstance(cause, SyntaxError):
        reason = _message(cause)
        if reason.partition("\n")[0] not in message:
            lines.append(f"because of {type(cause).__name__}: {reason}")
    if isinstance(error, SgnbError) and error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines).splitlines()


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, SgnbError) else str(error)


def _without_place(message: str, places: list[str]) -> str:
    """Remove a leading place from the message if the short form shows the place."""
    place, separator, remainder = message.partition(": ")
    return remainder if separator and place in places else message


def _places(error: BaseException, label: CellLabel) -> list[list[str]]:
    """Return the cell lines of the traceback, outermost first."""
    syntax = error.__cause__
    if isinstance(syntax, SyntaxError):
        file = syntax.filename or ""
        place = f"{label(file) or file}, line {syntax.lineno}"
        columns = (syntax.offset or 1) - 1, (syntax.end_offset or 0) - 1
        return [_place(place, syntax.text or "", *columns)]

    places = []
    for frame in frames_of(error):
        where = label(frame.filename)
        if where and frame.lineno:
            line = source_line(frame.filename, frame.lineno)
            end = frame.end_colno if frame.end_lineno == frame.lineno else len(line.encode())
            columns = _character(line, frame.colno), _character(line, end)
            places.append(_place(f"{where}, line {frame.lineno}", line, *columns))
    return places


def _character(line: str, byte: int | None) -> int:
    """Convert a column from UTF-8 bytes, as in frames, to characters; -1 if unknown."""
    return -1 if byte is None else len(line.encode()[:byte].decode(errors="replace"))


def _place(where: str, line: str, start: int, end: int) -> list[str]:
    """Format a place: label, source line without indentation, and a caret under start .. end if
    known."""
    text = line.rstrip()
    bare = text.lstrip()
    indent = len(text) - len(bare)
    lines = [where, "    " + bare]
    if bare and start >= indent:
        lines.append(" " * (4 + start - indent) + "^" * max(1, min(end, len(text)) - start))
    return lines
