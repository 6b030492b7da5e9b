"""What a request asks for, as a small value that can be a dictionary's key. Imports only errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..errors import GrammarError, OptionError

KINDS = ("regex", "json_schema", "ebnf")

MAX_CHARACTERS = 500_000
"""Of a pattern, a schema or a grammar: what is longer would take seconds only to be read."""

_FORMS = "give JSON text, a dict, a pydantic model, a dataclass or a TypedDict"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """`kind` is one of KINDS. `text`: the pattern, the schema as JSON, or the grammar.

    whitespace: at most so many blanks or line breaks between the parts of JSON.

    Raises GrammarError for a text that is no Unicode, or too long.
    """

    kind: str
    text: str
    whitespace: int = 0

    def __post_init__(self) -> None:
        if len(self.text) > MAX_CHARACTERS:
            raise GrammarError(
                f"{self.kind} of {len(self.text):,} characters is too large",
                f"at most {MAX_CHARACTERS:,}",
            )
        if (half := next((c for c in self.text if "\ud800" <= c <= "\udfff"), None)) is not None:
            raise GrammarError(
                f"{self.kind} holds half a surrogate pair, {half!r}", "write the whole character"
            )


def schema_text(schema: Any) -> str:
    """A JSON schema as JSON text: from JSON text, a dict or bool, or a type (pydantic model,
    dataclass, TypedDict...).

    Keys keep their order, which is the order of the output. Raises GrammarError for what is none of
    these.
    """
    if not isinstance(schema, (str, dict, bool)):
        schema = _schema_of_type(schema)
    try:
        text = (
            _checked(schema) if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
        )
        text.encode()
    except RecursionError:
        raise GrammarError(
            "json_schema is nested too deeply", "use fewer levels, or $ref for what repeats"
        ) from None
    except UnicodeEncodeError as error:
        half = repr(error.object[error.start])
        raise GrammarError(
            f"json_schema holds half a surrogate pair, {half}", "write the whole character"
        ) from None
    except GrammarError:
        raise
    except (TypeError, ValueError) as error:
        raise GrammarError(
            f"json_schema cannot be written as JSON: {error}", "use plain JSON values in it"
        ) from None
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. A key that is there twice would hide what the first said."""
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(
            key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i])
        )
        raise GrammarError(
            f"json_schema has the key {twice!r} twice in one object", "keep one of the two"
        )
    return result


def _checked(text: str) -> str:
    """JSON text, if it is a schema's."""
    try:
        parsed = json.loads(text, parse_int=str, object_pairs_hook=_unique)
    except ValueError as error:
        raise GrammarError(f"json_schema={_short(text)} is no JSON: {error}", _FORMS) from None
    if not isinstance(parsed, (dict, bool)):
        raise GrammarError(
            f"json_schema={_short(text)} is no schema", "a schema is a JSON object, true or false"
        )
    return text


def _schema_of_type(kind: Any) -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise OptionError(
            f"a schema from {_short(kind)} needs pydantic", "pip install pydantic"
        ) from error
    try:
        return TypeAdapter(kind).json_schema()
    except Exception as error:  # pydantic's own kinds of error, and for what is no type any other
        reason = str(error).partition("\n")[0].partition(". Set ")[0]
        about_itself = isinstance(error, AttributeError) or reason.endswith(repr(kind))
        refusal = "" if about_itself else f": {reason}"
        raise GrammarError(f"json_schema={_short(kind)} is no schema{refusal}", _FORMS) from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
