r"""Anchors without states: a part of a pattern is its ways to match, one per demand on its ends.

`^ab` is the way "ab" that must begin at the beginning of the text. Where parts are joined, the
demand of one bounds the text of the other: what comes before a `\A` must be empty. So every anchor
outside of a repeat has its exact meaning, and the finished tree has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..syntax import EMPTY, Chars, Literal, Node, Repeat, alternate, concat, optional
from .characters import SCALARS
from .reader import Reader

NO_DEMAND = 0
LINE = 1
"""The beginning or end of a line."""
LAST_LINE = 2
"""The end of the text, or before the line break that ends it. Ends only."""
TEXT = 3
"""The beginning or end of the text."""

HAS_EMPTY = 1
HAS_BREAK = 2

_ANYTHING = Repeat(Chars(SCALARS), 0, None)
_BREAK = Literal("\n")


@dataclass(frozen=True, slots=True)
class Way:
    """`node` with a demand (above; a larger one is stricter) on each of its ends."""

    node: Node
    short: int  # flags HAS_EMPTY and HAS_BREAK: whether "" and "\n" are among the texts of `node`
    begin: int = NO_DEMAND
    end: int = NO_DEMAND
    column: int = -1  # of the anchor in the pattern; -1 without one


Ways = tuple[Way, ...]
"""At most one way for each pair of demands."""

NO_TEXT: Ways = (Way(EMPTY, HAS_EMPTY),)


def plain(node: Node) -> Ways:
    """Text or characters, without an anchor."""
    if isinstance(node, Literal):
        return (Way(node, HAS_EMPTY if not node.text else HAS_BREAK if node.text == "\n" else 0),)
    has_break = isinstance(node, Chars) and any(first <= 10 <= last for first, last in node.ranges)
    return (Way(node, HAS_BREAK if has_break else 0),)


def choose(options: Iterable[Ways]) -> Ways:
    """Any of the options."""
    by_demand: dict[tuple[int, int], list[Way]] = {}
    for ways in options:
        for way in ways:
            by_demand.setdefault((way.begin, way.end), []).append(way)
    return tuple(_merged(ways) for ways in by_demand.values())


def chain(parts: Sequence[Ways], reader: Reader) -> Ways:
    """The parts in sequence. GrammarError if no way is left, or for a line anchor in the middle."""
    ways, start = NO_TEXT, 0
    for i in range(len(parts) + 1):
        if i < len(parts) and parts[i][0].column < 0 and len(parts[i]) == 1:
            continue
        ways = _join(ways, (_row(parts[start:i]),), reader)
        if i < len(parts):
            ways = _join(ways, parts[i], reader)
        start = i + 1
    return ways


def repeat(ways: Ways, least: int, most: int | None, reader: Reader) -> Ways:
    """`ways` repeated. GrammarError for an anchor that may be met more than once."""
    anchored = next((way for way in ways if way.column >= 0), None)
    if most == 0 or ways == NO_TEXT:
        return NO_TEXT
    if least == most == 1:
        return ways
    if anchored is None:
        return (Way(Repeat(ways[0].node, least, most), _short_of_repeat(ways[0].short, least)),)
    if most != 1:
        hint = "take the anchor out of the repeated group"
        raise reader.error("anchor inside a repeat", anchored.column, hint)
    return choose((NO_TEXT, ways))


def whole_text(ways: Ways) -> Node:
    """The texts that match as a whole, so that all demands are met."""
    return alternate(*(way.node for way in ways))


def anywhere(ways: Ways) -> Node:
    """The texts that contain a match, with any text around it that its demands allow."""
    before = {NO_DEMAND: _ANYTHING, LINE: optional(concat(_ANYTHING, _BREAK)), TEXT: EMPTY}
    after = {
        NO_DEMAND: _ANYTHING,
        LINE: optional(concat(_BREAK, _ANYTHING)),
        LAST_LINE: optional(_BREAK),
        TEXT: EMPTY,
    }
    return alternate(*(concat(before[way.begin], way.node, after[way.end]) for way in ways))


def _merged(ways: list[Way]) -> Way:
    if len(ways) == 1:
        return ways[0]
    short = 0
    for way in ways:
        short |= way.short
    return replace(ways[0], node=alternate(*(way.node for way in ways)), short=short)


def _row(parts: Sequence[Ways]) -> Way:
    """Parts without anchors, joined."""
    short = HAS_EMPTY
    for (way,) in parts:
        short = _short_of_pair(short, way.short)
    return Way(concat(*(way.node for (way,) in parts)), short)


def _join(left: Ways, right: Ways, reader: Reader) -> Ways:
    if left == NO_TEXT:
        return right
    found = choose(_pair(one, other, reader) for one in left for other in right)
    if not found:
        column = max(way.column for way in (*right, *left))
        hint = "leave it out, or move it to the end of the pattern"
        raise reader.error("anchor that can never hold", column, hint)
    return found


def _pair(left: Way, right: Way, reader: Reader) -> Ways:
    """`left`, then `right`: no way if demands contradict, two if a line break may follow `left`."""
    if (right.begin == LINE and left.node != EMPTY) or (left.end == LINE and right.node != EMPTY):
        column = right.column if right.begin == LINE else left.column
        hint = "leave out the flag m, or write the line breaks themselves as \\n"
        raise reader.error("anchor of a line in the middle of the pattern", column, hint)
    if right.begin == TEXT:
        if not left.short & HAS_EMPTY:
            return ()
        left = replace(left, node=EMPTY, short=HAS_EMPTY)
    ends = [(right.node, right.short, right.end)]
    if left.end >= LAST_LINE:
        ends = [(EMPTY, HAS_EMPTY, max(left.end, right.end))] if right.short & HAS_EMPTY else []
        if left.end == LAST_LINE and right.short & HAS_BREAK:
            ends.append((_BREAK, HAS_BREAK, TEXT))
    begin, column = max(left.begin, right.begin), max(left.column, right.column)
    found = []
    for node, short, end in ends:
        node, short = concat(left.node, node), _short_of_pair(left.short, short)
        found.append(Way(node, short, begin, max(end, left.end), column))
    return tuple(found)


def _short_of_pair(left: int, right: int) -> int:
    short = left & right & HAS_EMPTY
    if (left & HAS_EMPTY and right & HAS_BREAK) or (left & HAS_BREAK and right & HAS_EMPTY):
        short |= HAS_BREAK
    return short


def _short_of_repeat(short: int, least: int) -> int:
    has_break = short & HAS_BREAK if least < 2 or short & HAS_EMPTY else 0
    return has_break | (short & HAS_EMPTY if least else HAS_EMPTY)
