"""Requests whose masks the host makes beside those whose grammars are walked on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which there is for Linux only")
def test_masks_of_both_kinds_in_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.picker_check"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-2:] == ["all", "agree"]
