"""`sgnb.bench` by its own measure, on the bundled model: benchmarks of a program against itself, of
which at least 19 of 20 must find no difference, and against itself slowed by 10 %, of which at
least 19 of 20 must find that. tests/benchmark/test_stats.py does the same with simulated noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import sgnb
from sgnb import Workload
from sgnb.backends import executor_of
from sgnb.benchmark import ROUNDS, Measured, bench
from sgnb.benchmark.findings import findings
from sgnb.benchmark.runner import Clock

from .claims import COUNTRIES, few_shot
from .common import Report

BENCHMARKS = 20
SLOWDOWN = 0.1


class Slowed:
    """`program` that takes so much longer, by a clock: it does nothing, busily."""

    def __init__(self, program: Any, now: Callable[[], float]) -> None:
        self.__name__, self._program, self._now = "slowed", program, now

    def run_batch(self, rows: Any, **options: Any) -> Any:
        began = self._now()
        states = self._program.run_batch(rows, **options)
        until = self._now() + SLOWDOWN * (self._now() - began)
        while self._now() < until:
            pass
        return states


def run() -> Report:
    report = Report(
        f"sgnb.bench against itself, {BENCHMARKS} benchmarks of {ROUNDS} rounds (CPU)",
        ("clock", "against", "interval holds 1.0", "found slower", "median ratios from, to"),
        bar="no difference to itself, and 10 % found, in 19 of 20 each, in processor time",
        met=True,
    )
    clocks: dict[Clock, Callable[[], float]] = {"cpu": time.process_time, "wall": time.perf_counter}
    workload = Workload("few-shot questions", few_shot, [{"country": c} for c in COUNTRIES[:1]])
    with sgnb.Engine("tiny") as engine:
        for clock, now in clocks.items():
            found: dict[str, list[Any]] = {"itself": [], "slowed": []}
            for _ in range(BENCHMARKS):
                measured = Measured(workload, ROUNDS, clock=clock)
                against = ["itself", Slowed(few_shot, now)]
                bench(executor_of(engine), workload, against, ROUNDS, measured)
                for one in findings(measured)[1:]:
                    found[one.variant].append(one)
            for name, ones in found.items():
                holds = sum(one.interval.low <= 1 <= one.interval.high for one in ones)
                slower = sum(one.verdict == "slower" for one in ones)
                ratios = [one.ratio for one in ones]
                spread = f"{min(ratios):.2f}, {max(ratios):.2f}"
                report.rows.append((clock, name, holds, slower, spread))
                if clock == "cpu":
                    right = holds if name == "itself" else slower
                    report.met = bool(report.met) and right >= 0.95 * BENCHMARKS
    return report
