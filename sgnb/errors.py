"""What can go wrong, as a person reads it: the value, the location, the hint.

Every error that sgnb raises on purpose is a `SgnbError`. Imports nothing of ours.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable


class SgnbError(Exception):
    """`message` says what is wrong with which value; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = printable(message), printable(hint)
        super().__init__(self.message)
        self.shown = False

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: a short block in the notebook, notes included; the second time, by `%tb`,
        the whole traceback."""
        if self.shown:
            return "".join(traceback.format_exception(self)).splitlines()
        self.shown = True
        return [*f"{type(self).__name__}: {self}".splitlines(), *getattr(self, "__notes__", ())]


class OptionError(SgnbError, ValueError):
    """An option that does not exist, or a value outside its range."""


class RecordError(OptionError):
    """A saved snapshot, graph, recording or row that is damaged, or from another version."""


class ModelError(SgnbError):
    """A model that cannot be found, read, or run as a decoder."""


class RequestError(SgnbError, ValueError):
    """A request that can never run, such as a prompt longer than the context."""


class GrammarError(SgnbError, ValueError):
    """A regex, schema or grammar that is wrong, not supported or too large, or that a vocabulary
    cannot write."""


class ProgramError(SgnbError):
    """A mistake in a program: an unknown variable, nested roles, a name used before it exists."""


class TraceError(ProgramError):
    """A program that cannot become a graph: what it does depends on a value that a trace lacks."""


class UnknownVariableError(ProgramError, KeyError):
    """A variable that nothing sets."""


class EngineError(SgnbError):
    """The engine is closed, or ended on an error of its own (its `__cause__`)."""


class ServiceError(SgnbError):
    """A service behind an API refused a request, failed, or could not be reached."""


class TimedOut(SgnbError, TimeoutError):
    """A generation or select took longer than its timeout. The partial text is kept."""


class Aborted(SgnbError):
    """The request or run was stopped before it finished; what it had produced is kept."""


def shown(value: object) -> str:
    """`repr` for a message: one line's length at most, and something for every value."""
    try:
        text = repr(value)
    except Exception:  # of a class of the user's, or of an integer of more than 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else f"{text[:99]}…"


def printable(text: str) -> str:
    """`text` with what a terminal would obey or not show, such as escape sequences of a config, as
    Python writes it in a string: a message may quote what comes from elsewhere."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text])


def nearest(name: str, known: Iterable[str]) -> str:
    """`"did you mean 'x'?"` for the closest known name, else the list of known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
