"""Damaged files, some of each kind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.damaged_files import Outcomes, Records, changed, run


def test_some_flips_and_changes_meet_the_bar() -> None:
    flips, changes = run(flips=30, changes=120, seed=1)
    assert flips.met and flips.rows[0][1] == 30, flips.markdown()
    assert changes.met, changes.markdown()
    assert all(row[2] and row[3] for row in changes.rows), "answers and errors of each kind"


def test_a_use_that_fails_or_takes_long_is_noted(tmp_path: Path) -> None:
    outcomes = Outcomes()

    def fail() -> None:
        raise KeyError("x")

    outcomes.note(fail)
    assert (outcomes.answers, outcomes.typed, outcomes.raw.total()) == (0, 0, 1)


def test_records_are_changed_in_many_ways() -> None:
    data = b'{"a": [1, "x"], "b": {"c": 2.5}}\n{"a": []}\n'
    rng = random.Random(0)
    assert len({changed(data, rng) for _ in range(200)}) > 150


@pytest.mark.slow
def test_originals_are_read_printed_and_drawn(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for name, use in records.uses.items():
        use(records.originals[name])
