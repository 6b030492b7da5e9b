"""Tokens that a run loaded from lower tiers of the cache."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...events import PrefixLoaded
from .metrics import duration

PLACES = {"host": "host memory", "disk": "the disk"}


@dataclass(slots=True)
class RunLoads:
    """Loads for the requests of a run, by store: tokens, seconds, and seconds of computing."""

    stores: dict[str, tuple[int, float, float]] = field(default_factory=dict)

    def loaded(self, event: PrefixLoaded) -> None:
        tokens, seconds, compute = self.stores.get(event.store, (0, 0.0, 0.0))
        self.stores[event.store] = (
            tokens + event.tokens,
            seconds + event.seconds,
            compute + event.compute_seconds,
        )

    def line(self) -> str:
        """Return what was loaded, or "" without loads. Twin of `wordsOfLoads` of the page."""
        return "\n".join(
            f"{tokens:,} tokens from {PLACES.get(store, 'a store')} in {duration(seconds)}, "
            f"instead of about {duration(compute)} of prefill"
            for store, (tokens, seconds, compute) in self.stores.items()
        )
