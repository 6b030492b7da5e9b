"""`FlatSchema`, a schema without references and logic: how two are merged, how values compare.

Knows no syntax trees. Sub-schemas stay as in JSON; two for one place become one `allOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from ...errors import GrammarError
from .numbers import Bound
from .patterns import occurs

Schema = dict[str, Any] | bool
Join = Callable[[Schema, Schema], Schema]
"""Makes one schema for the conjunction of two."""

ALL_TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""JSON's types, with numbers split into integers and fractions."""

NUMBERS = frozenset({"integer", "fraction"})


@dataclass(frozen=True, slots=True)
class FlatSchema:
    """What a schema asks of a value, keyword by keyword; the defaults ask nothing."""

    types: frozenset[str] = ALL_TYPES  # those allowed
    spoken: frozenset[str] = frozenset()  # those that its keywords are about
    values: tuple[Any, ...] | None = None  # enum and const
    excluded: tuple[Any, ...] = ()  # values that are forbidden
    low: Bound | None = None
    high: Bound | None = None
    steps: tuple[int | Decimal, ...] = ()  # multipleOf
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    other_patterns: tuple[str, ...] = ()  # negated ones
    formats: tuple[str, ...] = ()
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Schema | None = None  # additionalProperties
    pattern_properties: Mapping[str, Schema] = field(default_factory=dict)
    names: Schema = True  # propertyNames
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
    negated: bool = False  # whether members or items come from a schema that does not hold
    source: Any = None  # as written, for messages

    def narrowed(self) -> frozenset[str]:
        """The types allowed; without `type`, those that the keywords are about."""
        return self.spoken if self.types == ALL_TYPES and self.spoken else self.types

    def opened(self) -> FlatSchema:
        """As the specification reads it: what the schema does not speak of may be anything."""
        additional = True if self.additional is None else self.additional
        items = True if self.items is None else self.items
        return replace(self, spoken=frozenset(), additional=additional, items=items)

    def item(self, index: int) -> Schema:
        """The schema of the item at `index`."""
        if index < len(self.prefix):
            return self.prefix[index]
        return True if self.items is None else self.items

    def member(self, name: str) -> Schema:
        """The schema of a property, without those of the patterns that match its name."""
        if name in self.properties:
            return self.properties[name]
        return True if self.additional is None or self.fitting(name) else self.additional

    def fitting(self, name: str) -> list[Schema]:
        """The schemas of the patterns that match `name`."""
        return [schema for p, schema in self.pattern_properties.items() if occurs(p, name)]


def canonical(value: Any) -> Any:
    """A hashable key, the same for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, bool) or value is None:
        return str(value), None
    if isinstance(value, Mapping):
        return "object", frozenset((key, canonical(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "array", tuple(canonical(item) for item in value)
    return "string" if isinstance(value, str) else "number", value


def type_of(value: Any) -> str:
    """The type of a JSON value, as in ALL_TYPES."""
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
    """The conjunction of two. Raises GrammarError where that has no `FlatSchema`."""
    changes: dict[str, Any] = {
        "types": a.types & b.types,
        "spoken": a.spoken | b.spoken,
        "values": common_values(a.values, b.values),
        "excluded": a.excluded + b.excluded,
        "low": tighter(a.low, b.low, 1),
        "high": tighter(a.high, b.high, -1),
        "names": join(a.names, b.names),
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
        raise GrammarError("contains twice", "say it once")
    counted = b if a.contains is None else a
    for name in ("contains", "min_contains", "max_contains"):
        changes[name] = getattr(counted, name)
    return replace(a, **changes, **_merged_members(a, b, join), **_merged_items(a, b, join))


def common_values(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The values in both; None stands for all values."""
    if a is None or b is None:
        return b if a is None else a
    known = set(map(canonical, b))
    return tuple(value for value in a if canonical(value) in known)


def tighter(a: Bound | None, b: Bound | None, direction: int) -> Bound | None:
    """The tighter bound: of lower bounds with direction 1, of upper ones with -1."""
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
    for one in (a, b):
        if one.additional is not None and patterns.keys() != one.pattern_properties.keys():
            problem = "additionalProperties and patternProperties in different parts of allOf"
            raise GrammarError(problem, "say both in the same part")
    names = {**a.properties, **b.properties}
    return {
        "properties": {name: join(a.member(name), b.member(name)) for name in names},
        "pattern_properties": patterns,
        "additional": _both(a.additional, b.additional, join),
    }


def _merged_items(a: FlatSchema, b: FlatSchema, join: Join) -> dict[str, Any]:
    length = max(len(a.prefix), len(b.prefix))
    return {
        "prefix": tuple(join(a.item(index), b.item(index)) for index in range(length)),
        "items": _both(a.items, b.items, join),
    }


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values without repetitions, in order."""
    return tuple({canonical(value): value for value in reversed(list(values))}.values())[::-1]
