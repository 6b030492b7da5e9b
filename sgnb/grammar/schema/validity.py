"""Validity of JSON values under a disjunct. Knows no documents: schemas inside the disjunct are the
caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .flat import NUMBERS, FlatSchema, Schema, canonical, type_of
from .regex_search import occurs
from .string_formats import has_format

Valid = Callable[[Schema, Any], bool]
"""Returns True if a value is valid under a schema of the document."""


def holds(disjunct: FlatSchema, value: Any, valid: Valid) -> bool:
    """Return True if `value` is valid under `disjunct`.

    Args:
        disjunct: disjunct of a schema.
        value: JSON value.
        valid: decides about items and members.
    """
    kind = type_of(value)
    if kind not in disjunct.types or canonical(value) in map(canonical, disjunct.excluded):
        return False
    if disjunct.values is not None and canonical(value) not in map(canonical, disjunct.values):
        return False
    if kind in NUMBERS:
        return _number_holds(disjunct, value)
    if kind == "string":
        return _string_holds(disjunct, value)
    if kind == "array":
        return _array_holds(disjunct, value, valid)
    return kind != "object" or _object_holds(disjunct, value, valid)


def _number_holds(disjunct: FlatSchema, value: int | Decimal) -> bool:
    low, high = disjunct.low, disjunct.high
    if low and (value < low.value or (value == low.value and not low.inclusive)):
        return False
    if high and (value > high.value or (value == high.value and not high.inclusive)):
        return False
    return all((Fraction(value) / Fraction(step)).denominator == 1 for step in disjunct.steps)


def _string_holds(disjunct: FlatSchema, text: str) -> bool:
    most = len(text) if disjunct.max_length is None else disjunct.max_length
    return (
        disjunct.min_length <= len(text) <= most
        and all(occurs(pattern, text) for pattern in disjunct.patterns)
        and not any(occurs(pattern, text) for pattern in disjunct.other_patterns)
        and all(has_format(name, text) for name in disjunct.formats)
    )


def _array_holds(disjunct: FlatSchema, items: Sequence[Any], valid: Valid) -> bool:
    most = len(items) if disjunct.max_items is None else disjunct.max_items
    if not disjunct.min_items <= len(items) <= most:
        return False
    if disjunct.unique and len(set(map(canonical, items))) < len(items):
        return False
    if disjunct.contains is not None:
        num_contained = sum(valid(disjunct.contains, item) for item in items)
        most = num_contained if disjunct.max_contains is None else disjunct.max_contains
        if not disjunct.min_contains <= num_contained <= most:
            return False
    return all(valid(disjunct.item(index), item) for index, item in enumerate(items))


def _object_holds(disjunct: FlatSchema, members: Mapping[str, Any], valid: Valid) -> bool:
    most = len(members) if disjunct.max_properties is None else disjunct.max_properties
    if not disjunct.min_properties <= len(members) <= most:
        return False
    if not set(disjunct.required) <= members.keys():
        return False
    for needed in disjunct.needed:
        pairs = members.items()
        if not any(valid(needed.names, name) and valid(needed.value, v) for name, v in pairs):
            return False
    return all(
        valid(disjunct.names, name)
        and all(valid(s, value) for s in (disjunct.member(name), *disjunct.fitting(name)))
        for name, value in members.items()
    )
