"""Multiples of a number between bounds, where they can be listed or told by the last digits. Knows
no schema."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction

from ...errors import GrammarError
from ..syntax import Chars, Intersect, Literal, Node, Repeat, concat, optional
from .numbers import BOUND_DIGITS, Bound, integers, numbers
from .text import DIGIT, either

MOST_LISTED = 1000
"""So many multiples are written out one by one."""

_CURE = (
    f"give a minimum and a maximum with at most {MOST_LISTED} multiples between, or drop multipleOf"
)


def common_multiple(steps: Iterable[int | Decimal]) -> Fraction:
    """The least number that is a multiple of all the steps."""
    step = Fraction(0)
    for other in map(Fraction, steps):
        numerator = math.lcm(step.numerator, other.numerator) if step else other.numerator
        step = Fraction(
            numerator, math.gcd(step.denominator, other.denominator) if step else other.denominator
        )
    return step


def multiples(step: Fraction, low: Bound | None, high: Bound | None, whole: bool) -> Node:
    """The multiples of `step` > 0 between the bounds; `whole` for integers only.

    Raises GrammarError where no list of MOST_LISTED numbers or of last digits tells them.
    """
    if whole:
        step = Fraction(step.numerator)
    if low and high:
        first, last = _ends(step, low, high)
        if last - first < MOST_LISTED:
            return either(Literal(_text(step * factor)) for factor in range(first, last + 1))
    if step.numerator != 1 and step.denominator != 1:
        raise GrammarError(f"multipleOf {float(step)} has no short list of last digits", _CURE)
    if step.denominator == 1:
        return _whole_multiples(step.numerator, low, high)
    return _fractions(step, low, high)


def _ends(step: Fraction, low: Bound, high: Bound) -> tuple[int, int]:
    """The first and the last factor of `step` between the bounds."""
    least, most = Fraction(low.value) / step, Fraction(high.value) / step
    first = math.ceil(least) + (0 if low.inclusive or least.denominator > 1 else 1)
    return first, math.floor(most) - (0 if high.inclusive or most.denominator > 1 else 1)


def _text(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(prec=2 * BOUND_DIGITS):
        return format(Decimal(value.numerator) / value.denominator, "f")


def integer_bounds(low: Bound | None, high: Bound | None) -> tuple[int | None, int | None]:
    """The least and the greatest integer between the bounds."""
    least = greatest = None
    if low:
        least = math.ceil(low.value) + (0 if low.inclusive or low.value != int(low.value) else 1)
    if high:
        greatest = math.floor(high.value) - (
            0 if high.inclusive or high.value != int(high.value) else 1
        )
    return least, greatest


def _whole_multiples(step: int, low: Bound | None, high: Bound | None) -> Node:
    within = integers(*integer_bounds(low, high))
    if step == 1:
        return within
    count = next((count for count in range(1, 20) if 10**count % step == 0), None)
    if count is None or 10**count // step > MOST_LISTED:
        raise GrammarError(f"multipleOf {step} has no short list of last digits", _CURE)
    endings = either(Literal(str(value).zfill(count)) for value in range(0, 10**count, step))
    long = concat(Chars(((0x31, 0x39),)), Repeat(DIGIT, 0, None), endings)
    short = either(Literal(str(value)) for value in range(step, 10**count, step))
    return Intersect(
        (within, either([Literal("0"), concat(optional(Literal("-")), either([short, long]))]))
    )


def _fractions(step: Fraction, low: Bound | None, high: Bound | None) -> Node:
    """`step` is 1/n. Zeros at the end are allowed up to the length that the step needs."""
    places = next(count for count in range(1, 400) if 10**count % step.denominator == 0)
    within = numbers(low, high, places)
    if 10**places == step.denominator:
        return within
    if step.denominator > MOST_LISTED:
        raise GrammarError(f"multipleOf {float(step)} has no short list of last digits", _CURE)
    endings = set()
    for factor in range(step.denominator):
        digits = str(int(factor * step * 10**places)).zfill(places)
        endings |= {
            digits[:length] for length in range(1, places + 1) if not digits[length:].strip("0")
        }
    fraction = optional(concat(Literal("."), either(map(Literal, sorted(endings)))))
    return Intersect((within, concat(optional(Literal("-")), Repeat(DIGIT, 1, None), fraction)))
