"""Unsupported constructs of llguidance's Lark notation, refused with line and column.

Recognizes only comments, quoted texts and regexes; llguidance reports all other errors.
"""

from __future__ import annotations

import json
import re

from ...errors import GrammarError

_PARTS = re.compile(
    r"""
    (?P<skip> (?:\#|//)[^\n]* | "(?:\\.|[^"\\\n])*" | /(?:\\.|[^/\\\n])+/ )
    | (?P<special> <[^<>\s]+> )
    | (?P<grammar> @[A-Za-z0-9_-]+ )
    | (?P<option> \b(?: (?:max_tokens|temperature|stop|stop_capture)(?=\s*=)
        | capture(?=\s*[=,\]]) ) )
    | (?P<setting> "?allow_invalid_utf8"? )
    """,
    re.VERBOSE,
)
_WHY = {
    "special": ("the special token {} cannot be part of a grammar", "write the text instead"),
    "grammar": ("the grammar {} is not available", "copy its rules into this grammar"),
    "option": (
        "{} is not supported in rules",
        "use the sampling options, or remove it",
    ),
    "setting": ("{} is not supported", "texts are UTF-8"),
}
_JSON = re.compile(r"%(?:json|regex|llguidance)\s*")


def refuse_unsupported(text: str) -> None:
    """Check a grammar for unsupported constructs.

    Args:
        text: grammar in Lark notation.

    Raises:
        GrammarError: the first unsupported construct.
    """
    at = 0
    while at < len(text):
        value = _JSON.match(text, at)
        if value is not None:
            at = _after_json(text, value)
            continue
        part = _PARTS.match(text, at)
        if part is None:
            at += 1
            continue
        if part.lastgroup in _WHY:
            raise _error(text, at, *_WHY[part.lastgroup], part.group())
        at = part.end()


def _after_json(text: str, start: re.Match[str]) -> int:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start.end())
    except (ValueError, RecursionError) as error:
        message = "the JSON after {} cannot be read"
        raise _error(text, start.start(), message, f"{error}", start.group().strip()) from None
    settings = value if start.group().startswith("%llguidance") else None
    if isinstance(settings, dict) and settings.get("allow_invalid_utf8"):
        raise _error(text, start.start(), *_WHY["setting"], "allow_invalid_utf8")
    return end


def _error(text: str, at: int, message: str, hint: str, construct: str) -> GrammarError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return GrammarError(
        f"ebnf, line {line}, column {column}: {message.format(repr(construct))}", hint
    )
