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
    engine: str = ""  # automaton, or chosen by the inner schemas
    types: tuple[str, ...] = ()  # addressed types, implied if the schema has no `type`
    children: Children = ""


AUTOMATON = "automaton"
INNER = "per inner schema"

_NUMBER = ("integer", "fraction")
_STRING = ("string",)
_OBJECT = ("object",)
_ARRAY = ("array",)


def _number(how: str, limits: str = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, engine=AUTOMATON, types=_NUMBER)


def _string(how: str, limits: str = "") -> Keyword:
    return Keyword(ENFORCED, how, limits, engine=AUTOMATON, types=_STRING)


def _object(how: str, limits: str = "", children: Children = "") -> Keyword:
    engine = INNER if children else AUTOMATON
    return Keyword(ENFORCED, how, limits, engine=engine, types=_OBJECT, children=children)


def _array(how: str, limits: str = "", children: Children = "") -> Keyword:
    engine = INNER if children else AUTOMATON
    return Keyword(ENFORCED, how, limits, engine=engine, types=_ARRAY, children=children)


def _logic(how: str, limits: str = "", children: Children = "schema") -> Keyword:
    return Keyword(ENFORCED, how, limits, engine=INNER, children=children)


def _refused(hint: str) -> Keyword:
    return Keyword(REFUSED, hint)


_ANNOTATIONS = (
    "$schema", "$comment", "$vocabulary", "title", "description", "default", "example", "examples",
    "deprecated", "readOnly", "writeOnly", "discriminator", "id", "components",
)  # fmt: skip
_DYNAMIC_LIMITS = "the root's schema, or only one schema, has the anchor"
_TEXT_IN_TEXT = "a text inside a text is not checked: describe an object, or drop the keyword"

