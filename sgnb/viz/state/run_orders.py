"""Orders of parts that a run chose, and the gain in cached tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ...events import PartsOrdered
from ...part_order import PartOrder, gain


@dataclass(slots=True)
class RunOrders:
    """Texts with parts in another order than the given order."""

    count: int = 0
    gained: int = 0  # tokens
    last: str = ""  # the last order, in words

    def ordered(self, event: PartsOrdered) -> None:
        order = PartOrder(event.order, event.gained, event.follows)
        if not order.is_given:
            self.count += 1
            self.gained += event.gained
            self.last = order.line()

    def line(self) -> str:
        """Return the orders in words, or "" without changes. Twin of `wordsOfOrders` of the
        page."""
        if self.count > 1:
            return f"parts of {self.count:,} texts in another order: {gain(self.gained)}"
        return self.last
