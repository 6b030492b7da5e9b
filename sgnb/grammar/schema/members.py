"""Comma-separated lists with optional parts: the insides of objects and of arrays of distinct
values. Knows no schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..syntax import EMPTY, NOTHING, Node, Repeat, concat, optional
from .text import Layout, either


@dataclass(frozen=True, slots=True)
class Part:
    """`node` from `least` to `most` times; more than once only as the last of a list."""

    node: Node
    least: int = 0
    most: int | None = 1


def listed(parts: Sequence[Part], layout: Layout) -> tuple[Node, bool]:
    """The list with at least one part, in order, and whether it may also be empty.

    The size is n for n parts if one is required, else n log n: each half alone, or both.
    """
    parts = [part for part in parts if part.node != NOTHING or part.least]
    if any(part.node == NOTHING for part in parts):
        return NOTHING, False
    first = next((index for index, part in enumerate(parts) if part.least), None)
    more = [_more(part, layout) for part in parts]
    if first is None:
        return _some([_first(part, layout) for part in parts], more), True
    before = [optional(concat(part.node, layout.comma)) for part in parts[:first]]
    return concat(*before, _first(parts[first], layout), *more[first + 1 :]), False


def _first(part: Part, layout: Layout) -> Node:
    """With nothing before it."""
    return part.node if part.most == 1 else layout.repeated(part.node, part.least, part.most)


def _more(part: Part, layout: Layout) -> Node:
    """With something before it."""
    node = concat(layout.comma, part.node)
    return node if part.least == part.most == 1 else Repeat(node, part.least, part.most)


def _some(first: Sequence[Node], more: Sequence[Node]) -> Node:
    """At least one of some optional parts, each given as the `first` of a list and as `more`."""
    if len(first) <= 1:
        return first[0] if first else NOTHING
    middle = (len(first) + 1) // 2
    begun = concat(_some(first[:middle], more), *more[middle : len(first)])
    return either([begun, _some(first[middle:], more[middle:])])


def counted(
    parts: Sequence[Part], least: int, most: int | None, layout: Layout
) -> tuple[Node, bool]:
    """As `listed`, with `least` to `most` parts. Exponential in the number of optional ones."""
    rows = _counted(parts, least, len(parts) if most is None else most, False, layout)
    options = [concat(*nodes) for nodes in rows if nodes and NOTHING not in nodes]
    return either(options), least == 0 and not any(part.least for part in parts)


def _counted(
    parts: Sequence[Part], least: int, most: int, begun: bool, layout: Layout
) -> list[list[Node]]:
    possible = sum(10**9 if part.most is None else part.most for part in parts)
    if least > possible or sum(part.least for part in parts) > most:
        return []
    if not parts:
        return [[]]
    part, rest = parts[0], parts[1:]
    found = [] if part.least else _counted(rest, least, most, begun, layout)
    if part.most == 1:
        written = _more(Part(part.node, 1), layout) if begun else part.node
        if most:
            others = _counted(rest, max(least - 1, 0), most - 1, True, layout)
            found += [[written, *nodes] for nodes in others]
        return found
    most = most if part.most is None else min(most, part.most)
    part = Part(part.node, max(least, part.least, 1), most)
    if part.most is not None and part.least <= part.most:
        found.append([_more(part, layout) if begun else _first(part, layout)])
    return found


def permuted(nodes: Sequence[Node], least: int, most: int, layout: Layout) -> tuple[Node, bool]:
    """`least` to `most` of the nodes, each at most once, in any order; grows factorially."""
    return _arranged(tuple(nodes), max(least, 1), most, layout), least == 0


def _arranged(nodes: tuple[Node, ...], least: int, most: int, layout: Layout) -> Node:
    if least > len(nodes) or most < 1:
        return NOTHING
    options = []
    for index, node in enumerate(nodes):
        rest = _arranged(nodes[:index] + nodes[index + 1 :], max(least - 1, 1), most - 1, layout)
        more = EMPTY if rest == NOTHING else concat(layout.comma, rest)
        if least <= 1:
            options.append(concat(node, optional(more) if more != EMPTY else EMPTY))
        elif more != EMPTY:
            options.append(concat(node, more))
    return either(options)
