"""How much of a profiler's trace the device was idle. Pure: a Chrome trace in, a share out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of the trace's events that keep the device busy."""


class Piece(NamedTuple):
    """Something that kept the device busy, in microseconds."""

    name: str
    begin: float
    end: float


def device_work(trace: str | Path) -> list[Piece]:
    """The kernels and copies of a trace. Raises ValueError for a trace without any."""
    events = json.loads(Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    work = [e for e in events if e.get("ph") == "X" and e.get("cat") in DEVICE_WORK]
    if not work:
        raise ValueError(f"{trace} shows no work of a GPU")
    return [Piece(e["name"], e["ts"], e["ts"] + e["dur"]) for e in work]


def idle_share(trace: str | Path, margin: float = 0.2) -> float:
    """1 - busy / span, without the first and the last `margin` of the span, where the profiler itself was at work.

    Raises ValueError for a trace without work of the device.
    """
    return idle_of([(piece.begin, piece.end) for piece in device_work(trace)], margin)


def idle_of(work: Iterable[tuple[float, float]], margin: float) -> float:
    """work: (begin, end) of each piece, in any order and unit; pieces may overlap."""
    ordered = sorted(work)
    first, last = ordered[0][0], max(end for _, end in ordered)
    low, high = first + margin * (last - first), last - margin * (last - first)
    busy, reached = 0.0, low
    for begin, end in ordered:
        begin, end = max(begin, reached), min(end, high)
        if end > begin:
            busy += end - begin
            reached = end
    return 1 - busy / (high - low)
