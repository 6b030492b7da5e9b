"""Negation of a `FlatSchema`, keyword by keyword. Knows neither logic keywords nor syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .flat import ALL_TYPES, NUMBERS, FlatSchema, NeededMember, Schema
from .numbers import NumberBound

NEGATABLE = {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "pattern", "minItems", "maxItems", "items", "prefixItems",
    "contains", "minContains", "maxContains", "required", "properties",
    "minProperties", "maxProperties", "additionalProperties", "patternProperties",
    "propertyNames",
    "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "$ref",
}  # fmt: skip
"""Keywords with a negation. Violations of other keywords are left out."""


def violations(flat: FlatSchema) -> Iterator[FlatSchema]:
    """Yield a disjunct for each way in which a value can violate a schema.

    Args:
        flat: keywords of the schema, without logic.
    """
    if others := ALL_TYPES - flat.types:
        yield FlatSchema(types=others)
    if flat.values is not None:
        yield FlatSchema(excluded=flat.values)
    if flat.low:
        yield FlatSchema(types=NUMBERS, high=NumberBound(flat.low.value, not flat.low.inclusive))
    if flat.high:
        yield FlatSchema(types=NUMBERS, low=NumberBound(flat.high.value, not flat.high.inclusive))
    string, array, members = (frozenset({name}) for name in ("string", "array", "object"))
    if flat.min_length:
        yield FlatSchema(types=string, max_length=flat.min_length - 1)
    if flat.max_length is not None:
        yield FlatSchema(types=string, min_length=flat.max_length + 1)
    for pattern in flat.patterns:
        yield FlatSchema(types=string, other_patterns=(pattern,))
    if flat.min_items:
        yield FlatSchema(types=array, max_items=flat.min_items - 1)
    if flat.max_items is not None:
        yield FlatSchema(types=array, min_items=flat.max_items + 1)
    if flat.min_properties:
        yield FlatSchema(types=members, max_properties=flat.min_properties - 1)
    if flat.max_properties is not None:
        yield FlatSchema(types=members, min_properties=flat.max_properties + 1)
    for name in flat.required:
        yield FlatSchema(types=members, properties={name: False})
    for needed in _needed(flat):
        yield FlatSchema(types=members, needed=(needed,))
    for name, schema in flat.properties.items():
        if schema is not True:
            wrong: dict[str, Schema] = {name: {"not": schema}}
            yield FlatSchema(types=members, properties=wrong, required=(name,))

    for index, schema in enumerate(flat.prefix):
        leading: tuple[Schema, ...] = (True,) * index
        yield FlatSchema(
            types=array, prefix=(*leading, {"not": schema}), items=True, min_items=index + 1
        )

    if flat.contains is not None and flat.min_contains == 1:
        yield FlatSchema(types=array, items={"not": flat.contains})
    elif flat.contains is not None and flat.min_contains:
        few = flat.min_contains - 1
        yield FlatSchema(types=array, contains=flat.contains, min_contains=0, max_contains=few)

    if flat.contains is not None and flat.max_contains is not None:
        yield FlatSchema(types=array, contains=flat.contains, min_contains=flat.max_contains + 1)
    if flat.items is not None and not flat.prefix:
        yield FlatSchema(types=array, contains={"not": flat.items})


def _needed(flat: FlatSchema) -> Iterator[NeededMember]:
    """Yield the members that violate the keywords of unlisted names."""
    patterns = flat.pattern_properties
    for pattern, schema in patterns.items():
        if schema is not True:
            yield NeededMember({"pattern": pattern}, _opposite(schema))
    if flat.names is not True:
        yield NeededMember(_opposite(flat.names), True)
    if flat.additional not in (None, True):
        listed: list[Schema] = [{"pattern": pattern} for pattern in patterns]
        listed += [{"enum": list(flat.properties)}] if flat.properties else []
        names: Schema = {"not": {"anyOf": listed}} if listed else True
        yield NeededMember(names, _opposite(flat.additional))


def _opposite(schema: Schema) -> Schema:
    return not schema if isinstance(schema, bool) else {"not": schema}


def unevaluated(disjunct: FlatSchema) -> FlatSchema:
    """Mark a disjunct of a negated schema: its members and items do not count as evaluated.

    Args:
        disjunct: disjunct of the negated schema.
    """
    members = any(schema is not False for schema in disjunct.properties.values())
    inside = (
        disjunct.pattern_properties,
        disjunct.partial_additional,
        disjunct.needed,
        disjunct.prefix,
        disjunct.additional,
        disjunct.items,
        disjunct.contains,
    )
    return (
        replace(disjunct, negated=True)
        if members or any(x not in (None, {}, ()) for x in inside)
        else disjunct
    )
