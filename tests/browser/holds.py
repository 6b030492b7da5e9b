"""Holds of a cell, in its kernel: a run waits at a given event until a test has seen the page."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sgnb.events import EventLog

SECONDS = 150
"""Maximum wait at a hold, after which the cell continues and the test fails."""


def install(holds: list[tuple[str, int]], folder: str) -> None:
    """Hold the next cell before each of `holds`, the kind of an event and its number in the cell.
    A file in `folder` with the number of the hold releases the cell."""
    emit, seen, lock = EventLog.emit, Counter[str](), threading.Lock()
    release = {hold: Path(folder) / str(number) for number, hold in enumerate(holds)}

    def held(log: EventLog, event: Any, at: float | None = None) -> None:
        kind = type(event).__name__
        with lock:
            seen[kind] += 1
            file = release.pop((kind, seen[kind]), None)
        if file is not None:
            end = time.monotonic() + SECONDS
            while not file.exists() and time.monotonic() < end:
                time.sleep(0.01)
        emit(log, event, at)

    EventLog.emit = held  # type: ignore[method-assign]
