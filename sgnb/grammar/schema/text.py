r"""JSON's grammar as syntax trees: canonical strings, constants, rules for any value, whitespace.

Knows no schema. Every character has a single spelling: itself, the short escape, or `\\u00xx` for
other control characters. A `Decimal` is a number with a point or an exponent, as from
`json.loads(..., parse_float=Decimal)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from ...errors import GrammarError
from ..syntax import (
    EMPTY,
    NOTHING,
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Ranges,
    Reference,
    Repeat,
    Source,
    Without,
    alternate,
    concat,
)

ANY_CHARACTER = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANY_TEXT = Repeat(ANY_CHARACTER, 0, None)
DIGIT = Chars(((0x30, 0x39),))

VALUE = Reference("json value")
"""Any JSON value, defined in `value_rules`."""

ANYTHING = ("json value", "json object", "json array")
"""Names of the rules in `value_rules`."""

_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_RAW: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))


def characters(points: Iterable[int]) -> Chars:
    """Return a character class of the code points.

    Args:
        points: code points, in any order.
    """
    ranges: list[tuple[int, int]] = []
    for point in sorted(set(points)):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1] = (ranges[-1][0], point)
        else:
            ranges.append((point, point))
    return Chars(tuple(ranges))


@lru_cache(maxsize=4096)
def _written(ranges: Ranges, exact: bool) -> Node:
    """Return a character of `ranges` as spelled inside a JSON string."""
    raw = tuple(
        (max(low, first), min(high, last))
        for low, high in ranges
        for first, last in _RAW
        if low <= last and first <= high
    )
    escapable = (*range(0x20), 0x22, 0x5C)
    special = [point for point in escapable if any(a <= point <= b for a, b in ranges)]
    short = [ord(_SHORT[chr(point)]) for point in special if chr(point) in _SHORT]
    escapes: list[Node] = [characters(short)] if short else []
    if exact or not raw:
        escapes += _long_escapes([point for point in special if chr(point) not in _SHORT])

    options: list[Node] = [Chars(raw)] if raw else []
    if escapes:
        options.append(concat(Literal("\\"), alternate(*escapes)))
    return either(options)


def _long_escapes(points: list[int]) -> list[Node]:
    """Return escapes, without the backslash, of control characters that have no short escape."""
    escapes: list[Node] = []
    for first in (0, 1):
        digits = [ord(f"{point:02x}"[1]) for point in points if point >> 4 == first]
        if digits:
            escapes.append(concat(Literal(f"u00{first}"), characters(digits)))
    return escapes


def either(options: Iterable[Node]) -> Node:
    """Return the alternation of the options, without NOTHING.

    Args:
        options: alternative trees.
    """
    return alternate(*(option for option in options if option != NOTHING))


def escape(text: str) -> str:
    """Return `text` as the inside of a JSON string.

    Args:
        text: decoded text.

    Raises:
        GrammarError: the text contains a surrogate.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise GrammarError(
            f"{text!a:.60} contains half of a surrogate pair", "write the whole character"
        )
    return json.dumps(text, ensure_ascii=False)[1:-1]


def escaped(node: Node, exact: bool = False) -> Node:
    r"""Return the JSON spellings of the texts of `node`, without labels.

    Unless `exact`, classes with visible characters lose the control characters that only `\\u00xx`
    can spell: such escapes would attract a model that starts another `\\u`, and counted strings
    would grow by half. Spellings are prefix-free, so Intersect and Without keep their meaning.

    Args:
        node: tree of decoded texts.
        exact: True to keep all control characters.
    """
    match node:
        case Literal(text):
            return Literal(escape(text))
        case Chars(ranges):
            return _written(ranges, exact)
        case Concatenate(parts):
            return concat(*(escaped(part, exact) for part in parts))
        case Alternate(options):
            return Alternate(tuple(escaped(option, exact) for option in options))
        case Repeat(inner, least, most):
            return Repeat(escaped(inner, exact), least, most)
        case Intersect(parts):
            return Intersect(tuple(escaped(part, exact) for part in parts))
        case Without(inner, removed):
            return Without(escaped(inner, exact), escaped(removed, True))
        case Source(inner, _):
            return escaped(inner, exact)

    raise GrammarError(f"a string made of {type(node).__name__}", "strings hold no references")


@lru_cache(maxsize=1024)
def string(node: Node = ANY_TEXT, after: Node = EMPTY, exact: bool = False) -> Node:
    """Return JSON strings with a decoded text of `node`, followed by `after`.

    A difference of texts becomes a difference of strings, because llguidance is fast for a
    top-level difference.

    Args:
        node: tree of decoded texts.
        after: tree after the closing quote.
        exact: as in `escaped`.
    """
    if isinstance(node, Without):
        return Without(string(node.node, after, exact), string(node.removed, after, True))
    return concat(Literal('"'), escaped(node, exact), Literal('"'), after)


