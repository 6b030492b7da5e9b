"""Statistics of paired times: ratios, a confidence interval valid for few rounds, and the order of
sides. Knows no program."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.99
"""Confidence level, given enough rounds. Not 0.95: with six intervals at 0.95, about one in four
benchmarks would report a false difference."""


class Interval(NamedTuple):
    """Confidence interval: `low` <= median <= `high` with coverage probability `level`."""

    low: float
    high: float
    level: float


def paired_ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the ratio of times per round. Pairing cancels slow drift of the machine.

    Args:
        times: Seconds of a variant by round.
        base: Seconds of the unmodified program by round.
    """
    return [time / base_time for time, base_time in zip(times, base, strict=True)]


def median_ratio(times: Sequence[float], base: Sequence[float]) -> float:
    """Return the median of the paired ratios of `times` to `base`."""
    return statistics.median(paired_ratios(times, base))


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the exact confidence interval of the median from order statistics, the inverse of the
    sign test.

    The k-th smallest and the k-th largest of n independent values enclose the median with
    probability 1 - 2 P(Binomial(n, 1/2) < k), for any noise distribution (Thompson 1936; Conover,
    Practical Nonparametric Statistics, 3.2). A bootstrap of few values is narrower, but covers the
    median less often than the nominal level.

    Args:
        values: Measured values.
        level: Minimum coverage.

    Returns:
        The narrowest interval with at least `level`. Too few values give the widest interval with a
        lower level.
    """
    ordered, n = sorted(values), len(values)
    k = max((k for k in range(1, n // 2 + 1) if _level(n, k) >= level), default=1)
    return Interval(ordered[k - 1], ordered[-k], _level(n, k))


def rounds_needed(level: float = LEVEL) -> int:
    """Return the smallest number of rounds for an interval of at least `level`."""
    return next(n for n in range(1, 10_000) if _level(n, 1) >= level)


def in_turn(names: Sequence[str], turn: int) -> list[str]:
    """Return the order of sides in a round, after Williams (1949).

    Each side leads in turn, and every second round is reversed. Each side follows every other side
    equally often after `len(names)` rounds, or twice as many rounds for odd numbers.

    Args:
        names: Sides.
        turn: Number of the round, from 0.
    """
    size, at = len(names), turn // 2
    zigzag = (-(place // 2) if place % 2 == 0 else (place + 1) // 2 for place in range(size))
    order = [names[(place + at) % size] for place in zigzag]
    return order[::-1] if turn % 2 else order


def _level(n: int, k: int) -> float:
    below: int = sum(math.comb(n, i) for i in range(k))
    return max(0.0, 1 - 2 * below / 2**n)
