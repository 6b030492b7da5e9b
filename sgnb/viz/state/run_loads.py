"""Tokens that a run loaded from lower tiers of the cache, and tokens gained by the order of
parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...events import PartsOrdered, PrefixLoaded
from ...part_order import PartOrder, gain
from .metrics import duration

PLACES = {"host": "host memory", "disk": "the disk"}


@dataclass(slots=True)
class RunLoads:
    """Loads for the requests of a run, by store: tokens, seconds, and seconds of computing; and
    changed orders of parts."""

    stores: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    orders: int = 0  # texts with parts in another order than the given order
    gained: int = 0  # tokens
    order: str = ""  # the last order, in words

    def ordered(self, event: PartsOrdered) -> None:
        order = PartOrder(event.order, event.gained, event.follows)
        if not order.is_given:
            self.orders += 1
            self.gained += event.gained
            self.order = order.line()

    def loaded(self, event: PrefixLoaded) -> None:
        tokens, seconds, compute = self.stores.get(event.store, (0, 0.0, 0.0))
        self.stores[event.store] = (
            tokens + event.tokens,
            seconds + event.seconds,
            compute + event.compute_seconds,
        )

    def line(self) -> str:
        """Return what was loaded, and the orders; "" without both. Twin of `wordsOfLoads` of the
        page."""
        lines = [
            f"{tokens:,} tokens from {PLACES.get(store, 'a store')} in {duration(seconds)}, "
            f"instead of about {duration(compute)} of prefill"
            for store, (tokens, seconds, compute) in self.stores.items()
        ]
        if self.orders > 1:
            lines.append(f"parts of {self.orders:,} texts in another order: {gain(self.gained)}")
        return "\n".join([*lines, *[self.order] * (self.orders == 1)])
