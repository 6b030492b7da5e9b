"""What is read of the GPU's clock while a workload runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.gpu.chip import summary, watched


def test_only_moments_of_work_count() -> None:
    work = ["1980, 600.5, 99", "1500, 690.0, 100", "1700, 650.0, 51"]
    lines = ["345, 80.10, 0", *work, "[N/A], 700, 100", "", "1755, 2"]
    assert summary(lines) == {"mhz": 1700, "lowest_mhz": 1500, "watts": 650}
    assert summary(lines[:1]) == {}


def test_readings_end_with_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "nvidia-smi"
    told = tmp_path / "told"
    command.write_text(
        f'#!/bin/sh\nwhile true; do echo "1800, 600.0, 100"; : > "{told}"; sleep 0.02; done\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with watched() as chip:
        while not told.exists():
            time.sleep(0.01)
    assert chip == {"mhz": 1800, "lowest_mhz": 1800, "watts": 600}


def test_without_a_gpu_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with watched() as chip:
        pass
    assert chip == {}
