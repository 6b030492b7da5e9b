"""A `FlatSchema` as the tree of its arrays. Knows no other types."""

from __future__ import annotations

import math
from typing import Any

from ..syntax import EMPTY, NOTHING, Node, Repeat, Source, concat, optional
from .flat import FlatSchema, Schema, distinct
from .members import Part, counted, listed, permuted
from .objects import Context
from .text import Layout, either

MOST_ARRANGED = 400  # permutations or choices of distinct values that are written out
MOST_DISTINCT = 64  # distinct values
MOST_LOOSE = 60  # optional items of prefixItems


def array_tree(flat: FlatSchema, label: str, context: Context) -> Node:
    """The arrays that `flat` allows. Raises GrammarError."""
    most = flat.max_items
    if most is not None and most < flat.min_items:
        return NOTHING
    if flat.unique and (most is None or most > 1):
        inside, empty = _distinct(flat, label, context)
        return context.layout.brackets(inside, empty)
    if flat.contains is not None and not _contains_anyway(flat):
        return _containing(flat, flat.contains, label, context)
    if flat.prefix:
        return context.layout.brackets(_tuple(flat, label, context), flat.min_items == 0)
    item = _item(flat.item(0), f"{label}[]", context)
    if item != NOTHING:
        item = NOTHING if most == 0 else context.layout.repeated(item, flat.min_items, most)
    return context.layout.brackets(item, flat.min_items == 0)


def _item(schema: Schema, label: str, context: Context) -> Node:
    node = context.value(schema, label)
    return node if node == NOTHING else Source(node, label)


def _tuple(flat: FlatSchema, label: str, context: Context) -> Node:
    """At least one item: those of prefixItems, then others if `items` or minItems asks for them."""
    length, layout = len(flat.prefix), context.layout
    least, most = flat.min_items, flat.max_items
    if length - least > MOST_LOOSE:
        problem = f"{length - least} items may be left out"
        raise context.error(flat, "prefixItems", problem, f"set minItems to {length}")
    if flat.items is None and least <= length:
        most = length if most is None else min(most, length)
    rest: Node = EMPTY
    if most is None or most > length:
        other = _item(flat.item(length), f"{label}[]", context)
        if other != NOTHING:
            more = None if most is None else most - length
            rest = Repeat(concat(layout.comma, other), max(least - length, 0), more)
        elif least > length:
            return NOTHING

    items = []
    for place in range(length if most is None else min(length, most)):
        item = _item(flat.prefix[place], f"{label}[{place}]", context)
        if item == NOTHING:
            rest = EMPTY
            break
        items.append(item)
    enough = items and len(items) >= min(least, length)
    return _in_turn(items, least, rest, layout) if enough else NOTHING


def _in_turn(items: list[Node], least: int, rest: Node, layout: Layout) -> Node:
    """The items, then `rest`; the list may end after `least` items, or after the first."""
    needed = max(least, 1)
    for item in reversed(items[needed:]):
        rest = optional(concat(layout.comma, item, rest))
    return concat(layout.joined(items[:needed]), rest)


def _contains_anyway(flat: FlatSchema) -> bool:
    """Whether `contains` asks for no more than the other keywords do."""
    least = flat.min_items if flat.contains in (True, {}) else 0
    return flat.max_contains is None and flat.min_contains <= least


def _containing(flat: FlatSchema, wanted: Schema, label: str, context: Context) -> Node:
    """From minContains to maxContains items that are valid under `wanted`, others between them."""
    if flat.min_items > 1 or flat.max_items is not None or flat.prefix:
        hint = "leave out minItems, maxItems and prefixItems beside it"
        hint += ", or list the items with prefixItems"
        raise context.error(flat, "contains", "not enforced beside counted items", hint)
    least, most, layout = flat.min_contains, flat.max_contains, context.layout
    join, label = context.reader.index.join, f"{label}[]"
    other = flat.item(0) if most is None else join(flat.item(0), {"not": wanted})
    found, item = (_item(schema, label, context) for schema in (join(flat.item(0), wanted), other))
    options: list[Node] = []
    if most != 0 and found != NOTHING and (most is None or most >= least):
        before = EMPTY if item == NOTHING else Repeat(concat(item, layout.comma), 0, None)
        after = EMPTY if item == NOTHING else Repeat(concat(layout.comma, item), 0, None)
        more = None if most is None else most - 1
        again = Repeat(concat(layout.comma, before, found), max(least - 1, 0), more)
        options.append(concat(before, found, again, after))
    if least == 0 and item != NOTHING:
        options.append(layout.repeated(item, 1, None))
    return layout.brackets(either(options), least == 0 and flat.min_items == 0)


def _distinct(flat: FlatSchema, label: str, context: Context) -> tuple[Node, bool]:
    """Items that are all different, out of known values."""
    unknown = flat.prefix or flat.contains is not None
    values = None if unknown else _known_values(flat.item(0), context)
    if values is None or len(values) > MOST_DISTINCT:
        hint = f"drop it, or give items an enum of at most {MOST_DISTINCT} values"
        raise context.error(flat, "uniqueItems", "items that cannot be told apart", hint)
    least = flat.min_items
    most = len(values) if flat.max_items is None else min(flat.max_items, len(values))
    nodes: list[Node] = [Source(context.layout.constant(value), f"{label}[]") for value in values]
    if least > most:
        return NOTHING, False
    if sum(math.perm(len(values), count) for count in range(most + 1)) <= MOST_ARRANGED:
        return permuted(nodes, least, most, context.layout)
    parts = [Part(node) for node in nodes]
    if least <= 1 and most == len(values):
        inside, empty = listed(parts, context.layout)
        return inside, empty and not least
    if sum(math.comb(len(values), count) for count in range(least, most + 1)) > MOST_ARRANGED:
        problem = f"too many choices of {len(values)} values"
        hint = "drop minItems or maxItems beside it, or give fewer values"
        raise context.error(flat, "uniqueItems", problem, hint)
    return counted(parts, least, most, context.layout)


def _known_values(schema: Schema, context: Context) -> tuple[Any, ...] | None:
    """All values of `schema`, or None."""
    values: list[Any] = []
    for case in context.reader.cases(schema):
        if case.values is not None:
            values += context.reader.values(case)
        elif case.types <= {"boolean", "null"}:
            values += [value for value in (True, False, None) if context.reader.holds(case, value)]
        else:
            return None
    return distinct(values)
