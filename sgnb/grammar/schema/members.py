"""Comma-separated lists with optional parts, for objects. Knows
no schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..syntax import NOTHING, Node, Repeat, concat, optional
from .text import JsonLayout, either


@dataclass(frozen=True, slots=True)
class ListPart:
    """`node` from `least` to `most` times; repeated only as the last part of a list."""

    node: Node
    least: int = 0
    most: int | None = 1


def listed(parts: Sequence[ListPart], layout: JsonLayout) -> tuple[Node, bool]:
    """Return the list with at least one part, in order, and True if the list may also be empty.

    The size is n for n parts if a part is required, otherwise n log n: either half alone, or both.

    Args:
        parts: parts in order.
        layout: JSON punctuation.
    """
    parts = [part for part in parts if part.node != NOTHING or part.least]
    if any(part.node == NOTHING for part in parts):
        return NOTHING, False
    first = next((index for index, part in enumerate(parts) if part.least), None)
    more = [_more(part, layout) for part in parts]
    if first is None:
        return _some([_first(part, layout) for part in parts], more), True
    leading = [optional(concat(part.node, layout.comma)) for part in parts[:first]]
    return concat(*leading, _first(parts[first], layout), *more[first + 1 :]), False


def _first(part: ListPart, layout: JsonLayout) -> Node:
    """Return the part at the start of a list."""
    return part.node if part.most == 1 else layout.repeated(part.node, part.least, part.most)


def _more(part: ListPart, layout: JsonLayout) -> Node:
    """Return the part after a previous part."""
    node = concat(layout.comma, part.node)
    return node if part.least == part.most == 1 else Repeat(node, part.least, part.most)


def _some(first: Sequence[Node], more: Sequence[Node]) -> Node:
    """Return at least one of the optional parts, each given as `first` of a list and as `more`."""
    if len(first) <= 1:
        return first[0] if first else NOTHING
    middle = (len(first) + 1) // 2
    begun = concat(_some(first[:middle], more), *more[middle : len(first)])
    return either([begun, _some(first[middle:], more[middle:])])


def counted(
    parts: Sequence[ListPart], least: int, most: int | None, layout: JsonLayout
) -> tuple[Node, bool]:
    """Return lists of `least` to `most` parts, like `listed`. Exponential in the number of optional
    parts.

    Args:
        parts: parts in order.
        least: minimum number of parts.
        most: maximum number of parts; None is unbounded.
        layout: JSON punctuation.
    """
    rows = _counted(parts, least, len(parts) if most is None else most, False, layout)
    options = [concat(*nodes) for nodes in rows if nodes and NOTHING not in nodes]
    return either(options), least == 0 and not any(part.least for part in parts)


def _counted(
    parts: Sequence[ListPart], least: int, most: int, begun: bool, layout: JsonLayout
) -> list[list[Node]]:
    possible = sum(10**9 if part.most is None else part.most for part in parts)
    if least > possible or sum(part.least for part in parts) > most:
        return []
    if not parts:
        return [[]]
    part, remainder = parts[0], parts[1:]
    rows = [] if part.least else _counted(remainder, least, most, begun, layout)

    if part.most == 1:
        written = _more(ListPart(part.node, 1), layout) if begun else part.node
        if most:
            others = _counted(remainder, max(least - 1, 0), most - 1, True, layout)
            rows += [[written, *nodes] for nodes in others]
        return rows
    most = most if part.most is None else min(most, part.most)
    part = ListPart(part.node, max(least, part.least, 1), most)
    if part.most is not None and part.least <= part.most:
        rows.append([_more(part, layout) if begun else _first(part, layout)])
    return rows
