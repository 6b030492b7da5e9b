"""How an error looks below a cell: what is wrong, the cell's own lines with a caret, the hint.
Knows no session.

The short block is shown once, by the cell that failed; after that `%tb` finds the error as Python
left it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import SgnbError
from ..lang.location import located
from ..lang.source import frames_of, source_line

CellLabel = Callable[[str], str | None]
"""File name -> "Cell In[3]", or None for a file that is not a cell."""


def shorten(error: BaseException, label: CellLabel) -> None:
    """Make IPython show `error` as the short block, once. Call it where the magic catches it."""
    lines = short_lines(error, label)

    def once() -> list[str]:
        vars(error).pop("_render_traceback_", None)
        vars(error)["shown"] = True
        return lines

    vars(error)["_render_traceback_"] = once


def short_lines(error: BaseException, label: CellLabel) -> list[str]:
    """The short block, line by line."""
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
    """The message without the place it begins with, if the block shows that place anyway."""
    place, found, rest = message.partition(": ")
    return rest if found and place in places else message


def _places(error: BaseException, label: CellLabel) -> list[list[str]]:
    """Cell lines that led to the error, outermost first; of what its source shows its line."""
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
    """The column in characters of one in bytes of UTF-8, as frames count; -1 if not known."""
    return -1 if byte is None else len(line.encode()[:byte].decode(errors="replace"))


def _place(where: str, line: str, start: int, end: int) -> list[str]:
    """Where, the line without its indentation, and a caret under start .. end if they are known."""
    text = line.rstrip()
    bare = text.lstrip()
    indent = len(text) - len(bare)
    lines = [where, "    " + bare]
    if bare and start >= indent:
        lines.append(" " * (4 + start - indent) + "^" * max(1, min(end, len(text)) - start))
    return lines
