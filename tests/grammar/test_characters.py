"""Sets of characters against Python sets, and against `re` over all of Unicode."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.grammar.regex.characters import (
    SCALARS,
    category,
    complement,
    ecmascript_category,
    ignore_case,
    intersection,
    union,
)
from sgnb.grammar.syntax import Ranges

EVERYTHING = "".join(chr(code) for first, last in SCALARS for code in range(first, last + 1))

quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)

near_edges = st.one_of(
    st.integers(0, 40), st.integers(0xD7F0, 0xE010), st.integers(0x10FFF0, 0x10FFFF)
)
pairs = st.lists(
    st.tuples(near_edges, near_edges).map(lambda pair: (min(pair), max(pair))), max_size=5
)
NEAR_EDGES = [*range(45), *range(0xD7E0, 0xE020), *range(0x10FFE0, 0x110000)]


def text(ranges: Ranges) -> str:
    return "".join(chr(code) for first, last in ranges for code in range(first, last + 1))


def members(ranges: list[tuple[int, int]] | Ranges) -> set[int]:
    """Those near the edges, without surrogates."""
    return {
        c for c in NEAR_EDGES if any(a <= c <= b for a, b in ranges) and not 0xD800 <= c <= 0xDFFF
    }


def is_normal(ranges: Ranges) -> bool:
    return all(a <= b for a, b in ranges) and all(
        one[1] + 1 < other[0] for one, other in pairwise(ranges)
    )


@quick
@given(pairs, pairs)
def test_the_algebra_of_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    a, b = union(one), union(other)
    assert members(a) == members(one)
    assert members(union(a, b)) == members(one) | members(other)
    assert members(intersection(a, b)) == members(one) & members(other)
    assert members(complement(a)) == members(SCALARS) - members(one)
    assert complement(complement(a)) == a
    assert all(
        is_normal(ranges) for ranges in (a, b, union(a, b), intersection(a, b), complement(a))
    )


def test_adjacent_ranges_are_one_and_surrogates_are_left_out() -> None:
    assert union([(5, 9), (1, 2)], [(3, 3)]) == ((1, 3), (5, 9))
    assert union([(0xD7FF, 0xE000)]) == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))
    assert complement(()) == SCALARS and complement(SCALARS) == () and union() == ()


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("letter", "dDwWsS")
def test_categories_are_those_of_re(letter: str, ascii_only: bool) -> None:
    ranges = category(letter, ascii_only)
    assert is_normal(ranges)
    assert text(ranges) == "".join(
        re.findall(rf"\{letter}", EVERYTHING, re.ASCII if ascii_only else 0)
    )


def test_ecmascript_categories() -> None:
    assert text(ecmascript_category("d")) == "0123456789"
    assert set(text(ecmascript_category("w"))) == set(map(chr, range(128))) & set(
        text(category("w"))
    )
    blanks = set(text(ecmascript_category("s")))
    assert blanks ^ set(text(category("s"))) == {"\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\ufeff"}
    for letter in "dws":
        assert ecmascript_category(letter.upper()) == complement(ecmascript_category(letter))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_ignoring_case_of_each_character_is_that_of_re(ascii_only: bool) -> None:
    """All that have case, each as a pattern of its own, over all that have case."""
    cased = "".join(c for c in EVERYTHING if c.lower() != c or c.upper() != c)
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    step = 1 if ascii_only else 3
    special = "İıſKÅßẞµςσΣͅιιΐΐᲀᲁᾳᾼ\U00010400\U00010428\U000118a0\U0001e900"
    for char in cased[::step] + special:
        found = text(ignore_case(((ord(char), ord(char)),), ascii_only))
        assert found == "".join(sorted(set(re.findall(char, cased, flags)) | {char})), hex(
            ord(char)
        )
    assert ignore_case(((0x21, 0x40),), ascii_only) == ((0x21, 0x40),)


RANGES = [
    "a-z", "K", "k-\u2000", "\u0100-\u017f", "\u03a0-\u1fff", "\uff00-\U00010410",
    "\x00-\U0010ffff", "À-Þ0-9",
]  # fmt: skip


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("body", RANGES)
def test_ignoring_case_of_ranges_is_that_of_re_over_all_of_unicode(
    body: str, ascii_only: bool
) -> None:
    parts = re.findall("(.)-(.)|(.)", body, re.DOTALL)
    ranges = union([(ord(first or single), ord(last or single)) for first, last, single in parts])
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    limit = (
        "\uffff" if ascii_only else "\U0010ffff"
    )  # above it, `re` applies Unicode case to ranges with re.ASCII too
    found = "".join(c for c in text(ignore_case(ranges, ascii_only)) if c <= limit)
    assert found == "".join(c for c in re.findall(f"[{body}]", EVERYTHING, flags) if c <= limit)
