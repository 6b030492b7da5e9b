"""What paired times say: ratios, an interval that holds its level with few rounds; and whose turn
it is. Knows no program."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.99
"""Of an interval, where there are rounds enough. Not 0.95: a benchmark has several variants, and
with six intervals at 0.95 one in four benchmarks would find a difference that is none."""


class Interval(NamedTuple):
    """`low` <= median <= `high` in a share `level` of all benchmarks like this one."""

    low: float
    high: float
    level: float


def paired_ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """Round by round, so that what slows both, such as a machine that drifts, cancels out."""
    return [time / before for time, before in zip(times, base, strict=True)]


def median_ratio(times: Sequence[float], base: Sequence[float]) -> float:
    """The median of the ratios pair by pair."""
    return statistics.median(paired_ratios(times, base))


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The exact interval of the median from order statistics, which is the sign test turned round
    (Thompson 1936; Conover, Practical Nonparametric Statistics, 3.2): a value lies below the median
    as a coin falls, so that the k-th smallest and the k-th largest of n have it between them with
    probability 1 - 2 P(Binomial(n, 1/2) < k), whatever the noise is like, if no value knows of
    another.

    The narrowest such interval of at least `level`; where n values cannot give that, the widest,
    with the level that it has. A bootstrap of few values is narrower, and holds its level less
    often than it says.
    """
    ordered, n = sorted(values), len(values)
    k = max((k for k in range(1, n // 2 + 1) if _level(n, k) >= level), default=1)
    return Interval(ordered[k - 1], ordered[-k], _level(n, k))


def rounds_needed(level: float = LEVEL) -> int:
    """The fewest rounds whose interval has that level."""
    return next(n for n in range(1, 10_000) if _level(n, 1) >= level)


def in_turn(names: Sequence[str], turn: int) -> list[str]:
    """The order of a round, by Williams (1949): each name leads in turn, every second round goes
    backwards, and in as many rounds as there are names, or twice as many where that is odd, each
    follows each other as often."""
    size, at = len(names), turn // 2
    zigzag = (-(place // 2) if place % 2 == 0 else (place + 1) // 2 for place in range(size))
    order = [names[(place + at) % size] for place in zigzag]
    return order[::-1] if turn % 2 else order


def _level(n: int, k: int) -> float:
    below: int = sum(math.comb(n, i) for i in range(k))
    return max(0.0, 1 - 2 * below / 2**n)
