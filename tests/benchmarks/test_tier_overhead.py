"""The verdict on the cost of tiers: throughput with tiers against without."""

from __future__ import annotations

import pytest

from benchmarks.tier_overhead import BASE, TIERS, TURNS, Turn, table


@pytest.mark.parametrize(
    ("slower", "noise", "met"),
    [(1.002, 0.001, True), (1.02, 0.001, False), (1.002, 0.05, None)],
)
def test_the_verdict_compares_turns_with_and_without_tiers(
    slower: float, noise: float, met: bool | None
) -> None:
    """A share inside the tiers does not decide, and an interval with the bar decides nothing."""

    def turns(factor: float) -> list[Turn]:
        times = [factor * (1 + noise * (-1) ** turn) for turn in range(TURNS)]
        return [Turn(total=t, tiers=0.1 * t, longest=t, longest_without=t) for t in times]

    report = table("fits", {BASE: [Turn(1.0, 0.0, 1.0, 1.0)] * TURNS, TIERS[0]: turns(slower)})
    assert report.met is met
    assert ("not decided" in report.note) == (met is None)
    assert [row[0] for row in report.rows] == [BASE, TIERS[0]]
