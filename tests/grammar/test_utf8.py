from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.grammar.automaton.utf8 import EXIT, fragment, sequences

EVERY = ((0, 0x10FFFF),)

# Table 3-7 of the Unicode standard, "Well-formed UTF-8 byte sequences".
WELL_FORMED = [
    ((0x00, 0x7F),),
    ((0xC2, 0xDF), (0x80, 0xBF)),
    ((0xE0, 0xE0), (0xA0, 0xBF), (0x80, 0xBF)),
    ((0xE1, 0xEC), (0x80, 0xBF), (0x80, 0xBF)),
    ((0xED, 0xED), (0x80, 0x9F), (0x80, 0xBF)),
    ((0xEE, 0xEF), (0x80, 0xBF), (0x80, 0xBF)),
    ((0xF0, 0xF0), (0x90, 0xBF), (0x80, 0xBF), (0x80, 0xBF)),
    ((0xF1, 0xF3), (0x80, 0xBF), (0x80, 0xBF), (0x80, 0xBF)),
    ((0xF4, 0xF4), (0x80, 0x8F), (0x80, 0xBF), (0x80, 0xBF)),
]

EDGES = [
    0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000,
    0x10FFFF,
]  # fmt: skip

points = st.sampled_from(EDGES) | st.integers(0, 0x10FFFF)


def inside(data: bytes, sequence: tuple[tuple[int, int], ...]) -> bool:
    return len(data) == len(sequence) and all(
        low <= byte <= high for byte, (low, high) in zip(data, sequence, strict=True)
    )


def test_all_characters_are_the_table_of_the_standard() -> None:
    assert list(sequences(EVERY)) == WELL_FORMED


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0x61, 0x61, [((0x61, 0x61),)]),
        (0xD800, 0xDFFF, []),
        (0xE9, 0xEA, [((0xC3, 0xC3), (0xA9, 0xAA))]),
        (0xFF, 0x101, [((0xC3, 0xC3), (0xBF, 0xBF)), ((0xC4, 0xC4), (0x80, 0x81))]),
        (0x7F, 0x80, [((0x7F, 0x7F),), ((0xC2, 0xC2), (0x80, 0x80))]),
    ],
)
def test_ranges(low: int, high: int, expected: list[tuple[tuple[int, int], ...]]) -> None:
    assert list(sequences(((low, high),))) == expected


@given(points, points, st.lists(points, max_size=5))
def test_sequences_hold_the_characters_of_the_range_once_and_no_others(
    one: int, two: int, others: list[int]
) -> None:
    low, high = min(one, two), max(one, two)
    found = list(sequences(((low, high),)))
    assert found == sorted(found)
    for point in {low, high, min(low + 1, high), max(low, high - 1), *EDGES, *others}:
        if not 0xD800 <= point <= 0xDFFF:
            data = chr(point).encode()
            assert sum(inside(data, sequence) for sequence in found) == (low <= point <= high)
    for sequence in found:
        ends = [bytes(pair[side] for pair in sequence).decode() for side in (0, 1)]
        assert low <= ord(ends[0]) <= ord(ends[1]) <= high


@given(st.lists(st.tuples(points, points), min_size=1, max_size=6))
def test_first_ranges_are_equal_or_apart(pairs: list[tuple[int, int]]) -> None:
    ranges = []
    for low, high in sorted((min(pair), max(pair)) for pair in pairs):
        if not ranges or ranges[-1][1] + 1 < low:
            ranges.append((low, high))
    firsts = sorted({sequence[0] for sequence in sequences(tuple(ranges))})
    assert all(before[1] < after[0] for before, after in pairwise(firsts))


def test_fragment_shares_tails() -> None:
    states = fragment(EVERY)
    assert len(states) == 8
    assert states[-1][0] == (0, 0x7F, EXIT)
    assert ((0x80, 0xBF, EXIT),) in states
    assert all(target < index for index, edges in enumerate(states) for _, _, target in edges)


def test_fragment_joins_ranges_that_lead_to_one_state() -> None:
    assert fragment(((0x61, 0x61), (0x63, 0x63))) == (((0x61, 0x61, EXIT), (0x63, 0x63, EXIT)),)
    assert fragment(((0x80, 0x7FF),))[-1] == ((0xC2, 0xDF, 0),)


def test_fragment_of_nothing_is_a_dead_end() -> None:
    assert fragment(()) == fragment(((0xD800, 0xDFFF),)) == ((),)
