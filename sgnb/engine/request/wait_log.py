"""Reasons why requests of the queue are not running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...events import RequestWaits, Wait, WaitReason
from .request import Request


class WaitLog:
    """Last reason of each waiting request.

    Args:
        emit: Receives a `RequestWaits` for each new reason.

    Attributes:
        front: Reason why the last admission ended before the end of the queue.
    """

    def __init__(self, emit: Callable[[Any], None]) -> None:
        self.front: Wait | None = None
        self._reasons: dict[int, WaitReason] = {}  # last `RequestWaits` of each waiting request
        self._emit = emit

    def report(self, request: Request, wait: Wait) -> None:
        """Log the reason of a wait, if the reason is new."""
        if self._reasons.get(request.id) != wait.reason:
            self._reasons[request.id] = wait.reason
            self._emit(RequestWaits(request.id, *wait))

    def forget(self, request: Request) -> None:
        """Remove the reason of a request that starts or ends."""
        self._reasons.pop(request.id, None)

    def reason(self, request: Request) -> Wait:
        """Return the reason why a request of the queue waits."""
        reason = self._reasons.get(request.id)
        if reason in (WaitReason.SAME_PREFIX, WaitReason.ENCODER, WaitReason.LOAD):
            return Wait(reason)
        return self.front or Wait(WaitReason.NEXT_STEP)
