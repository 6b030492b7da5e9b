"""Counts of the images, videos and sounds in the prompts of a run, and of skipped work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .media import TokenSpan

NOUNS = {"image": "image", "video": "video", "audio": "sound"}


@dataclass(slots=True)
class _Waiting:
    """Items of a request before admission."""

    spans: list[TokenSpan]
    processed: int  # items processed for this request
    encoded: set[int] = field(default_factory=set)  # first ids of items encoded during the wait


@dataclass(slots=True)
class RunItems:
    """Items in the prompts of admitted requests, an item of two prompts twice."""

    used: int = 0
    processed: int = 0  # the processor ran for the request
    encoded: int = 0  # the encoder ran while the request waited
    prefilled: int = 0  # at least one token was not in the cache
    kinds: set[str] = field(default_factory=set)
    _waiting: dict[tuple[int, int], _Waiting] = field(default_factory=dict)

    def queued(self, request: tuple[int, int], spans: Sequence[TokenSpan], processed: int) -> None:
        """Remember the items of a request, by engine and number. processed: number of items used
        for the first time."""
        items = [span for span in spans if span.item is not None]
        if items:
            self._waiting[request] = _Waiting(items, processed)

    def encoder_ran(self, engine: int, first_ids: Sequence[int]) -> None:
        """Count the encoder's work for the first waiting request with each item."""
        for first_id in first_ids:
            for (number, _), waiting in self._waiting.items():
                ids = {span.item.first_id for span in waiting.spans if span.item is not None}
                if number == engine and first_id in ids:
                    waiting.encoded.add(first_id)
                    break

    def admitted(self, request: tuple[int, int], cached: int) -> None:
        waiting = self._waiting.pop(request, None)
        if waiting is None:
            return
        self.used += len(waiting.spans)
        self.processed += waiting.processed
        self.encoded += len(waiting.encoded)
        self.prefilled += sum(span.end > cached for span in waiting.spans)
        self.kinds |= {span.item.media for span in waiting.spans if span.item is not None}

    def ended(self, request: tuple[int, int]) -> None:
        self._waiting.pop(request, None)

    def line(self) -> str:
        """Return a line about the work skipped by the caches; "" without items."""
        if not self.used:
            return ""
        noun = NOUNS.get(next(iter(self.kinds)), "item") if len(self.kinds) == 1 else "item"
        noun += "s" * (self.used != 1)
        skipped = self.used - self.encoded
        others = f"processor {self.used - self.processed}, prefill {self.used - self.prefilled}"
        return f"encoder skipped for {skipped} of {self.used} {noun} ({others})"
