"""Requests outside of all steps, because their grammar computes a mask."""

from __future__ import annotations

from ...events import Wait, WaitReason
from .request import Request
from .wait_log import WaitLog


class HeldRequests:
    """Set of started requests outside of steps.

    Args:
        waits: Log of the reasons.
    """

    def __init__(self, waits: WaitLog) -> None:
        self._ids: set[int] = set()
        self._waits = waits

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, request: Request) -> bool:
        return request.id in self._ids

    def add(self, request: Request) -> None:
        self._ids.add(request.id)

    def remove(self, request: Request) -> bool:
        """Remove a request, if present. Returns whether the request was held."""
        if request.id not in self._ids:
            return False
        self._ids.remove(request.id)
        self._waits.forget(request)
        return True

    def without(self, running: list[Request]) -> list[Request]:
        """Return the requests of `running` that take part in steps, and log the waits of held
        requests."""
        if not self._ids:
            return running
        for request in running:
            if request in self:
                self._waits.report(request, Wait(WaitReason.MASK))
        return [request for request in running if request not in self]