@dataclass(frozen=True)
class JsonLayout:
    """JSON punctuation.

    With `whitespace` None, the output follows `json.dumps`: a blank after commas and colons.
    Otherwise at most `whitespace` blanks or line breaks are allowed at each position inside the
    text, but not around the text.
    """

    whitespace: int | None = None
    both_spellings: bool = False  # constants 1 and 1.0 have both spellings

    @cached_property
    def gap(self) -> Node:
        blank = Chars(((0x0A, 0x0A), (0x20, 0x20)))
        return Repeat(blank, 0, self.whitespace) if self.whitespace else EMPTY

    @cached_property
    def comma(self) -> Node:
        return Lexeme(self._between(","))

    @cached_property
    def colon(self) -> Node:
        return self._between(":")

    def _between(self, mark: str) -> Node:
        if self.whitespace is None:
            return Literal(f"{mark} ")
        return concat(self.gap, Literal(mark), self.gap)

    def braces(self, members: Node, empty: bool) -> Node:
        """Return `{members}`.

        Args:
            members: inside of the braces.
            empty: True to allow `{}` too.
        """
        return self._enclosed("{", members, empty, "}")

    def brackets(self, items: Node, empty: bool) -> Node:
        """Return `[items]`.

        Args:
            items: inside of the brackets.
            empty: True to allow `[]` too.
        """
        return self._enclosed("[", items, empty, "]")

    def _enclosed(self, opening: str, inside: Node, empty: bool, closing: str) -> Node:
        if inside == NOTHING and not empty:
            return NOTHING
        bare = Lexeme(concat(Literal(opening), self.gap, Literal(closing)))
        if inside in (NOTHING, EMPTY):
            return bare
        begin = Lexeme(concat(Literal(opening), self.gap))
        full = concat(begin, inside, Lexeme(concat(self.gap, Literal(closing))))
        return alternate(bare, full) if empty else full

    def repeated(self, item: Node, least: int, most: int | None) -> Node:
        """Return `item,item,...`.

        Args:
            item: tree of an item.
            least: minimum number of items; 0 counts as 1.
            most: maximum number of items; None is unbounded.
        """
        if most is not None and most < max(least, 1):
            return NOTHING
        least = max(least, 1)
        more = Repeat(concat(self.comma, item), least - 1, None if most is None else most - 1)
        return item if most == 1 else concat(item, more)

    def entry(self, name: Node, value: Node) -> Node:
        """Return `"name":value`.

        Args:
            name: tree of the decoded name.
            value: tree of the value.
        """
        if NOTHING in (name, value):
            return NOTHING
        return concat(Lexeme(string(name, self.colon)), value)

    def constant(self, value: Any) -> Node:
        """Return exactly this JSON value, also spelled as an integer and with `.0`, if
        `both_spellings`.

        Args:
            value: JSON value.
        """
        if isinstance(value, Mapping):
            entries = ((Literal(key), self.constant(item)) for key, item in value.items())
            return self.braces(self.joined(self.entry(*entry) for entry in entries), False)
        if isinstance(value, (list, tuple)):
            return self.brackets(self.joined(map(self.constant, value)), False)
        if isinstance(value, str):
            return Lexeme(Literal(f'"{escape(value)}"'))
        texts = [str(value) if isinstance(value, Decimal) else json.dumps(value)]
        is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
        if self.both_spellings and is_number and value == int(value) and abs(value) < 10**15:
            texts += [f"{int(value)}", f"{int(value)}.0"]
        return Lexeme(alternate(*map(Literal, dict.fromkeys(texts))))

    def joined(self, parts: Iterable[Node]) -> Node:
        """Return the parts, separated by commas.

        Args:
            parts: trees in order.
        """
        pieces: list[Node] = []
        for part in parts:
            pieces += (self.comma, part) if pieces else (part,)
        return concat(*pieces)


def value_rules(layout: JsonLayout, number: Node) -> dict[str, Node]:
    """Return the recursive rules "json value", "json object" and "json array".

    Args:
        layout: JSON punctuation.
        number: tree of numbers.
    """
    member = layout.entry(ANY_TEXT, VALUE)
    words = (Lexeme(Literal(word)) for word in ("true", "false", "null"))
    containers = map(Reference, ("json object", "json array"))
    return {
        "json value": alternate(Lexeme(string()), Lexeme(number), *words, *containers),
        "json object": layout.braces(layout.repeated(member, 0, None), True),
        "json array": layout.brackets(layout.repeated(VALUE, 0, None), True),
    }