KEYWORDS: dict[str, Keyword] = {
    "type": Keyword(
        ENFORCED,
        "the type, or any type of a list",
        "without `type`, the types that the other keywords address",
        INNER,
    ),
    "enum": Keyword(
        ENFORCED,
        "the values, in one spelling",
        "values forbidden by other keywords are omitted",
        AUTOMATON,
    ),
    "const": Keyword(ENFORCED, "the value, in one spelling", "", AUTOMATON),
    "minimum": _number("digit by digit, for integers and decimals"),
    "maximum": _number("digit by digit, for integers and decimals"),
    "exclusiveMinimum": _number("digit by digit; also true next to minimum (draft-04)"),
    "exclusiveMaximum": _number("digit by digit; also true next to maximum (draft-04)"),
    "multipleOf": _number(
        "a list of the multiples, or the last digits and the remainder of the leading digits",
        "at most 1000 multiples between minimum and maximum; otherwise a product of 2s and 5s with "
        "at most 1000 last digits, times at most 15; or 1/n for n of this form; or a decimal of at "
        "most 15 without the point, or of this form",
    ),
    "minLength": _string("counted in characters, not bytes"),
    "maxLength": _string("counted in characters, not bytes"),
    "pattern": _string(
        "a search for the regex, unless anchored",
        "look-ahead only at the start, look-behind only at the end, \\b only at start and end; no "
        "back-references",
    ),
    "format": _string(
        "a pattern per format, see below", "an unknown format is an annotation, with a warning"
    ),
    "contentEncoding": _string("base64 and base64url"),
    "properties": _object(
        "in the order of the schema", "closed unless additionalProperties is given", "mapping"
    ),
    "required": _object("always present", "a name without a schema has any value"),
    "additionalProperties": _object(
        "after the named properties, with other names",
        "absent: closed if properties or patternProperties is present, otherwise open",
        "schema",
    ),
    "unevaluatedProperties": _object(
        "like additionalProperties, after merging",
        "an error if not, if or oneOf excludes some values of a property",
        "schema",
    ),
    "patternProperties": _object(
        "after the named properties", "at most 32 combinations of matching patterns", "mapping"
    ),
    "propertyNames": _object(
        "a string schema for names; with enum, in the order of enum", "", "schema"
    ),
    "minProperties": _object("counted, if at most 8 properties are optional"),
    "maxProperties": _object("counted, if at most 8 properties are optional"),
    "dependentRequired": _object(
        "without the property, or with the required properties", "at most 256 disjuncts"
    ),
    "dependentSchemas": _object(
        "without the property, or with the schema", "at most 256 disjuncts", "mapping"
    ),
    "dependencies": _object(
        "spelling of the previous two in draft-07", "", "mapping of schemas or names"
    ),
    "items": _array(
        "each item; a list of schemas (draft-07) acts as prefixItems", "", "schema or list"
    ),
    "prefixItems": _array("item by item", "", "list"),
    "additionalItems": _array("draft-07: items after a list of items", "", "schema"),
    "unevaluatedItems": _array(
        "like items, after merging",
        "not with contains, not, or an if that excludes items",
        "schema",
    ),
    "minItems": _array("counted"),
    "maxItems": _array("counted"),
    "uniqueItems": _array(
        "earlier items are remembered: equal JSON values in any spelling are forbidden",
        "also if only one alternative of anyOf, oneOf or if requires distinct items",
    ),
    "contains": _array(
        "at least one matching item",
        "not with prefixItems; minItems above 1 and maxItems up to 32, and only for one item",
        "schema",
    ),
    "minContains": _array("counted, for contains"),
    "maxContains": _array("counted, for contains", "if `not` supports the schema of contains"),
    "allOf": _logic("merged", "at most 256 disjuncts", "list"),
    "anyOf": _logic("any of the schemas", "", "list"),
    "oneOf": _logic(
        "anyOf if the schemas are disjoint, otherwise each schema without the others",
        "an error if neither is possible",
        "list",
    ),
    "not": _logic(
        "the negation of type, enum, const, bounds, lengths, pattern, items, prefixItems, "
        "contains, required, properties, additionalProperties, patternProperties, propertyNames, "
        "minProperties, maxProperties and logic",
        "violations of other keywords are left out; an error if no violation remains",
    ),
    "if": _logic("the disjuncts if-then and not-if-else", "conditions that `not` supports"),
    "then": _logic("see if"),
    "else": _logic("see if"),
    "$ref": Keyword(
        ENFORCED,
        "#, #/$defs/x, any pointer, $anchor and $id in the schema; in draft-07 without siblings",
        "recursive references use llguidance; other documents only as `documents`",
        INNER,
    ),
    "$defs": _logic("targets of $ref", children="mapping"),
    "definitions": _logic("spelling of $defs in draft-07", children="mapping"),
    "$id": Keyword(ENFORCED, "a target of $ref", "", INNER),
    "$anchor": Keyword(ENFORCED, "a target of $ref", "", INNER),
    "$dynamicRef": Keyword(ENFORCED, "like $ref", _DYNAMIC_LIMITS, INNER),
    "$dynamicAnchor": Keyword(ENFORCED, "a target of $dynamicRef", "", INNER),
    "$recursiveRef": Keyword(ENFORCED, "like $ref", _DYNAMIC_LIMITS, INNER),
    "$recursiveAnchor": Keyword(ENFORCED, "a target of $recursiveRef", "", INNER),
    **dict.fromkeys(_ANNOTATIONS, Keyword(ANNOTATION)),
    "contentMediaType": _refused(_TEXT_IN_TEXT),
    "contentSchema": _refused(_TEXT_IN_TEXT),
    "nullable": _refused('write "type": [..., "null"]'),
    "divisibleBy": _refused("use multipleOf"),
    "extends": _refused("use allOf"),
    "disallow": _refused("use not"),
    "optional": _refused("omit the name from required"),
}

_SILENT = frozenset(
    {*_ANNOTATIONS, "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
)


def asks_nothing(keyword: str) -> bool:
    """Return True if a keyword constrains no value. Unknown keywords are annotations.

    Args:
        keyword: name of the keyword.
    """
    return keyword in _SILENT or keyword not in KEYWORDS


MAX_DISJUNCTS = 256
"""Maximum number of disjuncts after merging anyOf, oneOf, if and similar keywords."""
