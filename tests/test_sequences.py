"""Comparison of sequences, against slow twins."""

from __future__ import annotations

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from sgnb.sequences import longest_common_block

items = st.lists(st.integers(0, 2), max_size=14)


def slow_block(a: list[int], b: list[int]) -> tuple[int, int]:
    best = (0, 0)
    for i in range(len(a)):
        for j in range(len(b)):
            length = 0
            while a[i + length : i + length + 1] == b[j + length : j + length + 1] != []:
                length += 1
            if length > best[1]:
                best = (i, length)
    return best


@given(items, items)
def test_the_longest_common_block_is_the_first_of_greatest_length(
    a: list[int], b: list[int]
) -> None:
    assert longest_common_block(a, b) == slow_block(a, b)


def test_the_time_of_a_common_block_is_linear() -> None:
    drawn = random.Random(1)
    a, b = ([drawn.randrange(2) for _ in range(20_000)] for _ in range(2))
    began = time.process_time()
    start, length = longest_common_block(a, b)
    assert time.process_time() - began < 5, "comparing all pairs takes minutes"
    assert length > 10 and any(
        a[start : start + length] == b[i : i + length] for i in range(20_000)
    )
