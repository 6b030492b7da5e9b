"""The GPU's clock and power while something runs, as nvidia-smi tells them: a chip that is hot or short of power is
slower, and a figure is worth little without that."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections.abc import Iterable
from typing import Any

QUERY = "clocks.sm,power.draw"
EVERY_MS = 100
BUSY_WATTS = 250.0
"""Readings below this, of an H200, are of moments in which nothing ran, or hardly anything."""


class Chip:
    """In a `with`: reads the first GPU's clock and power all the time, with a process beside this one.

    `told` afterwards: {"mhz": the median, "lowest_mhz", "watts"} of the moments in which the GPU was at work; empty
    without nvidia-smi, or when it was never at work.
    """

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Chip:
        if command := shutil.which("nvidia-smi"):
            self._process = subprocess.Popen(
                [command, "--id=0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", f"--loop-ms={EVERY_MS}"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._process is not None:
            self._process.terminate()
            self.told = summary(self._process.communicate()[0].splitlines())


def summary(lines: Iterable[str]) -> dict[str, float]:
    """Of nvidia-smi's lines "1980, 645.21"; others are left out."""
    readings = [reading for line in lines if (reading := _reading(line)) and reading[1] >= BUSY_WATTS]
    if not readings:
        return {}
    clocks, watts = zip(*readings, strict=True)
    return {"mhz": statistics.median(clocks), "lowest_mhz": min(clocks), "watts": statistics.median(watts)}


def _reading(line: str) -> tuple[float, float] | None:
    try:
        clock, watts = map(float, line.split(","))
    except ValueError:
        return None
    return clock, watts
