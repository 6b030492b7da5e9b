"""Chains of generations in rounds, at a toy size."""

from __future__ import annotations

import sys

import pytest

from benchmarks import programs


@pytest.mark.slow
def test_chains_in_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--chains", "4", "--rounds", "2"])
    programs.main()
    said = capsys.readouterr().out
    assert "round 0: {" in said and "round 1: {" in said
    [row] = [line for line in said.splitlines() if line.startswith("| run_batch |")]
    assert len(row.split(" | ")[1].split()) == len(row.split(" | ")[3].split()) == 2


@pytest.mark.slow
def test_no_round_begins_that_would_end_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    programs.chains_in_rounds(4, 5, limit=0)
    assert capsys.readouterr().out.count("round ") == 1
