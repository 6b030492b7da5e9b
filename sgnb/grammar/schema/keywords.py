"""Table of the keywords of JSON Schema and their support.

Unlisted keywords are annotations, as in the specification. docs/JSON_SCHEMA.md is generated from
this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

State = OneOf["enforced", "annotation", "refused"]
ENFORCED: State = "enforced"
ANNOTATION: State = "annotation"
REFUSED: State = "refused"

Children = OneOf["", "schema", "list", "mapping", "schema or list", "mapping of schemas or names"]
"""Required form of a value that contains schemas. Only "list" must not be empty."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """Support of a keyword."""

    state: State
    how: str = ""  # enforcement, or the hint if refused
    limits: str = ""  # restrictions compared with JSON Schema
    road: str = ""  # matching engine
    types: tuple[str, ...] = ()  # addressed types, implied if the schema has no `type`
    children: Children = ""


AUTOMATON = "automaton"
INNER = "that of its schemas"

_NUMBER = ("integer", "fraction")
_STRING = ("string",)
_OBJECT = ("object",)
_ARRAY = ("array",)


def _number(how: str, limits: str = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, AUTOMATON, _NUMBER)


def _string(how: str, limits: str = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, AUTOMATON, _STRING)


def _object(how: str, limits: str = "", children: Children = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, INNER if children else AUTOMATON, _OBJECT, children)


def _array(how: str, limits: str = "", children: Children = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, INNER if children else AUTOMATON, _ARRAY, children)


def _logic(how: str, limits: str = "", children: Children = "schema") -> Keyword:
    return Keyword(ENFORCED, how, limits, INNER, (), children)


def _refused(hint: str) -> Keyword:
    return Keyword(REFUSED, hint)


_ANNOTATIONS = (
    "$schema", "$comment", "$vocabulary", "title", "description", "default", "example", "examples",
    "deprecated", "readOnly", "writeOnly", "discriminator", "id", "components",
)  # fmt: skip
_TEXT_IN_TEXT = "a text inside a text is not checked: describe it as an object, or drop the keyword"

KEYWORDS: dict[str, Keyword] = {
    "type": Keyword(
        ENFORCED,
        "the type, or any of a list",
        "a schema without it is read as the types it speaks of",
        INNER,
    ),
    "enum": Keyword(
        ENFORCED,
        "the values, written one way",
        "values that the other keywords forbid are left out",
        AUTOMATON,
    ),
    "const": Keyword(ENFORCED, "the value, written one way", "", AUTOMATON),
    "minimum": _number("digit by digit, for integers and decimals"),
    "maximum": _number("digit by digit, for integers and decimals"),
    "exclusiveMinimum": _number("digit by digit; draft-04's true beside minimum too"),
    "exclusiveMaximum": _number("digit by digit; draft-04's true beside maximum too"),
    "multipleOf": _number(
        "a list of the multiples, or the last digits and the remainder of the digits so far",
        "at most 1000 multiples between minimum and maximum; else a product of 2 and 5 by at most "
        "1000 last digits, times at most 15; or 1/n where n is such a product; or a decimal of at "
        "most 15 without its point",
    ),
    "minLength": _string("counted in characters, not bytes"),
    "maxLength": _string("counted in characters, not bytes"),
    "pattern": _string(
        "the regex anywhere in the text, unless anchored",
        "look-ahead only at the beginning, \\b only at the ends; no look-behind, no "
        "back-references",
    ),
    "format": _string(
        "a pattern for each format, see below", "an unknown format asks nothing, with a warning"
    ),
    "contentEncoding": _string("base64 and base64url"),
    "properties": _object(
        "in the order of the schema", "closed unless additionalProperties is given", "mapping"
    ),
    "required": _object("always written", "a name without a schema holds any value"),
    "additionalProperties": _object(
        "after the named ones, with names that are not among them",
        "absent: closed if properties or patternProperties are given, else open",
        "schema",
    ),
    "unevaluatedProperties": _object(
        "as additionalProperties, after merging",
        "an error where not, if or oneOf rules out some values of a property",
        "schema",
    ),
    "patternProperties": _object(
        "after the named ones", "at most 32 ways for names to match", "mapping"
    ),
    "propertyNames": _object("names as a string schema; with enum, in its order", "", "schema"),
    "minProperties": _object(
        "counted, if at most 8 properties are optional",
        "at most one of the names that the schema does not list",
    ),
    "maxProperties": _object("counted, if at most 8 properties are optional"),
    "dependentRequired": _object(
        "without the property, or with those it needs", "up to 256 cases in all"
    ),
    "dependentSchemas": _object(
        "without the property, or with its schema", "up to 256 cases in all", "mapping"
    ),
    "dependencies": _object(
        "draft-07's spelling of the two above", "", "mapping of schemas or names"
    ),
    "items": _array(
        "each item; a list of schemas as in draft-07 is read as prefixItems", "", "schema or list"
    ),
    "prefixItems": _array("item by item", "", "list"),
    "additionalItems": _array("draft-07: the items after a list of items", "", "schema"),
    "unevaluatedItems": _array(
        "as items, after merging",
        "not beside contains, not or an if that rules out items",
        "schema",
    ),
    "minItems": _array("counted"),
    "maxItems": _array("counted"),
    "uniqueItems": _array(
        "items out of at most 64 known values, in any order where that makes at most 400 lists",
        "else in the order of the enum; with minItems above 1 or maxItems, at most 400 choices",
    ),
    "contains": _array(
        "at least one such item",
        "not beside minItems above 1, maxItems, prefixItems or uniqueItems",
        "schema",
    ),
    "minContains": _array("counted, of contains"),
    "maxContains": _array("counted, of contains", "if `not` can turn contains round"),
    "allOf": _logic("merged", "up to 256 cases in all", "list"),
    "anyOf": _logic("any of them", "", "list"),
    "oneOf": _logic(
        "as anyOf if no two can both hold, else each without the others",
        "an error if neither works",
        "list",
    ),
    "not": _logic(
        "the opposite of type, enum, const, bounds, lengths, pattern, items, prefixItems, "
        "contains, required, properties and logic",
        "other keywords: an error",
    ),
    "if": _logic("the cases if-then and not-if-else", "what `not` can turn round"),
    "then": _logic("see if"),
    "else": _logic("see if"),
    "$ref": Keyword(
        ENFORCED,
        "#, #/$defs/x, any pointer, $anchor and $id inside the schema; up to draft-07 alone",
        "recursive ones need the library; none to other documents",
        INNER,
    ),
    "$defs": Keyword(ENFORCED, "the targets of $ref", "", INNER, (), "mapping"),
    "definitions": Keyword(ENFORCED, "draft-07's spelling of $defs", "", INNER, (), "mapping"),
    "$id": Keyword(ENFORCED, "a target of $ref", "", INNER),
    "$anchor": Keyword(ENFORCED, "a target of $ref", "", INNER),
    **dict.fromkeys(_ANNOTATIONS, Keyword(ANNOTATION)),
    "contentMediaType": _refused(_TEXT_IN_TEXT),
    "contentSchema": _refused(_TEXT_IN_TEXT),
    "$dynamicRef": _refused("use $ref"),
    "$dynamicAnchor": _refused("use $anchor"),
    "$recursiveRef": _refused("use $ref"),
    "$recursiveAnchor": _refused("use $anchor"),
    "nullable": _refused('write "type": [..., "null"]'),
    "divisibleBy": _refused("use multipleOf"),
    "extends": _refused("use allOf"),
    "disallow": _refused("use not"),
    "optional": _refused("leave the name out of required"),
}

_SILENT = frozenset({*_ANNOTATIONS, "$defs", "definitions", "$id", "$anchor"})


def asks_nothing(keyword: str) -> bool:
    """Return True if a keyword constrains no value. Unknown keywords are annotations.

    Args:
        keyword: name of the keyword.
    """
    return keyword in _SILENT or keyword not in KEYWORDS


MOST_CASES = 256
"""Maximum number of cases after merging anyOf, oneOf, if and similar keywords."""
