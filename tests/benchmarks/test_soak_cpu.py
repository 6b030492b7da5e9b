"""The soak on a CPU, a few seconds of it."""

from __future__ import annotations

import gc

import pytest

from benchmarks import soak_cpu
from benchmarks.soak_cpu import Weight, growth, soak
from sgnb.engine.request.request import Request
from sgnb.viz import RunState


def test_growth_is_told_in_ten_thousand_requests() -> None:
    flat = [Weight(float(i), 100 * i, 400.0 + (i % 2) / 100) for i in range(10)]
    assert abs(growth(flat)) < 0.1
    leaking = [Weight(float(i), 100 * i, 400 + 0.05 * i) for i in range(10)]
    assert growth(leaking) == pytest.approx(5)


@pytest.mark.slow
def test_programs_with_views_open_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_cpu, "SEGMENTS", 2)

    def alive() -> int:
        gc.collect()
        return sum(type(thing) in (Request, RunState) for thing in gc.get_objects())

    before = alive()
    report = soak(3, 1)
    assert len(report.rows) >= 3 and int(report.rows[-1][1]) > int(report.rows[0][1]) > 0
    assert alive() <= before
    assert float(report.rows[-1][2]) - float(report.rows[0][2]) < 16, "MB in a moment"
