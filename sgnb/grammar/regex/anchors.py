r"""Elimination of anchors: a part of a pattern is a set of ways to match, one per demand on its
ends.

`^ab` is the way "ab" with the demand to begin at the start of the text. Concatenation applies the
demand of a part to its neighbour: the text before a `\A` must be empty. Every anchor outside of a
repeat therefore keeps its exact meaning, and the final tree contains no anchors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..syntax import EMPTY, Chars, Literal, Node, Repeat, alternate, concat, optional
from .characters import SCALARS
from .pattern_reader import PatternReader

NO_DEMAND = 0
LINE = 1
"""The start or end of a line."""
LAST_LINE = 2
"""The end of the text, or the position before a final line break. Only for ends."""
TEXT = 3
"""The start or end of the text."""

HAS_EMPTY = 1
HAS_BREAK = 2

_ANYTHING = Repeat(Chars(SCALARS), 0, None)
_BREAK = Literal("\n")


@dataclass(frozen=True, slots=True)
class Way:
    """A tree with a demand on each end; a larger demand is stricter."""

    node: Node
    short: int  # flags HAS_EMPTY, HAS_BREAK: `node` matches "" or "\n"
    begin: int = NO_DEMAND
    end: int = NO_DEMAND
    column: int = -1  # column of the anchor in the pattern; -1 without an anchor


Ways = tuple[Way, ...]
"""At most one way per pair of demands."""

NO_TEXT: Ways = (Way(EMPTY, HAS_EMPTY),)


def plain(node: Node) -> Ways:
    """Return the single way of a tree without anchors.

    Args:
        node: literal text or characters.
    """
    if isinstance(node, Literal):
        return (Way(node, HAS_EMPTY if not node.text else HAS_BREAK if node.text == "\n" else 0),)
    has_break = isinstance(node, Chars) and any(first <= 10 <= last for first, last in node.ranges)
    return (Way(node, HAS_BREAK if has_break else 0),)


def choose(options: Iterable[Ways]) -> Ways:
    """Return the alternation of the options.

    Args:
        options: ways of each option.
    """
    by_demand: dict[tuple[int, int], list[Way]] = {}
    for ways in options:
        for way in ways:
            by_demand.setdefault((way.begin, way.end), []).append(way)
    return tuple(_merged(ways) for ways in by_demand.values())


def chain(parts: Sequence[Ways], reader: PatternReader) -> Ways:
    """Return the concatenation of the parts.

    Args:
        parts: ways of each part, in order.
        reader: pattern, for error messages.

    Raises:
        GrammarError: the anchors contradict, or a line anchor is in the middle.
    """
    ways, start = NO_TEXT, 0
    for i in range(len(parts) + 1):
        if i < len(parts) and parts[i][0].column < 0 and len(parts[i]) == 1:
            continue
        ways = _join(ways, (_row(parts[start:i]),), reader)
        if i < len(parts):
            ways = _join(ways, parts[i], reader)
        start = i + 1
    return ways


def repeat(ways: Ways, least: int, most: int | None, reader: PatternReader) -> Ways:
    """Return `ways` repeated.

    Args:
        ways: ways of the repeated part.
        least: minimum number of repetitions.
        most: maximum number of repetitions; None is unbounded.
        reader: pattern, for error messages.

    Raises:
        GrammarError: an anchor could match more than once.
    """
    anchored = next((way for way in ways if way.column >= 0), None)
    if most == 0 or ways == NO_TEXT:
        return NO_TEXT
    if least == most == 1:
        return ways
    if anchored is None:
        return (Way(Repeat(ways[0].node, least, most), _short_of_repeat(ways[0].short, least)),)
    if most != 1:
        hint = "move the anchor out of the repeated group"
        raise reader.error("anchor inside a repeat", anchored.column, hint)
    return choose((NO_TEXT, ways))


def whole_text(ways: Ways) -> Node:
    """Return the texts of a match of the whole text, in which all demands hold.

    Args:
        ways: ways of the pattern.
    """
    return alternate(*(way.node for way in ways))


def anywhere(ways: Ways) -> Node:
    """Return the texts with a match anywhere, surrounded by any text allowed by the demands.

    Args:
        ways: ways of the pattern.
    """
    prefixes = {NO_DEMAND: _ANYTHING, LINE: optional(concat(_ANYTHING, _BREAK)), TEXT: EMPTY}
    suffixes = {
        NO_DEMAND: _ANYTHING,
        LINE: optional(concat(_BREAK, _ANYTHING)),
        LAST_LINE: optional(_BREAK),
        TEXT: EMPTY,
    }
    return alternate(*(concat(prefixes[way.begin], way.node, suffixes[way.end]) for way in ways))


def _merged(ways: list[Way]) -> Way:
    if len(ways) == 1:
        return ways[0]
    short = 0
    for way in ways:
        short |= way.short
    return replace(ways[0], node=alternate(*(way.node for way in ways)), short=short)


def _row(parts: Sequence[Ways]) -> Way:
    """Concatenate parts without anchors."""
    short = HAS_EMPTY
    for (way,) in parts:
        short = _short_of_pair(short, way.short)
    return Way(concat(*(way.node for (way,) in parts)), short)


def _join(first: Ways, second: Ways, reader: PatternReader) -> Ways:
    if first == NO_TEXT:
        return second
    ways = choose(
        _pair(first_way, second_way, reader) for first_way in first for second_way in second
    )
    if not ways:
        column = max(way.column for way in (*second, *first))
        hint = "remove it, or move it to the end of the pattern"
        raise reader.error("anchor that can never hold", column, hint)
    return ways


def _pair(first: Way, second: Way, reader: PatternReader) -> Ways:
    """Join two ways: none if the demands contradict, two if a line break may follow `first`."""
    if (second.begin == LINE and first.node != EMPTY) or (
        first.end == LINE and second.node != EMPTY
    ):
        column = second.column if second.begin == LINE else first.column
        hint = "remove the flag m, or write line breaks as \\n"
        raise reader.error("anchor of a line in the middle of the pattern", column, hint)

    if second.begin == TEXT:
        if not first.short & HAS_EMPTY:
            return ()
        first = replace(first, node=EMPTY, short=HAS_EMPTY)
    ends = [(second.node, second.short, second.end)]

    if first.end >= LAST_LINE:
        ends = [(EMPTY, HAS_EMPTY, max(first.end, second.end))] if second.short & HAS_EMPTY else []
        if first.end == LAST_LINE and second.short & HAS_BREAK:
            ends.append((_BREAK, HAS_BREAK, TEXT))
    begin, column = max(first.begin, second.begin), max(first.column, second.column)
    ways = []
    for node, short, end in ends:
        node, short = concat(first.node, node), _short_of_pair(first.short, short)
        way = Way(node=node, short=short, begin=begin, end=max(end, first.end), column=column)
        ways.append(way)
    return tuple(ways)


def _short_of_pair(first: int, second: int) -> int:
    short = first & second & HAS_EMPTY
    if (first & HAS_EMPTY and second & HAS_BREAK) or (first & HAS_BREAK and second & HAS_EMPTY):
        short |= HAS_BREAK
    return short


def _short_of_repeat(short: int, least: int) -> int:
    has_break = short & HAS_BREAK if least < 2 or short & HAS_EMPTY else 0
    return has_break | (short & HAS_EMPTY if least else HAS_EMPTY)
