"""Requests outside of all steps, because their grammar computes a mask."""

from __future__ import annotations

from ...events import Wait, WaitReason
from .request import Request
from .wait_log import WaitLog


class HeldRequests(set[int]):
    """Ids of started requests outside of steps.

    Args:
        waits: Log of the reasons.
    """

    def __init__(self, waits: WaitLog) -> None:
        super().__init__()
        self._waits = waits

    def release(self, request: Request) -> bool:
        """Remove a request, if present. Returns whether the request was held."""
        if request.id not in self:
            return False
        self.remove(request.id)
        self._waits.forget(request)
        return True

    def without(self, running: list[Request]) -> list[Request]:
        """Return the requests of `running` that take part in steps, and log the waits of held
        requests."""
        if not self:
            return running
        for request in running:
            if request.id in self:
                self._waits.report(request, Wait(WaitReason.MASK))
        return [request for request in running if request.id not in self]
