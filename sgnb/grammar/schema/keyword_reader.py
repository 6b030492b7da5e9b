"""Reader of a schema's keywords, except logic and references: checks values and fills a
`FlatSchema`."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ..regex.ecmascript import to_python
from ..regex.pattern_reader import check_with_re
from .flat import ALL_TYPES, NUMBERS, FlatSchema, common_values, tighter
from .index import SchemaIndex
from .keywords import KEYWORDS, REFUSED, Children
from .numbers import BOUND_DIGITS, INTEGER_DIGITS, LARGEST_DOUBLE, NumberBound
from .string_formats import ENCODINGS, FORMATS, NUMBER_FORMATS

TYPES = {
    name: frozenset({name}) for name in ("null", "boolean", "integer", "string", "array", "object")
}
TYPES["number"] = NUMBERS

Fields = dict[str, Any]


class Wrong(Exception):
    """A keyword has an invalid value.

    Args:
        problem: reason.
        hint: remedy.
    """

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


def read(schema: dict[str, Any], index: SchemaIndex) -> FlatSchema:
    """Read the keywords of a schema, except logic and references.

    Args:
        schema: schema of the document.
        index: schema document, for error messages.

    Raises:
        GrammarError: a keyword is refused or has an invalid value.
    """
    fields: Fields = {"source": schema}
    spoken: set[str] = set()

    for keyword in schema:
        entry = KEYWORDS.get(keyword)
        if entry is None:
            continue
        if entry.state == REFUSED:
            raise index.error(schema, keyword, "not supported", entry.how)
        spoken.update(entry.types)
        read_keyword(schema, keyword, fields, index)

    spoken |= _spoken_by_format(schema, fields)
    if fields.get("types") == ALL_TYPES:  # all types by name: no type is implied by keywords
        spoken = set(ALL_TYPES)
    _exclusive(schema, fields)
    if isinstance(schema.get("items"), list):
        fields["prefix"] = tuple(schema["items"])
        fields["items"] = schema.get("additionalItems")
    if "contains" not in fields:
        fields.pop("min_contains", None)
        fields.pop("max_contains", None)
    return FlatSchema(spoken=frozenset(spoken), **fields)


def read_keyword(schema: dict[str, Any], keyword: str, fields: Fields, index: SchemaIndex) -> None:
    """Add a known keyword of a schema to `fields`.

    Args:
        schema: schema of the document.
        keyword: name of the keyword.
        fields: fields of `FlatSchema` so far.
        index: schema document, for error messages.

    Raises:
        GrammarError: the keyword has an invalid value.
    """
    try:
        _check_children(KEYWORDS[keyword].children, schema[keyword])
        if keyword in READERS:
            READERS[keyword](fields, schema[keyword])
    except Wrong as wrong:
        raise index.error(schema, keyword, str(wrong), wrong.hint) from None


def _exclusive(schema: dict[str, Any], fields: Fields) -> None:
    """Apply draft-04's boolean `exclusiveMinimum` and `exclusiveMaximum` to the bounds."""
    for keyword, exclusive, name, direction in (
        ("minimum", "exclusiveMinimum", "low", 1),
        ("maximum", "exclusiveMaximum", "high", -1),
    ):
        if schema.get(exclusive) is True and keyword in schema:
            _bound(name, direction, False)(fields, schema[keyword])


def _spoken_by_format(schema: dict[str, Any], fields: Fields) -> frozenset[str]:
    """Return the types addressed by `format` and `contentEncoding`."""
    if schema.get("format") in NUMBER_FORMATS:
        return NUMBERS
    return TYPES["string"] if "formats" in fields else frozenset()


def _type(fields: Fields, value: Any) -> None:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise Wrong(
                f"{name!r:.60} is not a type", f"one of {', '.join(TYPES)}, or a list of them"
            )
    fields["types"] = frozenset().union(*(TYPES[name] for name in names))


def _enum(fields: Fields, value: Any) -> None:
    if not isinstance(value, list):
        raise Wrong(f"{value!r:.60} is not a list", "give a list of values")
    _values(fields, tuple(value))


def _values(fields: Fields, values: tuple[Any, ...]) -> None:
    if "values" in fields:
        values = common_values(fields["values"], values) or ()
    fields["values"] = values


def _number(value: Any) -> int | Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise Wrong(f"{value!r:.60} is not a number", "give a number")
    if abs(value) >= 10**BOUND_DIGITS:
        raise Wrong("too many digits", f"give at most {BOUND_DIGITS}")
    return value


def _bound(name: str, direction: int, inclusive: bool) -> Callable[[Fields, Any], None]:
    def reader(fields: Fields, value: Any) -> None:
        if isinstance(value, bool) and not inclusive:
            return  # draft-04, handled by `_exclusive`
        is_far = isinstance(value, (int, Decimal)) and abs(value) >= 10**BOUND_DIGITS
        if is_far and (value > 0) != (direction > 0):
            if abs(value) > LARGEST_DOUBLE:
                return  # no bound: every number is nearer to 0
            value = int(10**INTEGER_DIGITS - 1) if value > 0 else 1 - int(10**INTEGER_DIGITS)
        fields[name] = tighter(fields.get(name), NumberBound(_number(value), inclusive), direction)

    return reader


