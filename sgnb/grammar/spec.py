"""Specification of a constraint: a small hashable value. Imports only errors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import GrammarError, OptionError, shown
from ..sequences import exceeds_depth
from .schema.strict_json import MAX_DEPTH

Kind = Literal["regex", "json_schema", "ebnf"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MAX_CHARACTERS = 500_000
"""Limit on the length of a pattern, schema or grammar; longer texts would take seconds to parse."""

SURROGATE_HINT = "write the whole character"
"""Remedy for half of a surrogate pair in a text."""

_FORMS = "give JSON text, a dict, a pydantic model, a dataclass or a TypedDict"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A regex, JSON schema or grammar that constrains a request.

    Raises:
        GrammarError: the text is too long or contains surrogates.
    """

    kind: Kind
    text: str  # the pattern, the schema as JSON, or the grammar
    # Maximum blanks or line breaks between JSON tokens; None: separators of `json.dumps`.
    whitespace: int | None = None
    strict: bool = True  # reject names, items and types that the schema does not list
    leading_blank: bool = False  # one blank may come before the text

    def __post_init__(self) -> None:
        if len(self.text) > MAX_CHARACTERS:
            message = f"{self.kind} of {len(self.text):,} characters is too large"
            raise GrammarError(message, f"at most {MAX_CHARACTERS:,}")
        if (half := next((c for c in self.text if "\ud800" <= c <= "\udfff"), None)) is not None:
            message = f"{self.kind} contains half of a surrogate pair, {half!r}"
            raise GrammarError(message, SURROGATE_HINT)


def pattern_text(pattern: Any) -> str:
    """Return a regex as text. Flags of a compiled pattern become inline flags.

    Args:
        pattern: text, or a pattern of `re.compile`.

    Raises:
        TypeError: the value is neither, or matches bytes.
    """
    if isinstance(pattern, re.Pattern):
        letters = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
        flags, pattern = f"(?{letters})" if letters else "", pattern.pattern
        if isinstance(pattern, str):
            return flags + re.sub(_LEADING_FLAGS, "", pattern)
    if not isinstance(pattern, str):
        raise TypeError
    return str.__str__(pattern)


_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_LEADING_FLAGS = r"^\(\?[aimsux]+\)"


def schema_text(schema: Any) -> str:
    """Return a schema as JSON text. Keys keep their order, which is the order of the output.

    Args:
        schema: JSON text, dict, bool, or a type (pydantic model, dataclass, TypedDict).

    Raises:
        GrammarError: the value is not a schema.
        OptionError: `schema` is a type and pydantic is not installed.
    """
    if not isinstance(schema, (str, dict, bool)):
        schema = _schema_of_type(schema)
    try:
        if isinstance(schema, str):
            text, value = str.__str__(schema), _parsed(str.__str__(schema))
        else:
            text, value = json.dumps(schema, ensure_ascii=False), schema
        text.encode()
        if exceeds_depth(value, MAX_DEPTH):
            raise _too_deep()
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError as error:
        half = repr(error.object[error.start])
        raise GrammarError(
            f"json_schema contains half of a surrogate pair, {half}", SURROGATE_HINT
        ) from None
    except GrammarError:
        raise
    except Exception as error:  # also of a class of the caller's
        message = f"json_schema cannot be written as JSON: {error}"
        raise GrammarError(message, "use plain JSON values") from None

    return text


def _too_deep() -> GrammarError:
    hint = f"use at most {MAX_DEPTH} levels, or $ref for repeated parts"
    return GrammarError("json_schema is nested too deeply", hint)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object. Raises GrammarError for a repeated key, which would hide the first
    value."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            message = f"json_schema has the key {key!r} twice in one object"
            raise GrammarError(message, "keep one of the two")
        result[key] = value
    return result


def _parsed(text: str) -> dict[str, Any] | bool:
    """Return the schema of a JSON text. Raises GrammarError for other texts."""
    try:
        parsed = json.loads(text, parse_int=str, object_pairs_hook=_unique)
    except ValueError as error:
        raise GrammarError(f"json_schema={shown(text)} is not JSON: {error}", _FORMS) from None
    if not isinstance(parsed, (dict, bool)):
        hint = "a schema is a JSON object, true or false"
        raise GrammarError(f"json_schema={shown(text)} is not a schema", hint)
    return parsed


def _schema_of_type(kind: Any) -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        message = f"a schema from {shown(kind)} needs pydantic"
        raise OptionError(message, "pip install pydantic") from error
    try:
        return TypeAdapter(kind).json_schema()
    except Exception as error:  # pydantic's errors, or any exception for a non-type
        reason = str(error).partition("\n")[0].partition(". Set ")[0]
        about_itself = isinstance(error, AttributeError) or reason.endswith(shown(kind))
        refusal = "" if about_itself else f": {reason}"
        raise GrammarError(f"json_schema={shown(kind)} is not a schema{refusal}", _FORMS) from error
