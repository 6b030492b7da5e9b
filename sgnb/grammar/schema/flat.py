"""`FlatSchema`, a schema without references and logic: merging of two schemas, comparison of
values.

Knows no syntax trees. Sub-schemas stay in JSON form; two sub-schemas of the same position become an
`allOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ...errors import GrammarError
from .numbers import NumberBound
from .regex_search import occurs

Schema = dict[str, Any] | bool
Join = Callable[[Schema, Schema], Schema]
"""Returns the conjunction of two schemas as a schema."""

ALL_TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""JSON's types, with numbers split into integers and fractions."""

NUMBERS = frozenset({"integer", "fraction"})


class NeededMember(NamedTuple):
    """A member of every object: a schema of the name, and a schema of the value."""

    names: Schema
    value: Schema


@dataclass(frozen=True, slots=True)
class FlatSchema:
    """Constraints on a value, by keyword. The defaults constrain nothing."""

    types: frozenset[str] = ALL_TYPES  # allowed types
    spoken: frozenset[str] = frozenset()  # types addressed by the keywords
    values: tuple[Any, ...] | None = None  # enum and const
    excluded: tuple[Any, ...] = ()  # forbidden values
    low: NumberBound | None = None
    high: NumberBound | None = None
    steps: tuple[int | Decimal, ...] = ()  # multipleOf
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    other_patterns: tuple[str, ...] = ()  # negated patterns
    formats: tuple[str, ...] = ()
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Schema | None = None  # additionalProperties
    pattern_properties: Mapping[str, Schema] = field(default_factory=dict)
    # additionalProperties of parts of allOf with a part of the patterns: (patterns, schema)
    partial_additional: tuple[tuple[frozenset[str], Schema], ...] = ()
    names: Schema = True  # propertyNames
    needed: tuple[NeededMember, ...] = ()
    unlisted: tuple[NeededMember, ...] = ()  # `needed` members outside of `properties`
    min_properties: int = 0
    max_properties: int | None = None
    prefix: tuple[Schema, ...] = ()  # prefixItems
    items: Schema | None = None
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    contains: Schema | None = None
    min_contains: int = 1
    max_contains: int | None = None
    negated: bool = False  # members or items come from a negated schema
    source: Any = None  # original schema, for messages

    def narrowed(self) -> frozenset[str]:
        """Return the allowed types; without `type`, only the types addressed by the keywords."""
        return self.spoken if self.types == ALL_TYPES and self.spoken else self.types

    def opened(self) -> FlatSchema:
        """Return the schema per the specification: unmentioned types, properties and items may be
        anything."""
        additional = True if self.additional is None else self.additional
        items = True if self.items is None else self.items
        return replace(self, spoken=frozenset(), additional=additional, items=items)

    def item(self, index: int) -> Schema:
        """Return the schema of the item at `index`.

        Args:
            index: position in the array, from 0.
        """
        if index < len(self.prefix):
            return self.prefix[index]
        return True if self.items is None else self.items

    def member(self, name: str) -> Schema:
        """Return the schema of a property, without the schemas of matching patterns.

        Args:
            name: name of the property.
        """
        if name in self.properties:
            return self.properties[name]
        return True if self.additional is None or self._matching(name) else self.additional

    def fitting(self, name: str) -> list[Schema]:
        """Return the schemas of the patterns that match `name`, and of `partial_additional`.

        Args:
            name: name of a property.
        """
        matching = self._matching(name)
        schemas = [self.pattern_properties[pattern] for pattern in matching]
        return schemas if name in self.properties else schemas + self.remaining(matching)

    def remaining(self, matching: Collection[str]) -> list[Schema]:
        """Return the schemas of `partial_additional` for an unlisted name.

        Args:
            matching: the patterns that match the name.
        """
        return [schema for some, schema in self.partial_additional if some.isdisjoint(matching)]

    def _matching(self, name: str) -> list[str]:
        return [pattern for pattern in self.pattern_properties if occurs(pattern, name)]