def _multiple_of(fields: Fields, value: Any) -> None:
    if _number(value) <= 0:
        raise Wrong(f"{value} is not above zero", "give a number above zero")
    fields["steps"] = (value,)


def _count(name: str) -> Callable[[Fields, Any], None]:
    def reader(fields: Fields, value: Any) -> None:
        if _number(value) < 0 or value != int(value):
            raise Wrong(f"{value} is not a count", "give a whole number, 0 or more")
        fields[name] = int(value)

    return reader


def _pattern(fields: Fields, value: Any) -> None:
    fields["patterns"] = (_python_pattern(value),)


def _python_pattern(pattern: Any) -> str:
    """Return the pattern in Python's syntax. Raises Wrong if invalid."""
    if not isinstance(pattern, str):
        raise Wrong(f"{pattern!r:.60} is not a text", "give a regex")
    try:
        python = to_python(pattern)
        check_with_re(python)
    except (re.error, OverflowError, RecursionError) as error:
        hint = "give a regex that Python and ECMAScript share"
        raise Wrong(f"{pattern!r:.60} is not a regex: {error}", hint) from None
    return python


def _format(fields: Fields, value: Any) -> None:
    if not isinstance(value, str):
        raise Wrong(f"{value!r:.60} is not a format", "use a name from docs/JSON_SCHEMA.md")
    if value in FORMATS:
        fields["formats"] = (*fields.get("formats", ()), value)
    elif (ends := NUMBER_FORMATS.get(value)) is not None:
        _bound("low", 1, True)(fields, ends[0])
        _bound("high", -1, True)(fields, ends[1])


def _content_encoding(fields: Fields, value: Any) -> None:
    if not isinstance(value, str) or value not in ENCODINGS:
        hint = f"one of {', '.join(ENCODINGS)}, or use pattern"
        raise Wrong(f"{value!r:.60} is not enforced", hint)
    fields["formats"] = (*fields.get("formats", ()), value)


def _kept(name: str) -> Callable[[Fields, Any], None]:
    def reader(fields: Fields, value: Any) -> None:
        fields[name] = value

    return reader


def _pattern_properties(fields: Fields, value: Any) -> None:
    fields["pattern_properties"] = {_python_pattern(key): part for key, part in value.items()}


def _prefix(fields: Fields, value: Any) -> None:
    fields["prefix"] = tuple(value)


def _items(fields: Fields, value: Any) -> None:
    if not isinstance(value, list):
        fields["items"] = value


def _required(fields: Fields, value: Any) -> None:
    if not _is_names(value):
        hint = "give a list of names; true, as in draft-04, is not supported"
        raise Wrong(f"{value!r:.60} is not a list of names", hint)
    fields["required"] = tuple(dict.fromkeys(value))


def _dependent_required(fields: Fields, value: Any) -> None:
    if not isinstance(value, dict) or not all(map(_is_names, value.values())):
        raise Wrong(f"{value!r:.60} is not a mapping of names", "give an object of lists of names")


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _several_targets(fields: Fields, value: Any) -> None:
    raise Wrong(f"{value!r:.60} has no target or several targets", "use $ref")


def _unique(fields: Fields, value: Any) -> None:
    if not isinstance(value, bool):
        raise Wrong(f"{value!r:.60} is neither true nor false", "give true or false")
    fields["unique"] = value


READERS: dict[str, Callable[[Fields, Any], None]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda fields, value: _values(fields, (value,)),
    "minimum": _bound("low", 1, True),
    "maximum": _bound("high", -1, True),
    "exclusiveMinimum": _bound("low", 1, False),
    "exclusiveMaximum": _bound("high", -1, False),
    "multipleOf": _multiple_of,
    "minLength": _count("min_length"),
    "maxLength": _count("max_length"),
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _content_encoding,
    "properties": _kept("properties"),
    "required": _required,
    "dependentRequired": _dependent_required,
    "additionalProperties": _kept("additional"),
    "patternProperties": _pattern_properties,
    "propertyNames": _kept("names"),
    "minProperties": _count("min_properties"),
    "maxProperties": _count("max_properties"),
    "items": _items,
    "prefixItems": _prefix,
    "minItems": _count("min_items"),
    "maxItems": _count("max_items"),
    "uniqueItems": _unique,
    "contains": _kept("contains"),
    "minContains": _count("min_contains"),
    "maxContains": _count("max_contains"),
    "$dynamicRef": _several_targets,
    "$recursiveRef": _several_targets,
}
"""Keywords that constrain the value itself -> reader of the keyword."""


def _check_children(kind: Children, value: Any) -> None:
    """Raise Wrong if a keyword's value does not contain schemas in the required form."""
    if not kind:
        return
    parts = [value]
    if "mapping" in kind:
        if not isinstance(value, dict):
            raise Wrong(f"{value!r:.60} is not an object", "give an object of schemas")
        parts = [part for part in value.values() if kind == "mapping" or not _is_names(part)]
    elif "list" in kind and isinstance(value, list):
        parts = value

    if kind == "list" and (parts is not value or not parts):
        raise Wrong(f"{value!r:.60} is not a list of schemas", "give a list of schemas")
    for part in parts:
        if not isinstance(part, (dict, bool)):
            raise Wrong(f"{part!r:.60} is not a schema", "give an object, true or false")
