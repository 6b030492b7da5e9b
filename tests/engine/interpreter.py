"""Triton's kernels on the CPU: what checks them runs in a process of its own, in which triton interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which there is for Linux only")


def interpreted(check: str) -> list[str]:
    """Run `tests/engine/CHECK.py`, which raises where something is wrong; the words that it printed."""
    return run_check(check, TRITON_INTERPRET="1")


def run_check(check: str, **environment: str) -> list[str]:
    """`interpreted` without the interpreter, and without a GPU."""
    run = subprocess.run(
        [sys.executable, "-m", f"tests.engine.{check}"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()
