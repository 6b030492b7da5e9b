"""Syntax trees of the arrays of a `FlatSchema`. Knows no other types."""

from __future__ import annotations

from ..syntax import EMPTY, NOTHING, Node, Repeat, Source, concat, optional
from .flat import FlatSchema, Schema
from .item_counts import DistinctPart
from .objects import Context
from .text import JsonLayout, either

MOST_PLACES = 32  # of the matching item among counted items
MOST_LOOSE = 60  # optional items of prefixItems


def array_tree(flat: FlatSchema, label: str, context: Context) -> Node:
    """Return the arrays that `flat` allows.

    Args:
        flat: keywords of a disjunct.
        label: path of the array in the text, such as `$.items`.
        context: layout and disjunct reader.

    Raises:
        GrammarError: a keyword cannot be enforced.
    """
    most = flat.max_items
    if most is not None and most < flat.min_items:
        return NOTHING
    if flat.contains is not None and not _contains_anyway(flat):
        return _containing(flat, flat.contains, label, context)
    if flat.prefix:
        return context.layout.brackets(_tuple(flat, label, context), flat.min_items == 0)
    item = _item(flat.item(0), f"{label}[]", context)
    _distinct(flat, item, flat.min_items, context)
    if item != NOTHING:
        item = NOTHING if most == 0 else context.layout.repeated(item, flat.min_items, most)
    return context.layout.brackets(item, flat.min_items == 0)


def _item(schema: Schema, label: str, context: Context) -> Node:
    node = context.value(schema, label)
    return node if node == NOTHING else Source(node, label)


def _counted_match(flat: FlatSchema, matching: Node, item: Node, layout: JsonLayout) -> Node:
    """Return lists of minItems to maxItems items with at least one matching item."""
    if matching == NOTHING:
        return NOTHING
    least, most = flat.min_items, flat.max_items
    before, after = concat(item, layout.comma), concat(layout.comma, item)
    options = []

    for place in range(max(least, 1) if most is None else most):
        rest = Repeat(after, max(least - 1 - place, 0), None if most is None else most - 1 - place)
        options.append(concat(Repeat(before, place, place), matching, rest))
    if most is None:
        options.append(concat(Repeat(before, least, None), matching, Repeat(after, 0, None)))
    return either(options)


def _distinct(flat: FlatSchema, item: Node, least: int, context: Context) -> None:
    """Keep the items distinct if `uniqueItems` requires so: `least` items of `item` must exist."""
    if flat.unique and item != NOTHING:
        hint = "lower minItems, or allow more values"
        problem = f"no JSON value is valid: an item has fewer than {least} values"
        error = context.error(flat, "uniqueItems", problem, hint)
        context.distinct.append(DistinctPart(item, least, error))


def _tuple(flat: FlatSchema, label: str, context: Context) -> Node:
    """Return non-empty lists: items of prefixItems, then further items if `items` or minItems
    allows or requires them."""
    length, layout = len(flat.prefix), context.layout
    least, most = flat.min_items, flat.max_items
    if length - least > MOST_LOOSE:
        problem = f"{length - least} items may be left out"
        raise context.error(flat, "prefixItems", problem, f"set minItems to {length}")
    if flat.items is None and least <= length:
        most = length if most is None else min(most, length)
    tail: Node = EMPTY

    if most is None or most > length:
        other = _item(flat.item(length), f"{label}[]", context)
        if other != NOTHING:
            _distinct(flat, other, least if least > length else 0, context)
            more = None if most is None else most - length
            tail = Repeat(concat(layout.comma, other), max(least - length, 0), more)
        elif least > length:
            return NOTHING

    items = []
    for index in range(length if most is None else min(length, most)):
        item = _item(flat.prefix[index], f"{label}[{index}]", context)
        if item == NOTHING:
            tail = EMPTY
            break
        _distinct(flat, item, index + 1 if index < least else 0, context)
        items.append(item)
    enough = items and len(items) >= min(least, length)
    return _in_turn(items, least, tail, layout) if enough else NOTHING


def _in_turn(items: list[Node], least: int, tail: Node, layout: JsonLayout) -> Node:
    """Return the items in order, then `tail`; the list may end after `least` items, but not before
    the first."""
    needed = max(least, 1)
    for item in reversed(items[needed:]):
        tail = optional(concat(layout.comma, item, tail))
    return concat(layout.joined(items[:needed]), tail)


def _contains_anyway(flat: FlatSchema) -> bool:
    """True if the other keywords already imply `contains`."""
    least = flat.min_items if flat.contains in (True, {}) else 0
    return flat.max_contains is None and flat.min_contains <= least


def _containing(flat: FlatSchema, wanted: Schema, label: str, context: Context) -> Node:
    """Return lists with minContains to maxContains items valid under `wanted`, and other items
    between them."""
    least, most, layout = flat.min_contains, flat.max_contains, context.layout
    is_counted = flat.min_items > 1 or flat.max_items is not None
    counts = max(flat.min_items, flat.max_items or 0)
    if flat.prefix or (is_counted and (least, most, counts <= MOST_PLACES) != (1, None, True)):
        hint = "remove minItems, maxItems and prefixItems"
        hint += ", or list the items with prefixItems"
        raise context.error(flat, "contains", "not enforced together with counted items", hint)
    join, label = context.reader.index.join, f"{label}[]"
    other = flat.item(0) if most is None else join(flat.item(0), {"not": wanted})
    matching, item = (
        _item(schema, label, context) for schema in (join(flat.item(0), wanted), other)
    )
    _distinct(flat, either([matching, item]), flat.min_items, context)
    _distinct(flat, matching, least, context)
    if is_counted:
        return layout.brackets(_counted_match(flat, matching, item, layout), False)

    options: list[Node] = []
    if most != 0 and matching != NOTHING and (most is None or most >= least):
        prefix = EMPTY if item == NOTHING else Repeat(concat(item, layout.comma), 0, None)
        suffix = EMPTY if item == NOTHING else Repeat(concat(layout.comma, item), 0, None)
        more = None if most is None else most - 1
        again = Repeat(concat(layout.comma, prefix, matching), max(least - 1, 0), more)
        options.append(concat(prefix, matching, again, suffix))

    if least == 0 and item != NOTHING:
        options.append(layout.repeated(item, 1, None))
    return layout.brackets(either(options), least == 0 and flat.min_items == 0)
