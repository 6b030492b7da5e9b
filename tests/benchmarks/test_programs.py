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
    lines = capsys.readouterr().out.splitlines()
    for way in programs.CHAIN_BARS:
        [row] = [line for line in lines if line.startswith(f"| {way} |")]
        assert len(row.split(" | ")[1].split()) == len(row.split(" | ")[3].split()) == 2
