"""The GPU's clock and power while something runs, as nvidia-smi tells them: a chip that is hot or
short of power is slower, and a figure is worth little without that."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

QUERY = "clocks.sm,power.draw,utilization.gpu"
EVERY_MS = 100
BUSY_PERCENT = 50
"""Readings with less utilization are of moments in which hardly anything ran."""


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Reads the clock and power of the first GPU that this process sees, with a process beside this
    one.

    Gives what is filled in at the end: {"mhz": the median, "lowest_mhz", "watts"} of the moments in
    which the GPU was at work; nothing without nvidia-smi, or when it was never at work.
    """
    told: dict[str, float] = {}
    command = shutil.which("nvidia-smi")
    if command is None:
        yield told
        return
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    options = [
        f"--id={gpu}",
        f"--query-gpu={QUERY}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={EVERY_MS}",
    ]
    with tempfile.TemporaryFile("w+") as readings:  # a pipe would be full after some minutes
        process = subprocess.Popen([command, *options], stdout=readings, stderr=subprocess.DEVNULL)
        try:
            yield told
        finally:
            process.terminate()
            process.wait()
            readings.seek(0)
            told.update(summary(readings))


def summary(lines: Iterable[str]) -> dict[str, float]:
    """Of nvidia-smi's lines "1980, 645.21, 100"; others are left out."""
    readings = [
        reading for line in lines if (reading := _reading(line)) and reading[2] >= BUSY_PERCENT
    ]
    if not readings:
        return {}
    clocks, watts, _ = zip(*readings, strict=True)
    return {
        "mhz": statistics.median(clocks),
        "lowest_mhz": min(clocks),
        "watts": statistics.median(watts),
    }


def _reading(line: str) -> tuple[float, float, float] | None:
    try:
        clock, watts, percent = map(float, line.split(","))
    except ValueError:
        return None
    return clock, watts, percent
