"""Hostile media files, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.damaged_media import cases, outcome_of, problem_of, run
from sgnb.errors import MediaError


@pytest.mark.slow
def test_hostile_files_are_refused_in_time_and_memory() -> None:
    hostile, changed = run(changes=300, seed=1)
    assert hostile.met, hostile.markdown()
    assert sum(row[2] for row in hostile.rows) >= 60, "refused files"
    assert all(row[3] for row in hostile.rows), "valid files of each kind"
    assert changed.met, changed.markdown()
    assert all(changed.rows[0][:3]), "changed files are refused, and read"


@pytest.mark.slow
def test_files_have_distinct_names(tmp_path: Path) -> None:
    names = [name for _, name, *_ in cases(tmp_path)]
    assert len(set(names)) == len(names)


def test_what_counts_as_a_problem(tmp_path: Path) -> None:
    error = MediaError("the file 'x.png' is empty", "give another file")
    assert problem_of(error, "x.png", False) == ""
    assert "does not name" in problem_of(error, "y.png", False)
    assert "no remedy" in problem_of(MediaError("x.png"), "x.png", False)
    assert "valid" in problem_of(error, "x.png", True)

    file = tmp_path / "x.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert outcome_of("image", "x", file, "x.png", False).problem == ""
