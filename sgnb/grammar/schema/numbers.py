"""JSON numbers between bounds, as syntax trees that compare digit by digit. Knows no schema.

Numbers have no leading zeros, and zero has no sign. Unbounded numbers have at most INTEGER_DIGITS
digits before the point and FRACTION_DIGITS after the point, so every number ends. `scientific`
numbers have an exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from ..syntax import EMPTY, NOTHING, Chars, Literal, Node, Repeat, concat, optional
from .text import DIGIT, either

INTEGER_DIGITS = 18
FRACTION_DIGITS = 17
BOUND_DIGITS = 100
LARGEST_DOUBLE = Decimal("1.797e308")  # rounded down
PRECISION = 15  # decimal digits of a double

_NONZERO = Chars(((0x31, 0x39),))
_EXPONENT = concat(
    Chars(((0x45, 0x45), (0x65, 0x65))),
    optional(Chars(((0x2B, 0x2B), (0x2D, 0x2D)))),
    either(
        [
            Repeat(DIGIT, 1, 2),
            concat(Chars(((0x31, 0x32),)), DIGIT, DIGIT),
            concat(Literal("30"), Chars(((0x30, 0x37),))),
        ]
    ),
)
"""At most 307: every number with a digit before the point is a double, and none is 0."""


@dataclass(frozen=True, slots=True)
class NumberBound:
    """End of a range. If not `inclusive`, the range excludes the value."""

    value: int | Decimal
    inclusive: bool = True


def _digits(first: int, last: int) -> Node:
    if first > last:
        return NOTHING
    return Literal(str(first)) if first == last else Chars(((0x30 + first, 0x30 + last),))


def _some_digits(least: int, most: int) -> Node:
    if most == 0:
        return EMPTY
    return DIGIT if least == most == 1 else Repeat(DIGIT, least, most)


def _between(low: str, high: str) -> Node:
    """Return the digit strings from `low` to `high`, of equal length."""
    if not low:
        return EMPTY
    remaining = len(low) - 1
    if set(low) == {"0"} and set(high) == {"9"}:
        return _some_digits(len(low), len(low))
    first, last = int(low[0]), int(high[0])
    if first == last:
        return concat(Literal(low[0]), _between(low[1:], high[1:]))
    options: list[Node] = []

    if low[1:].strip("0"):
        options.append(concat(Literal(low[0]), _between(low[1:], "9" * remaining)))
        first += 1
    above = []
    if high[1:].strip("9"):
        above.append(concat(Literal(high[0]), _between("0" * remaining, high[1:])))
        last -= 1
    if first <= last:
        options.append(concat(_digits(first, last), _some_digits(remaining, remaining)))
    return either(options + above)


@lru_cache(maxsize=1024)
def naturals(low: int, high: int) -> Node:
    """Return the integers low .. high without leading zeros.

    Args:
        low: lower bound, inclusive, at least 0.
        high: upper bound, inclusive.
    """
    if low > high:
        return NOTHING
    options: list[Node] = []
    if low == 0:
        options, low = [Literal("0")], 1
    shortest, longest = len(str(low)), len(str(high))
    if shortest == longest:
        return either([*options, _between(str(low), str(high))]) if low <= high else either(options)
    if low != 10 ** (shortest - 1):
        options.append(_between(str(low), "9" * shortest))
        shortest += 1

    above = []
    if high != 10**longest - 1:
        above.append(_between("1" + "0" * (longest - 1), str(high)))
        longest -= 1
    if shortest <= longest:
        options.append(concat(_NONZERO, _some_digits(shortest - 1, longest - 1)))
    return either(options + above)


@lru_cache(maxsize=1024)
def integers(low: int | None, high: int | None) -> Node:
    """Return the integers low .. high. An open end has INTEGER_DIGITS digits, or a digit more than
    the other bound if longer.

    Args:
        low: lower bound, inclusive, or None.
        high: upper bound, inclusive, or None.
    """
    least = -_widest(high or 0) if low is None else low
    return _signed(least, _widest(low or 0) if high is None else high)


def _widest(bound: int) -> int:
    return int(10 ** max(INTEGER_DIGITS, len(str(abs(bound))) + 1)) - 1


def _signed(low: int, high: int) -> Node:
    if low < 0 < high and -low == high:
        return either([Literal("0"), concat(optional(Literal("-")), naturals(1, high))])
    positive = naturals(max(low, 0), high) if high >= 0 else NOTHING
    return either([positive, _negative(naturals(max(1, -high), -low) if low < 0 else NOTHING)])


def _negative(magnitudes: Node) -> Node:
    return NOTHING if magnitudes == NOTHING else concat(Literal("-"), magnitudes)


@lru_cache(maxsize=1024)
def numbers(low: NumberBound | None, high: NumberBound | None, decimals: int | None = None) -> Node:
    """Return the numbers between the bounds.

    Args:
        low: lower bound, or None.
        high: upper bound, or None.
        decimals: maximum number of decimals. None: the most decimals for which a double
            distinguishes every text from an exclusive bound.
    """
    bounds = [bound for bound in (low, high) if bound]
    if decimals is None:
        whole = max((len(str(abs(int(bound.value)))) for bound in bounds), default=0)
        inclusive = [len(_split(bound.value)[1]) for bound in bounds if bound.inclusive]
        exact = FRACTION_DIGITS if len(inclusive) == len(bounds) else PRECISION - whole
        decimals = max(0, min(FRACTION_DIGITS, exact), *inclusive)
    widest = max((_widest(int(bound.value)) + 1 for bound in bounds), default=10**INTEGER_DIGITS)
    low, high = low or NumberBound(-widest, False), high or NumberBound(widest, False)

    start = low if low.value > 0 else NumberBound(0, low.value < 0 or low.inclusive)
    positive = _magnitudes(start, high, decimals) if high.value >= 0 else NOTHING
    if low.value >= 0:
        return positive
    nearest = NumberBound(-high.value, high.inclusive) if high.value < 0 else NumberBound(0, False)
    negative = _negative(_magnitudes(nearest, NumberBound(-low.value, low.inclusive), decimals))
    return either([positive, negative])


def scientific(low: NumberBound | None, high: NumberBound | None) -> Node:
    """Return the numbers with an exponent and a single digit before the point. Without texts for
    bounds other than 0.

    Args:
        low: lower bound, or None.
        high: upper bound, or None.
    """
    if (low and low.value) or (high and high.value):
        return NOTHING
    fraction = optional(concat(Literal("."), Repeat(DIGIT, 1, FRACTION_DIGITS)))
    positive = concat(_NONZERO, fraction, _EXPONENT)
    negative = concat(Literal("-"), positive)
    return either([NOTHING if high else positive, NOTHING if low else negative])


def _split(value: int | Decimal) -> tuple[int, str]:
    """Return the integer part of abs(value), and the decimals without trailing zeros."""
    whole, _, fraction = format(Decimal(value).copy_abs(), "f").partition(".")
    return int(whole), fraction.rstrip("0")


def _magnitudes(low: NumberBound, high: NumberBound, decimals: int) -> Node:
    """Return the numbers between 0 <= low and high."""
    if high.value < low.value:
        return NOTHING
    (first, low_digits), (last, high_digits) = _split(low.value), _split(high.value)
    from_low = None if low_digits == "" and low.inclusive else low_digits
    if first == last:
        fraction = _fraction(from_low, high_digits, high.inclusive, decimals, low.inclusive)
        return _joined(Literal(str(first)), fraction)
    options = []

    if from_low is not None:
        fraction = _fraction(from_low, None, True, decimals, low.inclusive)
        options.append(_joined(Literal(str(first)), fraction))
        first += 1
    options.append(_joined(naturals(first, last - 1), _fraction(None, None, True, decimals)))
    fraction = _fraction(None, high_digits, high.inclusive, decimals)
    return either([*options, _joined(Literal(str(last)), fraction)])


def _joined(front: Node, back: Node) -> Node:
    return NOTHING if NOTHING in (front, back) else concat(front, back)


def _fraction(
    low: str | None,
    high: str | None,
    high_inclusive: bool,
    decimals: int,
    low_inclusive: bool = True,
) -> Node:
    """Return the point and decimals, or the empty text, with a value between .low and .high (None:
    no bound)."""
    tail = _Decimals(low_inclusive, high_inclusive)
    node = _joined(Literal("."), tail.digits(low, high, decimals, False))
    if not tail.may_end(low, high):
        return node
    return EMPTY if node == NOTHING else optional(node)


@dataclass(frozen=True, slots=True)
class _Decimals:
    """Decimals between two bounds; a bound is None once earlier digits satisfy it."""

    low_inclusive: bool
    high_inclusive: bool

    def may_end(self, low: str | None, high: str | None) -> bool:
        reached = low is None or (low == "" and self.low_inclusive)
        return reached and (high != "" or self.high_inclusive)

    def digits(
        self, low: str | None, high: str | None, room: int, may_be_empty: bool = True
    ) -> Node:
        """Return at most `room` digits."""
        low = None if low == "" and self.low_inclusive else low
        empty = may_be_empty and self.may_end(low, high)
        if low is None and high is None:
            return Repeat(DIGIT, 0 if empty else 1, room) if room else EMPTY if empty else NOTHING
        if low is None and high == "" and self.high_inclusive and room:
            return Repeat(Literal("0"), 0 if may_be_empty else 1, room)
        options: list[Node] = []

        if room:
            first = int(low[:1] or 0) if low is not None else 0
            last = int(high[:1] or 0) if high is not None else 9
            at_low = None if low is None else low[1:]
            at_high = None if high is None else high[1:]
            if first == last:
                tail = self.digits(at_low, at_high, room - 1)
                options.append(_joined(_digits(first, first), tail))
            elif first < last:
                options += self._apart(first, last, at_low, at_high, room - 1)

        tail = either(options)
        if not empty:
            return tail
        return EMPTY if tail == NOTHING else optional(tail)

    def _apart(
        self, first: int, last: int, at_low: str | None, at_high: str | None, room: int
    ) -> list[Node]:
        options = []
        if at_low is not None:
            options.append(_joined(_digits(first, first), self.digits(at_low, None, room)))
            first += 1
        if at_high is not None:
            options.append(_joined(_digits(last, last), self.digits(None, at_high, room)))
            last -= 1
        options.append(_joined(_digits(first, last), _some_digits(0, room)))
        return options
