"""Interface of loads: a stored prefix returns to the tree before or during a request's prefill."""

from __future__ import annotations

from typing import Protocol

from .sequence import CachedSequence


class PrefixLoads(Protocol):
    """Loads of stored prefixes: the scheduler's view."""

    @property
    def loading(self) -> bool:
        """True if requests wait for a load, or for a copy of evicted blocks to host memory."""

    def ready(self, request: CachedSequence, may_compute: bool, room: int) -> bool:
        """Return whether a waiting request may start; see `CacheTiers.ready`."""

    def started(self, request: CachedSequence) -> None:
        """Load the last blocks of a started request, if planned."""

    def meet(self) -> dict[int, int]:
        """Let running requests skip loaded tokens. Returns the numbers of tokens by request. Call
        before a step is chosen."""

    def forget(self, request: CachedSequence) -> None:
        """Forget a request after its end or the loss of its slots."""

    def cancel(self) -> bool:
        """End all loads with slots, and free the slots. Returns False without loads."""


class NoLoads:
    """Loads of an engine without stores."""

    loading = False

    def ready(self, request: CachedSequence, may_compute: bool, room: int) -> bool:
        return True

    def started(self, request: CachedSequence) -> None:
        pass

    def meet(self) -> dict[int, int]:
        return {}

    def forget(self, request: CachedSequence) -> None:
        pass

    def cancel(self) -> bool:
        return False
