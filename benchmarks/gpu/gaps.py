"""How much of a profiler's trace the device was idle, and where. Pure: a Chrome trace in, shares
out."""

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


class Idle(NamedTuple):
    """Shares of a span without work. between: next to a copy from or to the host, with which steps
    begin and end; within: from kernel to kernel, as a chip leaves it also inside of a CUDA
    graph."""

    between: float
    within: float


def idle_share(trace: str | Path, margin: float = 0.2) -> Idle:
    """Without the first and the last `margin` of the span, where the profiler itself was at work.

    Raises ValueError for a trace without work of the device.
    """
    return idle_of(device_work(trace), margin)


def idle_of(work: Iterable[Piece], margin: float) -> Idle:
    """work: in any order; pieces may overlap."""
    ordered = sorted(work, key=lambda piece: piece.begin)
    first, end = ordered[0].begin, max(piece.end for piece in ordered)
    low, high = first + margin * (end - first), end - margin * (end - first)
    last, between, within = ordered[0], 0.0, 0.0
    for piece in ordered:
        idle = max(0.0, min(piece.begin, high) - max(last.end, low))
        if _is_transfer(last) or _is_transfer(piece):
            between += idle
        else:
            within += idle
        last = max(last, piece, key=lambda piece: piece.end)
    return Idle(between / (high - low), within / (high - low))


def _is_transfer(piece: Piece) -> bool:
    return piece.name.startswith(("Memcpy HtoD", "Memcpy DtoH"))
