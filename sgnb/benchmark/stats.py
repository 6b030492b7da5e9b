"""Statistics of paired times: ratios, a confidence interval valid for few rounds, and the order of
sides. The exact confidence interval of a share. Knows no program."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

LEVEL = 0.99
"""Confidence level, given enough rounds. Not 0.95: with six intervals at 0.95, about one in four
benchmarks would report a false difference."""

SHARE_LEVEL = 0.95
"""Confidence level of a single share."""


BISECTIONS = 40
"""Halvings of the search for a bound: the error is below 1e-12."""


class Interval(NamedTuple):
    """Confidence interval of a median or a share: `low` to `high` with coverage probability
    `level`."""

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


def share_interval(successes: int, trials: int, level: float = SHARE_LEVEL) -> Interval:
    """Return the exact confidence interval of a share (Clopper and Pearson 1934).

    The bounds are the shares for which the observed number, or a number further away, has the
    probability (1 - level) / 2.

    Args:
        successes: Number of successes.
        trials: Number of independent trials; 0 gives the interval 0 to 1.
        level: Minimum coverage.
    """
    tail = (1 - level) / 2
    low = _bisect(lambda p: 1 - _at_most(successes - 1, trials, p) > tail) if successes else 0.0
    fails = trials - successes
    high = 1 - _bisect(lambda p: 1 - _at_most(fails - 1, trials, p) > tail) if fails else 1.0
    return Interval(low, high, level)


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


def _at_most(count: int, trials: int, p: float) -> float:
    """Return P(Binomial(trials, p) <= count) for 0 < p < 1."""
    log_odds, log_none = math.log(p / (1 - p)), trials * math.log1p(-p)
    ways = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(ways - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_odds + log_none)
        for k in range(count + 1)
    )


def _bisect(above: Callable[[float], bool]) -> float:
    """Return the number between 0 and 1 from which on `above` is True."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high
