"""Stops of a paused run, by branch. A pure reducer, equal to the page's `page/stops.js`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...events import (
    BranchFinished,
    BranchPaused,
    BranchResumed,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestWaits,
)
from .token_table import visible

_OF_REQUESTS = (RequestWaits, RequestAdmitted, RequestFinished)

STOP_EVENTS = frozenset(
    (
        BranchPaused,
        BranchResumed,
        BranchFinished,
        RequestQueued,
        RequestWaits,
        RequestAdmitted,
        RequestFinished,
    )
)
"""Kinds of events with an effect on `Stops`."""


class Stops:
    """Stopped branches of a run, and the place of each stop in words."""

    def __init__(self, run: str) -> None:
        self.places: dict[str, str] = {}
        self._run = run
        self._requests: dict[tuple[int, int], tuple[str, str]] = {}  # branch and name

    def lines(self) -> Iterator[str]:
        """Yield a sentence per stopped branch."""
        for branch, place in self.places.items():
            yield visible(f"paused {place} [{branch}]")

    def apply(self, record: Record) -> None:
        """Apply an event of `STOP_EVENTS`."""
        event: Any = record.event
        kind = type(event)
        if kind in _OF_REQUESTS:
            self._of_request(event, kind, (record.engine, event.request))
        elif event.run != self._run:
            return
        elif kind is RequestQueued:
            self._requests[record.engine, event.request] = event.branch, event.name
        elif kind is BranchPaused:
            line = f", line {event.line}" if event.line else ""
            self.places[event.branch] = f"before {event.before}{line}"
        else:
            self.places.pop(event.branch, None)

    def _of_request(self, event: Any, kind: type, key: tuple[int, int]) -> None:
        if key not in self._requests:
            return
        branch, name = self._requests[key]
        if kind is RequestWaits:
            if event.reason == "paused":
                self.places[branch] = f"after a token of {name!r}" if name else "after a token"
            return

        if self.places:
            self.places.pop(branch, None)
        if kind is RequestFinished:
            del self._requests[key]
