"""Completion on magic lines: options, values, commands, names of engines and runs. Executes
nothing."""

from __future__ import annotations

from typing import Any

from .. import models
from ..benchmark import OPPONENTS
from ..benchmark.variants import PER_REQUEST
from ..viz import KEPT_VIEWS, VIEWS
from .command_options import LOAD_OPTIONS
from .line import on_off
from .magic_options import CELL_OPTIONS, COMMANDS, Option
from .session import Session


def cell_words(preceding: list[str], session: Session) -> list[str]:
    """Return candidates for the next word of a `%%sglang` line.

    Args:
        preceding: Words before the cursor.
        session: Source of engine and run names.
    """
    return _values(preceding, session) or _flags(CELL_OPTIONS)


def line_words(preceding: list[str], session: Session) -> list[str]:
    """Return candidates for the next word of a `%sglang` line.

    Args:
        preceding: Words before the cursor.
        session: Source of engine and run names.
    """
    match preceding:
        case []:
            return list(COMMANDS)
        case ["engine", "use" | "unload" | "info"]:
            return session.engines.names()
        case ["cancel"]:
            return [*session.runs.running(), "all"]
        case ["bench", *_, "--vs"]:
            return [*OPPONENTS]
        case ["bench" | "check" | "lab" as name, *rest]:
            return _values(rest, session) or _flags(COMMANDS[name].options)
        case ["tour"]:
            return ["last", *session.recordings.runs()]
        case ["load", *rest]:
            candidates = [] if rest else [*models.names()]
            return _values(rest, session) or candidates + _flags(LOAD_OPTIONS)
        case [name, *_] if name in COMMANDS and COMMANDS[name].raw:
            return _flags(COMMANDS[name].options)
        case [name] if name in COMMANDS:
            return list(COMMANDS[name].actions)
    return []


def completer(session: Session) -> Any:
    """Return a completion hook for IPython. The hook maps an event to the candidates for the word
    under the cursor."""

    def complete(_: Any, event: Any) -> list[str]:
        text = event.text_until_cursor
        words = text.split() if text[-1:].isspace() else text.split()[:-1]
        magic, *preceding = words or [event.command]
        return (
            cell_words(preceding, session)
            if magic == "%%sglang"
            else line_words(preceding, session)
        )

    return complete


def _flags(options: tuple[Option, ...]) -> list[str]:
    return [option.flags[-1] for option in options]


def _values(preceding: list[str], session: Session) -> list[str]:
    last = preceding[-1] if preceding else ""
    if last in ("-m", "--model"):
        return session.engines.names()
    if last == "--show":
        return ["all", "none", *VIEWS]
    if last == "--keep":
        return [*KEPT_VIEWS]
    if last == "--vs":
        return [*PER_REQUEST]
    if any(option.flags[-1] == last and option.convert is on_off for option in LOAD_OPTIONS):
        return ["on", "off"]

    return {
        "--device": ["cpu", "cuda"],
        "--dtype": ["bfloat16", "float16", "float32"],
        "--quantize": ["fp8", "int4"],
        "--clock": ["cpu", "wall"],
        "--same": ["text", "tokens"],
        "--attention": ["auto", "flashinfer", "torch", "triton"],
    }.get(last, [])
