"""`sgnb.bench` by its own measure, on the bundled model: benchmarks of a program against itself, of
which at least 19 of 20 must find no difference, and against itself slowed by 10 %, of which at
least 19 of 20 must find that. tests/benchmark/test_stats.py does the same with simulated noise.

Enough rounds for a machine that others use too, where paired ratios differ by 12 % (their standard
deviation); where they differ by 5 %, 16 do.
"""

from __future__ import annotations

import time
from typing import Any

import sgnb
from sgnb import Workload
from sgnb.backends import executor_of
from sgnb.benchmark import Measurements, bench
from sgnb.benchmark.findings import findings

from .claims import COUNTRIES, record
from .common import Report

BENCHMARKS, ROUNDS = 20, 64
SLOWDOWN = 0.1


class Slowed:
    """Return `program` with additional processor time from a busy loop."""

    __name__ = "slowed"

    def __init__(self, program: Any) -> None:
        self._program = program

    def run_batch(self, rows: Any, **options: Any) -> Any:
        began = time.process_time()
        states = self._program.run_batch(rows, **options)
        now = time.process_time()
        while time.process_time() < now + SLOWDOWN * (now - began):
            pass
        return states


def run() -> Report:
    report = Report(
        f"sgnb.bench against itself: {BENCHMARKS} benchmarks of {ROUNDS} rounds (CPU)",
        ("against", "interval holds 1.0", "found slower", "median ratios"),
        bar=f"no difference to itself, and {SLOWDOWN:.0%} found, each in 19 of 20 benchmarks",
        note="Processor time.",
    )
    workload = Workload("records", record, [{"country": COUNTRIES[0]}])
    found: dict[str, list[Any]] = {"itself": [], "slowed": []}
    with sgnb.Engine("tiny") as engine:
        for _ in range(BENCHMARKS):
            measured = Measurements(workload, ROUNDS, clock="cpu")
            against = ["itself", Slowed(record)]
            bench(executor_of(engine), against, measured)
            for one in findings(measured)[1:]:
                found[one.variant].append(one)
    for name, ones in found.items():
        holds = sum(not one.note and one.interval.low <= 1 <= one.interval.high for one in ones)
        slower = sum(one.verdict == "slower" for one in ones)
        ratios = sorted(one.ratio for one in ones)
        report.rows.append((name, holds, slower, f"{ratios[0]:.2f} to {ratios[-1]:.2f}"))
    right = report.rows[0][1], report.rows[1][2]
    report.met = min(right) >= 0.95 * BENCHMARKS
    return report