def canonical(value: Any) -> Any:
    """Return a hashable key, identical for equal JSON values: 1 equals 1.0, but 1 does not equal
    true.

    Args:
        value: JSON value.
    """
    if isinstance(value, bool) or value is None:
        return str(value), None
    if isinstance(value, Mapping):
        return "object", frozenset((key, canonical(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "array", tuple(canonical(item) for item in value)
    return "string" if isinstance(value, str) else "number", value


def type_of(value: Any) -> str:
    """Return the type of a JSON value, a member of ALL_TYPES.

    Args:
        value: JSON value.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, Decimal)):
        return "integer" if value == int(value) else "fraction"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def merge(a: FlatSchema, b: FlatSchema, join: Join) -> FlatSchema:
    """Return the conjunction of two schemas.

    Args:
        a: first schema.
        b: second schema.
        join: returns the conjunction of two sub-schemas.

    Raises:
        GrammarError: no `FlatSchema` describes the conjunction.
    """
    changes: dict[str, Any] = {
        "types": a.types & b.types,
        "spoken": a.spoken | b.spoken,
        "values": common_values(a.values, b.values),
        "excluded": a.excluded + b.excluded,
        "low": tighter(a.low, b.low, 1),
        "high": tighter(a.high, b.high, -1),
        "names": join(a.names, b.names),
        "needed": a.needed + b.needed,
        "unique": a.unique or b.unique,
        "negated": a.negated or b.negated,
        "source": a.source or b.source,
    }
    for name in ("steps", "patterns", "other_patterns", "formats", "required"):
        changes[name] = tuple(dict.fromkeys((*getattr(a, name), *getattr(b, name))))

    for name in ("min_length", "min_properties", "min_items"):
        changes[name] = max(getattr(a, name), getattr(b, name))
    for name in ("max_length", "max_properties", "max_items"):
        changes[name] = _least(getattr(a, name), getattr(b, name))
    if a.contains is not None and b.contains is not None:
        raise GrammarError("contains twice", "use it once")
    counted = b if a.contains is None else a
    for name in ("contains", "min_contains", "max_contains"):
        changes[name] = getattr(counted, name)
    return replace(a, **changes, **_merged_members(a, b, join), **_merged_items(a, b, join))


def common_values(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return the values in both tuples; None stands for all values.

    Args:
        a: values, or None.
        b: values, or None.
    """
    if a is None or b is None:
        return b if a is None else a
    keys = set(map(canonical, b))
    return tuple(value for value in a if canonical(value) in keys)


def tighter(a: NumberBound | None, b: NumberBound | None, direction: int) -> NumberBound | None:
    """Return the tighter bound.

    Args:
        a: bound, or None.
        b: bound, or None.
        direction: 1 for lower bounds, -1 for upper bounds.
    """
    if a is None or b is None:
        return b if a is None else a
    if a.value == b.value:
        return b if a.inclusive else a
    return a if (a.value > b.value) == (direction > 0) else b


def _least(a: int | None, b: int | None) -> int | None:
    return min((limit for limit in (a, b) if limit is not None), default=None)


def _both(a: Schema | None, b: Schema | None, join: Join) -> Schema | None:
    if a is None or b is None:
        return b if a is None else a
    return join(a, b)


def _merged_members(a: FlatSchema, b: FlatSchema, join: Join) -> dict[str, Any]:
    patterns: dict[str, Schema] = dict(a.pattern_properties)
    for pattern, schema in b.pattern_properties.items():
        patterns[pattern] = join(patterns[pattern], schema) if pattern in patterns else schema
    additional: Schema | None = None
    partial = [*a.partial_additional, *b.partial_additional]
    for part in (a, b):
        if patterns.keys() == part.pattern_properties.keys():
            additional = _both(additional, part.additional, join)
        elif part.additional is not None:
            partial.append((frozenset(part.pattern_properties), part.additional))

    names = {**a.properties, **b.properties}
    return {
        "properties": {
            name: join(own_member(a, name, join), own_member(b, name, join)) for name in names
        },
        "pattern_properties": patterns,
        "additional": additional,
        "partial_additional": tuple(partial),
    }


def own_member(part: FlatSchema, name: str, join: Join) -> Schema:
    """Return the schema of a property, without the schemas of patterns.

    Args:
        part: disjunct of the property.
        name: name of the property.
        join: returns the conjunction of two sub-schemas.
    """
    schema = part.member(name)
    if name not in part.properties and part.partial_additional:
        matching = [pattern for pattern in part.pattern_properties if occurs(pattern, name)]
        for other in part.remaining(matching):
            schema = join(schema, other)
    return schema


def _merged_items(a: FlatSchema, b: FlatSchema, join: Join) -> dict[str, Any]:
    length = max(len(a.prefix), len(b.prefix))
    return {
        "prefix": tuple(join(a.item(index), b.item(index)) for index in range(length)),
        "items": _both(a.items, b.items, join),
    }


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values without repetitions, in order.

    Args:
        values: JSON values.
    """
    return tuple({canonical(value): value for value in reversed(list(values))}.values())[::-1]
