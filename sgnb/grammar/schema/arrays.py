"""A `FlatSchema` as the tree of its arrays. Knows no other types."""

from __future__ import annotations

import math
from typing import Any

from ..syntax import EMPTY, NOTHING, Node, Repeat, Source, concat, optional
from .flat import FlatSchema, Schema, distinct
from .members import Part, counted, listed, permuted
from .objects import Writer
from .text import Layout

MOST_ARRANGED = 400
"""So many orders of distinct values are written out."""

MOST_DISTINCT = 64
MOST_LOOSE = 60
"""So many items of prefixItems may be left out."""


def array_tree(flat: FlatSchema, label: str, writer: Writer) -> Node:
    """The arrays that `flat` allows. Raises GrammarError."""
    most = flat.max_items
    if most is not None and most < flat.min_items:
        return NOTHING
    if flat.unique and (most is None or most > 1):
        inside, empty = _distinct(flat, label, writer)
        return writer.layout.brackets(inside, empty)
    if flat.contains is not None and not (flat.contains is True and flat.min_items):
        return _containing(flat, label, writer)
    if flat.prefix:
        return writer.layout.brackets(_tuple(flat, label, writer), flat.min_items == 0)
    item = _item(flat.item(0), f"{label}[]", writer)
    if item == NOTHING or most == 0:
        return writer.layout.brackets(NOTHING, flat.min_items == 0)
    return writer.layout.brackets(
        writer.layout.repeated(item, flat.min_items, most), flat.min_items == 0
    )


def _item(schema: Schema, label: str, writer: Writer) -> Node:
    node = writer.value(schema, label)
    return node if node == NOTHING else Source(node, label)


def _tuple(flat: FlatSchema, label: str, writer: Writer) -> Node:
    """At least one item: those of prefixItems, then the others; without `items`, others only where
    minItems asks."""
    length, layout = len(flat.prefix), writer.layout
    least, most = flat.min_items, flat.max_items
    if length - least > MOST_LOOSE:
        problem = f"{length - least} items may be left out"
        raise writer.reader.index.error(
            flat.source, "prefixItems", problem, f"set minItems to {length}"
        )
    if flat.items is None and least <= length:
        most = length if most is None else min(most, length)
    rest: Node = EMPTY
    if most is None or most > length:
        other = _item(flat.item(length), f"{label}[]", writer)
        if other != NOTHING:
            more = None if most is None else most - length
            rest = Repeat(concat(layout.comma, other), max(least - length, 0), more)
        elif least > length:
            return NOTHING
    items = []
    for place in range(length if most is None else min(length, most)):
        item = _item(flat.prefix[place], f"{label}[{place}]", writer)
        if item == NOTHING:
            rest = EMPTY
            break
        items.append(item)
    return (
        _in_turn(items, least, rest, layout)
        if items and len(items) >= min(least, length)
        else NOTHING
    )


def _in_turn(items: list[Node], least: int, rest: Node, layout: Layout) -> Node:
    """The items with `rest` behind; from the one after `least` on, each may end the list, but not
    the first."""
    needed = max(least, 1)
    for item in reversed(items[needed:]):
        rest = optional(concat(layout.comma, item, rest))
    return concat(layout.joined(items[:needed]), rest)


def _containing(flat: FlatSchema, label: str, writer: Writer) -> Node:
    """At least one item that fits `contains`, any others before and after."""
    if flat.min_items > 1 or flat.max_items is not None or flat.prefix:
        cure = "leave out minItems, maxItems and prefixItems beside it, or list the items with prefixItems"
        raise writer.reader.index.error(
            flat.source, "contains", "not enforced beside counted items", cure
        )
    label = f"{label}[]"
    found = _item(writer.reader.index.join(flat.item(0), flat.contains or False), label, writer)
    if found == NOTHING:
        return NOTHING
    item, comma = _item(flat.item(0), label, writer), writer.layout.comma
    before, after = Repeat(concat(item, comma), 0, None), Repeat(concat(comma, item), 0, None)
    return writer.layout.brackets(concat(before, found, after), False)


def _distinct(flat: FlatSchema, label: str, writer: Writer) -> tuple[Node, bool]:
    """Items that are all different, out of known values."""
    values = (
        None if flat.prefix or flat.contains is not None else _known_values(flat.item(0), writer)
    )
    if values is None or len(values) > MOST_DISTINCT:
        cure = f"drop it, or give items an enum of at most {MOST_DISTINCT} values"
        raise writer.reader.index.error(
            flat.source, "uniqueItems", "items that cannot be told apart", cure
        )
    least, most = (
        flat.min_items,
        len(values) if flat.max_items is None else min(flat.max_items, len(values)),
    )
    nodes: list[Node] = [Source(writer.layout.constant(value), f"{label}[]") for value in values]
    if least > most:
        return NOTHING, False
    if sum(math.perm(len(values), count) for count in range(most + 1)) <= MOST_ARRANGED:
        return permuted(nodes, least, most, writer.layout)
    parts = [Part(node) for node in nodes]
    if least <= 1 and most == len(values):
        inside, empty = listed(parts, writer.layout)
        return inside, empty and not least
    if sum(math.comb(len(values), count) for count in range(least, most + 1)) > MOST_ARRANGED:
        cure = "drop minItems or maxItems beside it, or give fewer values"
        raise writer.reader.index.error(
            flat.source, "uniqueItems", f"too many choices of {len(values)} values", cure
        )
    return counted(parts, least, most, writer.layout)


def _known_values(schema: Schema, writer: Writer) -> tuple[Any, ...] | None:
    """All values of `schema`, or None."""
    values: list[Any] = []
    for case in writer.reader.cases(schema):
        if case.values is not None:
            values += writer.reader.values(case)
        elif case.types <= {"boolean", "null"}:
            values += [value for value in (True, False, None) if writer.reader.holds(case, value)]
        else:
            return None
    return distinct(values)
