"""Typed errors of sgnb: a message names the value and the location, a hint names the remedy.

All intended errors are subclasses of `SgnbError`. Imports no module of sgnb.
"""

from __future__ import annotations

import difflib
import traceback
import warnings
from collections.abc import Iterable


class SgnbError(Exception):
    """Base class of all sgnb errors.

    Args:
        message: the problem and the offending value.
        hint: the remedy, printed on a second line; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = printable(message), printable(hint)
        super().__init__(self.message)
        self.shown = False

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """Return the notebook's traceback (IPython hook): a short block with notes first, the whole
        traceback on `%tb`."""
        if self.shown:
            return "".join(traceback.format_exception(self)).splitlines()
        self.shown = True
        return [*f"{type(self).__name__}: {self}".splitlines(), *getattr(self, "__notes__", ())]


class OptionError(SgnbError, ValueError):
    """An unknown option, or a value outside the allowed range."""


class RecordError(OptionError):
    """A damaged snapshot, graph, recording or row, or a record of an unsupported version."""


class ModelError(SgnbError):
    """A model that cannot be found, read, or run as a decoder."""


class RequestError(SgnbError, ValueError):
    """A request beyond the limits of the engine, for example a prompt longer than the context."""


class MediaError(SgnbError, ValueError):
    """An image, video or audio that is unreadable, exceeds a limit, or has no support in the
    model."""


class GrammarError(SgnbError, ValueError):
    """A regex, schema or grammar that is invalid, unsupported or too large, or contains text
    without tokens in the vocabulary."""


class ProgramError(SgnbError):
    """A mistake in a program: an unknown variable, nested roles, an undefined name."""


class TraceError(ProgramError):
    """A program without a graph: its control flow depends on a value unknown at trace time."""


class UnknownVariableError(ProgramError, KeyError):
    """A variable that no operation of the program sets."""


class AnswerError(SgnbError, ValueError):
    """A generated text that is not a value of the requested type."""


class EngineError(SgnbError):
    """A closed engine, or an engine that stopped on an internal error (its `__cause__`)."""


class LostRankError(EngineError):
    """A process of a tensor-parallel engine ended, or the process's part of a step failed."""


class ServiceError(SgnbError):
    """A service behind an API refused a request, failed, or was unreachable."""


class TimedOut(SgnbError, TimeoutError):
    """A generation or select took longer than its timeout. The partial text is kept."""


class Aborted(SgnbError):
    """A request or run stopped before its end. Output produced until then is kept."""


class SgnbWarning(UserWarning):
    """A warning of sgnb. A notebook shows the message without the file name of the cell."""


class RenamedWarning(SgnbWarning, FutureWarning):
    """A former name of a function or option."""


def renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn about the new name `new` of `old`. `stacklevel`: 3 is the caller of the caller."""
    warnings.warn(f"{old} is now called {new}", RenamedWarning, stacklevel=stacklevel)


def shown(value: object) -> str:
    """Return `repr(value)` for a message: at most 100 characters, and never an exception.

    Args:
        value: any object, including objects whose `__repr__` raises.
    """
    try:
        text = repr(value)
    except Exception:  # a user's class, or an integer of more than 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else f"{text[:99]}…"


def printable(text: str) -> str:
    """Return `text` with control and other non-printable characters escaped as in Python source.

    Messages may quote untrusted text, such as terminal escape sequences of a model's config.

    Args:
        text: message text; line breaks and tabs are kept.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text])


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, plus the second line after a colon."""
    first, *rest = (str(error).strip() or type(error).__name__).splitlines()
    return (f"{first} {rest[0].strip()}" if rest and first.endswith(":") else first)[:300]


def nearest(name: object, names: Iterable[object]) -> str:
    """Return a hint: "did you mean 'x'?" for the closest known name, otherwise the list of known
    names.

    Args:
        name: the unknown name. Names of other types are compared as text.
        names: all valid names.
    """
    names = sorted(map(str, names))
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
