"""What a request asks for, as a small value that can be a dictionary's key. Imports only errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..errors import GrammarError, OptionError

KINDS = ("regex", "json_schema", "ebnf")

_FORMS = "give JSON text, a dict, a pydantic model, a dataclass or a TypedDict"


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """`kind` is one of KINDS. `text`: the pattern, the schema as JSON, or the grammar.

    whitespace: at most so many blanks or line breaks between the parts of JSON.
    """

    kind: str
    text: str
    whitespace: int = 0


def schema_text(schema: Any) -> str:
    """A JSON schema as JSON text: from JSON text, a dict or bool, or a type (pydantic model, dataclass, TypedDict...).

    Keys keep their order, which is the order of the output. Raises GrammarError for what is none of these.
    """
    if isinstance(schema, str):
        try:
            parsed = json.loads(schema)
        except ValueError as error:
            raise GrammarError(f"json_schema is no JSON: {error}", _FORMS) from None
        if not isinstance(parsed, (dict, bool)):
            raise GrammarError(f"json_schema={schema!r:.80} is no schema", "a schema is a JSON object")
        return schema
    if not isinstance(schema, (dict, bool)):
        schema = _schema_of_type(schema)
    try:
        return json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise GrammarError(f"json_schema cannot be written as JSON: {error}", "use plain JSON values in it") from None


def _schema_of_type(kind: Any) -> Any:
    try:
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
    except ImportError as error:
        raise OptionError(f"a schema from {kind!r} needs pydantic", "pip install pydantic") from error
    try:
        return TypeAdapter(kind).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise GrammarError(f"json_schema={kind!r} is no schema: {str(error).splitlines()[0]}", _FORMS) from error
