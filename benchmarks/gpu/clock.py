"""Times of single kernels on a GPU with cold caches, and table cells that tolerate failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..attention_gpu import graph_microseconds

Call = Callable[[], Any]
Clock = Callable[[Sequence[Call]], float]

CACHE_BYTES = 50_000_000
"""Of an H200's L2. Calls that follow each other read at least twice as much between them."""

FEWEST, MOST = 4, 400


def copies(size: int) -> int:
    """How many copies of `size` bytes make every call find nothing of its own in the cache."""
    return min(MOST, max(FEWEST, math.ceil(2 * CACHE_BYTES / size)))


def in_a_graph(calls: Sequence[Call]) -> float:
    """Return the microseconds per call on the GPU alone: a CUDA graph replays all calls."""
    return graph_microseconds([lambda i: calls[i]()], len(calls), rounds=8)[0]


def eagerly(calls: Sequence[Call]) -> float:
    """Return the microseconds per call for calls launched in sequence, or the host's time."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(4):
        begin.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(calls))
    return min(times[1:])


def attempt(name: str, clock: Clock, calls: Sequence[Call]) -> float | None:
    """Return the measured times. After a failure return None and print the reason."""
    try:
        return clock(calls)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        print(f"{name}: failed: {type(error).__name__}: {reason}", flush=True)
        return None


def microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def times(value: float | None, base: float | None) -> str:
    """value / base for a table's cell."""
    return "-" if value is None or not base else f"{value / base:.2f}"
