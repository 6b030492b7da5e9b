"""Places of a JSON text: the schemas of a value, found from the value's path.

A place holds a superset of the schemas: alternatives of anyOf, oneOf and if count as applied, and
every pattern counts as matching. An array is therefore distinct if any schema of the place requires
distinct items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from ...errors import GrammarError
from ..regex.ecmascript import to_python
from ..schema.index import SchemaIndex, read_schema
from ..schema.item_counts import count_texts
from ..schema.keywords import asks_nothing
from ..schema.regex_search import compile_search

_SINGLE = ("if", "then", "else", "not")
_LISTS = ("allOf", "anyOf", "oneOf")
_DEPENDENT = ("dependentSchemas", "dependencies")

_OPEN = frozenset({"type", "minLength", "pattern", "$ref", "allOf", "anyOf"})
_LIMITS = frozenset({"format", "pattern", "maxLength"})
_END = re.compile(r"\$|\(\?|\\[bBZz]")
"""Keywords of strings; the syntax of patterns with a limited end."""

MANY = 1000
_LONG = 4
"""Number of items that count as many; maximum length with many strings."""

MOST_NAMES = 1000
"""Cached places per object; names outside of `properties` are unbounded."""


class Place:
    """Schemas of a value.

    Args:
        index: schema document.
        schemas: schemas of the document, with the schemas of all references.
        known: places of the document by their schemas, extended by the place.
    """

    def __init__(
        self,
        index: SchemaIndex,
        schemas: tuple[dict[str, Any], ...],
        known: dict[tuple[int, ...], Place],
    ) -> None:
        self._index, self._schemas, self._known = index, schemas, known
        self._members: dict[str, Place] = {}
        self._items: dict[int, Place] = {}
        self._longest = max((len(_prefix(schema)) for schema in schemas), default=0)
        # True if an array here has distinct items.
        self.is_distinct = any(schema.get("uniqueItems") is True for schema in schemas)
        # True if every beginning of a name of an object here belongs to an unused name.
        self.has_open_names = not any(map(_limits_names, schemas))

    @cached_property
    def has_open_items(self) -> bool:
        """True if every beginning of an item of an array here belongs to an unused item."""
        return self._has_strings(_OPEN) and all(map(_has_open_end, self.item(0)._schemas))

    @cached_property
    def has_many_items(self) -> bool:
        """True if at least `MANY` items exist."""
        if self.has_open_items:
            return True
        limits = [part for part in self.item(0)._schemas if not _LIMITS.isdisjoint(part)]
        return self._has_strings(_OPEN | _LIMITS) and len(limits) == 1 and _has_many(limits[0])

    def _has_strings(self, keywords: frozenset[str]) -> bool:
        """True if the items are strings with only `keywords`."""
        schemas = self.item(0)._schemas
        kinds = {kind for part in schemas if isinstance(kind := part.get("type"), str)}
        named = all(
            keyword in keywords or asks_nothing(keyword) for part in schemas for keyword in part
        )
        return not self._longest and kinds == {"string"} and named

    def member(self, name: str) -> Place:
        """Return the place of a property's value.

        Args:
            name: decoded name of the property.
        """
        place = self._members.get(name)
        if place is None:
            if len(self._members) >= MOST_NAMES:
                self._members.clear()
            inner = (part for schema in self._schemas for part in _member(schema, name))
            place = self._members[name] = _place(self._index, inner, self._known)
        return place

    def item(self, number: int) -> Place:
        """Return the place of an item.

        Args:
            number: index of the item.
        """
        number = min(number, self._longest)
        place = self._items.get(number)
        if place is None:
            inner = (part for schema in self._schemas for part in _item(schema, number))
            place = self._items[number] = _place(self._index, inner, self._known)
        return place


def _limits_names(schema: dict[str, Any]) -> bool:
    patterns = schema.get("patternProperties")
    return "propertyNames" in schema or any(map(_END.search, patterns or ()))


def _has_open_end(schema: dict[str, Any]) -> bool:
    return not _END.search(schema.get("pattern", ""))


def _has_many(schema: dict[str, Any]) -> bool:
    if schema.get("maxLength", MANY) < _LONG:
        return False
    if "pattern" not in schema:
        return True
    try:
        automaton = compile_search(to_python(schema["pattern"]))
    except GrammarError:
        return False
    return "maxLength" not in schema and count_texts(automaton, MANY) == MANY


def root_place(schema_text: str) -> Place:
    """Return the place of the whole text.

    Args:
        schema_text: JSON text of a schema, accepted by `translate`.
    """
    index = SchemaIndex(read_schema(schema_text))
    return _place(index, [index.root], {})


def _place(
    index: SchemaIndex, schemas: Iterable[Any], known: dict[tuple[int, ...], Place]
) -> Place:
    """Return the place of `schemas` and of all referenced and combined schemas."""
    reached: dict[int, dict[str, Any]] = {}
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in reached:
            continue
        reached[id(schema)] = schema
        waiting += _combined(schema)
        if "$ref" in schema:
            waiting.append(_target(index, schema))

    key = tuple(sorted(reached))
    if key not in known:
        known[key] = Place(index, tuple(reached.values()), known)
    return known[key]


def _target(index: SchemaIndex, schema: dict[str, Any]) -> Any:
    try:
        return index.resolve(schema)[1]
    except GrammarError:  # inside an annotation
        return True


def _combined(schema: dict[str, Any]) -> Iterator[Any]:
    yield from (schema[keyword] for keyword in _SINGLE if keyword in schema)
    for keyword in _LISTS:
        if isinstance(parts := schema.get(keyword), list):
            yield from parts
    for keyword in _DEPENDENT:
        if isinstance(parts := schema.get(keyword), dict):
            yield from parts.values()


def _member(schema: dict[str, Any], name: str) -> Iterator[Any]:
    properties, patterns = (
        part if isinstance(part := schema.get(keyword), dict) else {}
        for keyword in ("properties", "patternProperties")
    )
    yield from patterns.values()
    yield properties[name] if name in properties else schema.get("additionalProperties")
    yield schema.get("unevaluatedProperties")


def _prefix(schema: dict[str, Any]) -> list[Any]:
    for keyword in ("prefixItems", "items"):
        if isinstance(parts := schema.get(keyword), list):
            return parts
    return []


def _item(schema: dict[str, Any], number: int) -> Iterator[Any]:
    prefix = _prefix(schema)
    if number < len(prefix):
        yield prefix[number]
    else:
        yield schema.get("additionalItems" if prefix is schema.get("items") else "items")
    yield schema.get("unevaluatedItems")
    yield schema.get("contains")
