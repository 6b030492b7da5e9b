"""Constraints of generations: `dtype`, `regex`, `json_schema`, `ebnf` and `stop_regex`.

Arguments are checked at the line of the call, as far as possible without an engine. The engine
compiles the grammars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from ...errors import OptionError, nearest
from ...grammar.documents import bundle
from ...grammar.early_check import check_ebnf, check_schema
from ...grammar.regex.parser import parse, parse_occurrence
from ...grammar.spec import KINDS, pattern_text, schema_text
from ..ir import REGEX_BOOL, REGEX_FLOAT, REGEX_INT, REGEX_STR
from ..location import caller, warn_once

_BLANKS = (" ", "\n")

_DTYPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "int": (REGEX_INT, _BLANKS),
    "float": (REGEX_FLOAT, _BLANKS),
    "bool": (REGEX_BOOL, ()),
    "str": (REGEX_STR, ()),
}
"""Regular expression and additional stop strings of each dtype."""


def resolve_constraints(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return options with `dtype` replaced by a regex and stops, `json_schema` as JSON text, and
    checked patterns.

    Raises:
        OptionError: Options exclude each other, or a dtype is unknown.
        GrammarError: A pattern, schema or grammar is invalid.
    """
    options = dict(arguments)
    if "dtype" in options:
        dtype = options.pop("dtype")
        if "regex" in options:
            option = f"regex={options.pop('regex')!r} has no effect with dtype={_name(dtype)}"
            warn_once(f"{option}: dtype sets the regex", caller())
        for kind in KINDS:
            if kind in options:
                message = f"dtype={_name(dtype)} and {kind} exclude each other"
                raise OptionError(message, "give one of them")
        options["regex"], stops = _pattern(dtype)
        if stops:
            stop = options.get("stop", ())
            options["stop"] = (*((stop,) if isinstance(stop, str) else stop), *stops)
        options.setdefault("leading_blank", True)

    documents = options.pop("documents", None)
    if documents is not None and "json_schema" not in options:
        raise OptionError("documents has no effect", "it needs json_schema=...")
    if "json_schema" in options:
        schema = options["json_schema"]
        options["json_schema"] = bundle(schema, documents) if documents else _schema(schema)
        check_schema(options["json_schema"])
        if is_scalar(options["json_schema"]):
            options.setdefault("leading_blank", True)
    if options.get("thinking"):
        options.pop("leading_blank", None)
    if isinstance(options.get("regex"), re.Pattern) and isinstance(options["regex"].pattern, str):
        options["regex"] = pattern_text(options["regex"])
    if isinstance(options.get("regex"), str):
        check_regex(options["regex"])
    if isinstance(options.get("ebnf"), str):
        check_ebnf(options["ebnf"])
    ends = options.get("stop_regex")
    if isinstance(ends, Iterable):
        options["stop_regex"] = (ends,) if isinstance(ends, str) else tuple(ends)
        for pattern in options["stop_regex"]:
            check_stop_regex(pattern)
    return options


_SCALARS = {"string", "number", "integer", "boolean", "null"}


@lru_cache(maxsize=256)
def is_scalar(schema: str) -> bool:
    """True if a schema, as JSON text, allows no object and no array. May be False for others."""
    return _is_scalar(json.loads(schema))


def _is_scalar(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return not any(isinstance(value, (dict, list)) for value in values)
    kinds = schema.get("type")
    if kinds is not None:
        types = kinds if isinstance(kinds, list) else [kinds]
        return all(isinstance(name, str) and name in _SCALARS for name in types)
    parts = schema.get("anyOf") or schema.get("oneOf")
    return isinstance(parts, list) and all(map(_is_scalar, parts))


@lru_cache(maxsize=1024)
def check_regex(pattern: str) -> None:
    """Raise GrammarError for an invalid pattern."""
    parse(pattern)


@lru_cache(maxsize=1024)
def check_stop_regex(pattern: str) -> None:
    """Raise GrammarError for an invalid `stop_regex` pattern."""
    parse_occurrence(pattern)


def _pattern(dtype: Any) -> tuple[str, tuple[str, ...]]:
    name = _name(dtype)
    if name not in _DTYPES:
        raise OptionError(f"dtype={name} is not known", nearest(name, _DTYPES))
    return _DTYPES[name]


def _name(dtype: Any) -> str:
    return dtype.__name__ if isinstance(dtype, type) else str(dtype)


def _schema(schema: Any) -> str:
    """Return `schema_text(schema)`, cached: slow for a type, and the programs of a batch share the
    type."""
    return _cached_text(schema) if isinstance(schema, Hashable) else schema_text(schema)


_cached_text = lru_cache(maxsize=256, typed=True)(schema_text)
