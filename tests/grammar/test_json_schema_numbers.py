"""Ranges and multiples against Python's integers and Decimals."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.errors import GrammarError
from sgnb.grammar.schema.multiples import common_multiple, multiples
from sgnb.grammar.schema.numbers import FRACTION_DIGITS, NumberBound, integers, numbers

from .oracle import matches

WHOLE = st.one_of(
    st.integers(-120, 120), st.integers(-(10**6), 10**6), st.integers(-(10**22), 10**22)
)
DECIMALS = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(-(10**6), 10**6),
    st.integers(0, 4),
)
BOUNDS = st.none() | st.builds(NumberBound, DECIMALS, st.booleans())


def inside(value, low: NumberBound | None, high: NumberBound | None) -> bool:
    if low and (value < low.value or (value == low.value and not low.inclusive)):
        return False
    return not (high and (value > high.value or (value == high.value and not high.inclusive)))


@settings(max_examples=300, deadline=None)
@given(st.none() | WHOLE, st.none() | WHOLE, st.lists(WHOLE, max_size=4))
def test_integers(low, high, others):
    node = integers(low, high)
    near = [bound + step for bound in (low, high) if bound is not None for step in (-1, 0, 1)]
    for value in (*near, *others, 0):
        if abs(value) < 10**18:
            expected = (low is None or value >= low) and (high is None or value <= high)
            assert matches(node, str(value)) == expected
        assert not matches(node, f"0{value}") and not matches(node, f"{value}.0")
    assert not matches(node, "-0") and not matches(node, "")


def spellings(value: Decimal) -> set[str]:
    text = format(value, "f")
    return {text, text + "0" if "." in text else text + ".0"}


@settings(max_examples=250, deadline=None)
@given(BOUNDS, BOUNDS, st.lists(DECIMALS, max_size=4))
def test_numbers(low, high, others):
    node = numbers(low, high)
    tiny = Decimal("0.00001")
    near = [bound.value + step for bound in (low, high) if bound for step in (-tiny, 0, tiny)]
    for value in (*near, *others, Decimal(0)):
        for text in spellings(value):
            negative_zero = value == 0 and text.startswith("-")
            assert matches(node, text) == (inside(value, low, high) and not negative_zero), text


@settings(max_examples=150, deadline=None)
@given(
    st.builds(NumberBound, DECIMALS, st.booleans()),
    st.integers(1, FRACTION_DIGITS),
    st.integers(-3, 3),
)
def test_doubles_stay_on_their_side(bound, places, steps):
    """What the tree lets through is on the right side of the bound as a double too."""
    text = format(bound.value + steps * Decimal(1).scaleb(-places), "f")
    limit = float(bound.value)
    if matches(numbers(bound, None), text):
        assert float(text) > limit or (bound.inclusive and float(text) == limit)
    if matches(numbers(None, bound), text):
        assert float(text) < limit or (bound.inclusive and float(text) == limit)


@pytest.mark.parametrize("digits", range(1, 18))
def test_long_fractions_below_an_exclusive_bound(digits):
    """999.9999999999 and its like must not become the bound when they are read as doubles."""
    node = numbers(None, NumberBound(10**digits, False))
    texts = ["9" * digits + "." + "9" * places for places in range(1, FRACTION_DIGITS + 1)]
    assert all(float(text) < 10**digits for text in texts if matches(node, text))
    assert matches(node, "9" * digits) and (digits > 13 or matches(node, texts[0]))


STEPS = st.sampled_from(
    [
        1,
        2,
        3,
        4,
        5,
        7,
        10,
        25,
        100,
        Decimal("0.5"),
        Decimal("0.25"),
        Decimal("0.01"),
        Decimal("1.5"),
        Decimal("2.5"),
        Decimal("1.25"),
        Decimal("12.5"),
    ]
)


def test_multiples_with_fewer_decimals() -> None:
    node = multiples(Fraction(5, 4), None, None, False)
    matching = {"1.25", "2.5", "2.50", "3.75", "-87.5", "5", "5.0", "5.00"}
    others = {"1.3", "2.6", "3.7", "0.5", "1.250", "6"}
    assert {text for text in matching | others if matches(node, text)} == matching


@settings(max_examples=200, deadline=None)
@given(
    STEPS,
    st.none() | st.integers(-60, 60),
    st.none() | st.integers(-60, 60),
    st.booleans(),
    st.integers(-400, 400),
)
def test_multiples(step, least, most, whole, quarter):
    low, high = (None if end is None else NumberBound(end) for end in (least, most))
    try:
        node = multiples(common_multiple([step]), low, high, whole)
    except GrammarError:
        assert (low is None or high is None) and step in (3, 7, Decimal("1.5"))
        return
    value = Decimal(quarter) / 4
    text = str(int(value)) if value == int(value) else str(value)
    expected = (
        Fraction(value) % Fraction(step) == 0
        and inside(value, low, high)
        and (not whole or value == int(value))
    )
    assert matches(node, text) == expected


@given(
    st.lists(
        st.sampled_from([2, 3, 4, Decimal("0.5"), Decimal("1.5"), Decimal("0.2")]),
        min_size=1,
        max_size=3,
    )
)
def test_common_multiple(steps):
    found = common_multiple(steps)
    assert all((found / Fraction(step)).denominator == 1 for step in steps)
    assert all(
        any((found / divisor / Fraction(step)).denominator > 1 for step in steps)
        for divisor in (2, 3, 5)
    )
    assert found <= math.prod(Fraction(step).numerator for step in steps)
