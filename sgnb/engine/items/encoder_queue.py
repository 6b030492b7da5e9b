"""Encoding of items next to the steps of an engine, and the cache of their rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from .item import EngineItem, PlacedItem, ProcessorOutput, PromptItems
from .item_table import ItemTable

WAIT = 0.05
"""Seconds to wait for the processor before other commands are served."""


class EncoderQueue:
    """Queue of items to encode, and least-recently-used cache of rows. On the engine's thread.

    Args:
        table: The items of the engine.
        max_bytes: Size of the cache. Rows in use by running requests may exceed the size.
        max_tokens: Tokens encoded between two steps, at least one item.
        in_use: Returns the items of running requests.
        may_wait: Returns whether nothing else runs.
    """

    def __init__(
        self,
        table: ItemTable,
        max_bytes: int,
        max_tokens: int,
        in_use: Callable[[], Iterable[PlacedItem]],
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        self.table, self._encoder = table, table.encoder
        self._max_bytes, self._max_tokens = max_bytes, max_tokens
        self._in_use, self._may_wait = in_use, may_wait
        self._queue: dict[EngineItem, PlacedItem] = {}  # in order; a placed item keeps the content
        # Items with evicted rows: the processor runs again on worker threads.
        self._processing: dict[EngineItem, Future[ProcessorOutput]] = {}
        # Items of waiting requests: the rows stay until the requests run.
        self._prepared: weakref.WeakSet[PromptItems] = weakref.WeakSet()
        self._counted: weakref.WeakSet[PromptItems] = weakref.WeakSet()
        self._row_bytes: float = table.encoder.row_bytes  # of the last items
        self._cached: dict[EngineItem, int] = {}  # size in bytes, least recently used first
        self.num_bytes = 0
        self._counts = {"encoded_items": 0, "encoded_tokens": 0, "encoder_hits": 0}

    def __bool__(self) -> bool:
        """True if items wait."""
        return bool(self._queue)

    def ready(self, items: PromptItems, start: int) -> bool:
        """Return whether the rows of all items from position `start` on are in memory. Queues items
        with missing rows, as long as the rows of prepared requests fit into the cache."""
        missing = items.missing(start)
        if missing:
            if items not in self._prepared and not self._fits(missing):
                return False
            self._prepared.add(items)
            for placed in missing:
                self._queue.setdefault(placed.item, placed)
            return False

        used = [placed.item for placed in items.items if placed.end > start]
        if items not in self._counted:
            self._counted.add(items)
            self._counts["encoder_hits"] += 0 if items in self._prepared else len(used)
        self._prepared.discard(items)
        for item in used:
            self._cached[item] = self._cached.pop(item)  # most recently used
        return True

    def _fits(self, missing: list[PlacedItem]) -> bool:
        """Return whether rows of further items fit next to rows of prepared requests."""
        prepared = {placed.item for items in self._prepared for placed in items.items}
        if not prepared:
            return True
        tokens = sum(item.count for item in prepared | {placed.item for placed in missing})
        return tokens * self._row_bytes <= self._max_bytes

    def statistics(self) -> dict[str, int]:
        """Return counters since the start, and the size of the rows in bytes."""
        return self._counts | {"encoder_bytes": self.num_bytes}

    def run(self) -> tuple[list[EngineItem], list[tuple[EngineItem, Exception]]]:
        """Encode the first items of the queue, within the limit of tokens. Returns the encoded
        items, and the items that cannot be encoded."""
        wanted = {placed.item for items in self._prepared for placed in items.items}
        for item in self._queue.keys() - wanted:  # of ended requests
            del self._queue[item]
            self._processing.pop(item, None)

        batch, tokens = list[PlacedItem](), 0
        for placed in self._processed():
            if batch and tokens + placed.item.count > self._max_tokens:
                break
            batch.append(placed)
            tokens += placed.item.count
        for placed in batch:
            del self._queue[placed.item]

        failures = self._encode(batch)
        for placed in batch:
            self._processing.pop(placed.item, None)
            if placed.item.rows is not None:
                self._cached[placed.item] = placed.item.rows.num_bytes
                self.num_bytes += placed.item.rows.num_bytes
                self._row_bytes = placed.item.rows.num_bytes / placed.item.count

        self._evict(keep={placed.item for placed in batch})
        failed = {item for item, _ in failures}
        encoded = [placed.item for placed in batch if placed.item not in failed]
        self._counts["encoded_items"] += len(encoded)
        self._counts["encoded_tokens"] += sum(item.count for item in encoded)
        return encoded, failures

    def _processed(self) -> list[PlacedItem]:
        """Return the queued items with an output of the processor. Waits a moment if there is none
        and nothing else runs."""
        for item, placed in self._queue.items():
            if item.inputs is None and item not in self._processing:
                self._processing[item] = self.table.process_again(placed.item, placed.content)
        pending = {item: each for item, each in self._processing.items() if not each.done()}
        if self._queue.keys() == pending.keys() and self._may_wait():
            wait(pending.values(), WAIT, FIRST_COMPLETED)
            pending = {item: each for item, each in pending.items() if not each.done()}
        return [placed for item, placed in self._queue.items() if item not in pending]

    def _encode(self, batch: list[PlacedItem]) -> list[tuple[EngineItem, Exception]]:
        """Encode items together, or alone after a failure. Returns the items that fail alone."""
        try:
            for placed in batch:
                if placed.item.inputs is None:
                    processing = self._processing.get(placed.item)
                    if processing is None:  # encoded together with an item that failed
                        processing = self.table.process_again(placed.item, placed.content)
                    placed.item.inputs = processing.result().inputs
            self._encoder.encode([placed.item for placed in batch])
        except Exception as error:
            if len(batch) == 1:
                return [(batch[0].item, error)]
            return [failure for placed in batch for failure in self._encode([placed])]
        return []

    def flush(self) -> None:
        """Drop unused rows."""
        self._evict(keep=set(), max_bytes=0)

    def drop(self) -> None:
        """Drop all rows, because the weights changed. No request may be running."""
        for item in self._cached:
            item.rows = None
        self._cached.clear()
        self.num_bytes = 0

    def _evict(self, keep: set[EngineItem], max_bytes: int | None = None) -> None:
        limit = self._max_bytes if max_bytes is None else max_bytes
        if self.num_bytes <= limit:
            return
        keep = keep | {placed.item for placed in self._in_use()}
        keep |= {placed.item for items in self._prepared for placed in items.items}

        for item in list(self._cached):
            if self.num_bytes <= limit:
                break
            if item not in keep:
                self.num_bytes -= self._cached.pop(item)
                item.rows = None
