"""Interface of loads that bring a stored prefix back before a request starts."""

from __future__ import annotations

from typing import Protocol

from .sequence import CachedSequence


class PrefixLoads(Protocol):
    """Loads of stored prefixes, as the scheduler sees them."""

    def ready(self, request: CachedSequence) -> bool:
        """Return whether a waiting request may start; see `CacheTiers.ready`."""

    def forget(self, request: CachedSequence) -> None:
        """Forget a request that started or ended."""

    def cancel(self) -> bool:
        """End all loads and free their slots. Returns whether there were any."""
