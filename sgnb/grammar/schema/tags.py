"""Tags of disjuncts: required properties with listed values, which tell alternatives apart."""

from __future__ import annotations

from typing import Any

from .flat import FlatSchema, canonical

Tags = dict[str, frozenset[Any]]


def tags_of(disjunct: FlatSchema) -> Tags:
    """Return the const and enum values of required properties, if only objects are allowed.

    Args:
        disjunct: disjunct of a schema.
    """
    if disjunct.types != {"object"}:
        return {}
    tags = {}
    for name in disjunct.required:
        schema = disjunct.properties.get(name)
        if isinstance(schema, dict) and "const" in schema:
            tags[name] = frozenset([canonical(schema["const"])])
        elif isinstance(schema, dict) and isinstance(schema.get("enum"), list):
            tags[name] = frozenset(map(canonical, schema["enum"]))
    return tags


def differ(tags: Tags, others: Tags) -> bool:
    """True if a property has no common value, so the two disjuncts are disjoint.

    Args:
        tags: tags of a disjunct.
        others: tags of the other disjunct.
    """
    return any(name in others and values.isdisjoint(others[name]) for name, values in tags.items())
