"""Drawn programs with edits between compile and run: no run as a graph differs silently."""

from __future__ import annotations

import pytest

from .program_fuzz import run_fuzz


def test_drawn_programs_with_edits() -> None:
    counts, different = run_fuzz(range(60))
    assert not different, different[0]
    assert counts["equal"] > 50


def test_without_the_check_runs_differ() -> None:
    counts, different = run_fuzz(range(20), check=False)
    assert counts["different"] > 5 and different


@pytest.mark.slow
def test_more_drawn_programs_with_edits() -> None:
    """`python -m benchmarks compiled_check` has 2,000."""
    counts, different = run_fuzz(range(1000, 1400))
    assert not different, different[0]
    assert counts["equal"] > 300
