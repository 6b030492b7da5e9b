"""Checks of schemas and grammars at the line of `gen`, before an engine is known."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from .llguidance_backend.cfg_matcher import check_lark
from .llguidance_backend.ebnf import write_ebnf
from .llguidance_backend.gbnf import is_gbnf, parse_gbnf
from .schema.index import SchemaIndex, children, read_schema
from .schema.keyword_reader import read_keyword
from .schema.keywords import KEYWORDS, REFUSED
from .schema.validate import DOUBLES
from .spec import GrammarSpec

LONGEST = 20_000
"""Characters of a grammar that is checked completely, within about 0.1 s."""

_DEFINITIONS = "$defs/", "definitions/"
_UNCHECKED = {"contentEncoding"}  # encodings that only services enforce
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


@lru_cache(maxsize=256)
def check_schema(text: str) -> None:
    """Check the keywords of a schema, as far as a value or a reference reaches them.

    Keywords that no engine of sgnb enforces pass, because a service may enforce the keywords.

    Args:
        text: JSON text of the schema.

    Raises:
        GrammarError: a keyword has an invalid value, or a `$ref` has no target.
    """
    index = SchemaIndex(read_schema(text, DOUBLES))
    visited: set[int] = set()
    waiting: list[Any] = [index.root]

    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in visited:
            continue
        visited.add(id(schema))

        for keyword in filter(partial(_is_checked, schema), schema):
            read_keyword(schema, keyword, {}, index)

        if "$ref" in schema:
            waiting.append(index.resolve(schema)[1])
        waiting += [part for name, part in children(schema) if not name.startswith(_DEFINITIONS)]


def _is_checked(schema: dict[str, Any], keyword: str) -> bool:
    """Return False for unknown keywords, and for values that a service may enforce."""
    if keyword not in KEYWORDS or KEYWORDS[keyword].state == REFUSED or keyword in _UNCHECKED:
        return False
    return keyword not in _BOUNDS or not isinstance(schema[keyword], (int, Decimal))


@lru_cache(maxsize=256)
def check_ebnf(text: str) -> None:
    """Check a grammar in GBNF or Lark notation; beyond `LONGEST` characters only the notation.

    Args:
        text: grammar of a user.

    Raises:
        GrammarError: the grammar is invalid, unsupported or too large.
    """
    GrammarSpec("ebnf", text)
    if len(text) <= LONGEST:
        check_lark(write_ebnf(text)[0])
    elif is_gbnf(text):
        parse_gbnf(text)
