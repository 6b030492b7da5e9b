"""Multiples of a number between bounds, as a list or by their last digits. Knows no schema."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from ...errors import GrammarError
from ..syntax import EMPTY, NOTHING, Chars, Intersect, Literal, Node, Repeat, concat, optional
from .numbers import BOUND_DIGITS, INTEGER_DIGITS, NumberBound, integers, numbers
from .text import DIGIT, characters, either

MOST_LISTED = 1000
"""Maximum number of enumerated multiples."""

MOST_REMAINDERS = 15

_BOUNDS = f"a minimum and a maximum with at most {MOST_LISTED} multiples between"
_HINT = f"give {_BOUNDS}, or drop multipleOf"


def common_multiple(steps: Iterable[int | Decimal | Fraction]) -> Fraction:
    """Return the least common multiple of the steps.

    Args:
        steps: positive numbers.
    """
    fractions = [Fraction(step) for step in steps]
    numerator = math.lcm(*(step.numerator for step in fractions))
    return Fraction(numerator, math.gcd(*(step.denominator for step in fractions)))


def multiples(
    step: Fraction, low: NumberBound | None, high: NumberBound | None, whole: bool
) -> Node:
    """Return the multiples of `step` between the bounds.

    Args:
        step: positive number.
        low: lower bound, or None.
        high: upper bound, or None.
        whole: True for integers only.

    Raises:
        GrammarError: neither a list of MOST_LISTED numbers nor last digits and remainders suffice.
    """
    if whole:
        step = Fraction(step.numerator)
    if low and high:
        first, last = _ends(step, low, high)
        if last - first < MOST_LISTED:
            return either(Literal(_text(step * factor)) for factor in range(first, last + 1))
    if step.denominator == 1:
        return _whole_multiples(step.numerator, low, high)
    if step.numerator == 1:
        return _fractions(step, low, high)
    whole_ones = _whole_multiples(step.numerator, low, high)
    return either([whole_ones, _with_decimals(step, low, high)])


def _ends(step: Fraction, low: NumberBound, high: NumberBound) -> tuple[int, int]:
    """Return the first and last factor of `step` between the bounds."""
    least, most = Fraction(low.value) / step, Fraction(high.value) / step
    first = math.ceil(least) + (0 if low.inclusive or least.denominator > 1 else 1)
    return first, math.floor(most) - (0 if high.inclusive or most.denominator > 1 else 1)


def _text(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(prec=2 * BOUND_DIGITS):
        return format(Decimal(value.numerator) / value.denominator, "f")


def integer_bounds(
    low: NumberBound | None, high: NumberBound | None
) -> tuple[int | None, int | None]:
    """Return the least and the greatest integer between the bounds; None without a bound.

    Args:
        low: lower bound, or None.
        high: upper bound, or None.
    """
    least = greatest = None
    if low:
        least = math.ceil(low.value) + (0 if low.inclusive or low.value != int(low.value) else 1)
    if high:
        beyond = 0 if high.inclusive or high.value != int(high.value) else 1
        greatest = math.floor(high.value) - beyond
    return least, greatest


def _whole_multiples(step: int, low: NumberBound | None, high: NumberBound | None) -> Node:
    within = integers(*integer_bounds(low, high))
    if step == 1:
        return within
    # divisibility by this factor depends only on the last digits
    ending = math.gcd(step, 10 ** step.bit_length())
    cofactor = step // ending
    count = next(count for count in range(400) if 10**count % ending == 0)
    if 10**count // ending > MOST_LISTED or cofactor > MOST_REMAINDERS:
        raise GrammarError(f"multipleOf {step} has too many last digits or remainders", _HINT)
    parts = [within]
    if ending > 1:
        parts.append(_ending(ending, count))
    if cofactor > 1:
        digits = _divisible(cofactor, _longest(low, high))
        parts.append(concat(optional(Literal("-")), digits))

    return Intersect(tuple(parts))


def _ending(step: int, count: int) -> Node:
    """Return the multiples of `step`, a divisor of 10 ** count, by their last digits."""
    endings = either(Literal(str(value).zfill(count)) for value in range(0, 10**count, step))
    long = concat(Chars(((0x31, 0x39),)), Repeat(DIGIT, 0, None), endings)
    short = either(Literal(str(value)) for value in range(step, 10**count, step))
    return either([Literal("0"), concat(optional(Literal("-")), either([short, long]))])


def _with_decimals(step: Fraction, low: NumberBound | None, high: NumberBound | None) -> Node:
    """Return the multiples of `step` with decimals, up to the number of decimals of `step`."""
    most = next(count for count in range(1, 400) if 10**count % step.denominator == 0)
    parts = []
    for decimals in range(1, most + 1):
        with_decimals = common_multiple([step, Fraction(1, 10**decimals)])
        parts.append(_with_exactly(decimals, with_decimals, low, high))
    return either(parts)


def _with_exactly(
    decimals: int, step: Fraction, low: NumberBound | None, high: NumberBound | None
) -> Node:
    """Return the multiples of `step` with this number of decimals, which suffices for `step`."""
    scaled = (step * 10**decimals).numerator
    digits = _last_digits(scaled, decimals)
    if digits is None and scaled > MOST_REMAINDERS:
        raise GrammarError(f"multipleOf {float(step)} has too many remainders", _HINT)
    if digits is None:
        digits = _divisible(scaled, _longest(low, high), decimals)
    return Intersect((numbers(low, high, decimals), concat(optional(Literal("-")), digits)))


def _last_digits(scaled: int, decimals: int) -> Node | None:
    """Return the numbers with `decimals` decimals that form a multiple of `scaled` without the
    point, by their last digits; None without a short list of last digits."""
    counts = range(decimals + 1, 400)
    count = next((count for count in counts if 10**count % scaled == 0), None)
    if count is None or 10**count // scaled > MOST_LISTED:
        return None

    def written(value: int, width: int) -> Literal:
        text = str(value).zfill(width)
        return Literal(f"{text[:-decimals]}.{text[-decimals:]}")

    values = range(0, 10**count, scaled)
    long = concat(Chars(((0x31, 0x39),)), Repeat(DIGIT, 0, None))
    return either(
        [
            either(written(value, decimals + 1) for value in values),
            concat(long, either(written(value, count) for value in values)),
        ]
    )


def _longest(low: NumberBound | None, high: NumberBound | None) -> int:
    """Return an upper bound on the digits of an integer between the bounds."""
    bounds = [abs(end) for end in integer_bounds(low, high) if end is not None]
    return max([INTEGER_DIGITS, *(len(str(end)) + 1 for end in bounds)])


@lru_cache(maxsize=64)
def _divisible(step: int, most: int, decimals: int = 0) -> Node:
    """Return digit strings that form a multiple of `step` without the point: up to `most` digits,
    then a point and `decimals` digits if any.

    The tree shares a node per remainder of the digits so far and number of remaining digits.
    """
    after: list[Node] = [EMPTY, *[NOTHING] * (step - 1)]
    for _ in range(decimals):
        after = [either(_digits(step, remainder, after)) for remainder in range(step)]
    ends = [
        node if not decimals or node == NOTHING else concat(Literal("."), node) for node in after
    ]
    after = ends
    for _ in range(most):
        after = [
            either([ends[remainder], *_digits(step, remainder, after)]) for remainder in range(step)
        ]
    return after[0]


def _digits(step: int, remainder: int, after: list[Node]) -> list[Node]:
    ways: dict[int, list[int]] = {}
    for digit in range(10):
        ways.setdefault((10 * remainder + digit) % step, []).append(0x30 + digit)
    return [
        concat(characters(codes), after[to]) for to, codes in ways.items() if after[to] != NOTHING
    ]


def _fractions(step: Fraction, low: NumberBound | None, high: NumberBound | None) -> Node:
    """Return multiples of `step` = 1/n. Trailing zeros are allowed up to the number of decimals of
    `step`."""
    decimals = next(count for count in range(1, 400) if 10**count % step.denominator == 0)
    within = numbers(low, high, decimals)
    if 10**decimals == step.denominator:
        return within
    if step.denominator > MOST_LISTED:
        raise GrammarError(f"multipleOf {float(step)} has no short list of last digits", _HINT)
    endings = set()
    for factor in range(step.denominator):
        digits = str(int(factor * step * 10**decimals)).zfill(decimals)
        endings |= {digits[:n] for n in range(1, decimals + 1) if not digits[n:].strip("0")}
    fraction = optional(concat(Literal("."), either(map(Literal, sorted(endings)))))
    return Intersect((within, concat(optional(Literal("-")), Repeat(DIGIT, 1, None), fraction)))
