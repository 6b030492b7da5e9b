"""Tokens that a run loaded from lower tiers of the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...events import PrefixLoaded
from .copied_blocks import PLACES
from .metrics import duration

KEPT_LOADS = 200
"""Loads of a run with a bar: the first."""


class LoadBar(NamedTuple):
    """A load, in seconds of the log's clock."""

    request: int
    store: str
    tokens: int
    began: float
    ended: float
    computing: float  # estimated seconds of computing the tokens
    begin: int  # position of the first token, if the tokens before were computed meanwhile; or 0

    def line(self) -> str:
        """Return the load as a sentence."""
        line = words_of_load(self.store, self.tokens, self.ended - self.began, self.computing)
        meanwhile = f"; the tokens before token {self.begin:,} were computed meanwhile"
        return line + (meanwhile if self.begin else "")


@dataclass(slots=True)
class RunLoads:
    """Loads for the requests of a run.

    Attributes:
        stores: By store: tokens, seconds, and seconds of computing.
        bars: The first loads.
    """

    stores: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    bars: list[LoadBar] = field(default_factory=list)

    def loaded(self, event: PrefixLoaded, t: float) -> None:
        """Count a load that ended at the time `t`."""
        if len(self.bars) < KEPT_LOADS:
            times = t - event.seconds, t, event.compute_seconds
            bar = LoadBar(event.request, event.store, event.tokens, *times, event.begin)
            self.bars.append(bar)

        tokens, seconds, compute = self.stores.get(event.store, (0, 0.0, 0.0))
        self.stores[event.store] = (
            tokens + event.tokens,
            seconds + event.seconds,
            compute + event.compute_seconds,
        )

    def line(self) -> str:
        """Return a line per store with loaded tokens; "" without loads. Twin of `wordsOfLoads` of
        the page."""
        return "\n".join(
            words_of_load(store, tokens, seconds, computing)
            for store, (tokens, seconds, computing) in self.stores.items()
        )


def words_of_load(store: str, tokens: int, seconds: float, computing: float) -> str:
    return (
        f"{tokens:,} tokens from {PLACES.get(store, 'a store')} in {duration(seconds)}, "
        f"instead of about {duration(computing)} of prefill"
    )
