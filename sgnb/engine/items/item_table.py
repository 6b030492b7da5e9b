"""Table of the items of an engine: content to token ids, and back."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any

import numpy as np

from ...errors import RequestError
from ...events import MediaNamed
from ...media import thumbnail
from ...segment import Segment
from ..cache.radix import Ints
from .item import EngineItem, MediaEncoder, PlacedItem, ProcessorOutput, PromptItems

THREADS = 8
"""Maximum number of threads that run the processor."""

MAX_ID = np.iinfo(np.int32).max


class ItemTable:
    """Items by key (content and options of the processor) and by token id, for any thread.

    Args:
        encoder: Processor and encoders of the model.
        vocab_size: Ids of items begin here.
    """

    def __init__(self, encoder: MediaEncoder, vocab_size: int) -> None:
        self.encoder = encoder
        self._items: dict[bytes, EngineItem] = {}
        self._in_order: list[EngineItem] = []
        self._names: list[MediaNamed] = []
        self._numbers = Counter[str]()  # of items per kind
        self.vocab_size = self._next_id = vocab_size
        self._lock = threading.Lock()

    @property
    def end_id(self) -> int:
        """Id after the last token of all items."""
        return self._next_id

    def prepare(self, contents: Iterable[Any]) -> None:
        """Run the processor for all new content, on several threads. Ids follow the order."""
        keys = {self.encoder.key(content): content for content in contents}
        new = {key: content for key, content in keys.items() if key not in self._items}
        if len(new) > 1:
            with ThreadPoolExecutor(min(len(new), THREADS), "sgnb-processor") as threads:
                processed = threads.map(self._process, new.values())
                for (key, content), output in zip(new.items(), processed, strict=True):
                    self._add(key, content, *output)

    def segments(self, prompt: Sequence[Segment]) -> Sequence[Segment]:
        """Replace the items of a prompt by their token ids."""
        return [
            segment
            if segment.kind != "media"
            else Segment("", "media", tuple(self.find(segment.item).ids.tolist()))
            for segment in prompt
        ]

    def find(self, content: Any) -> EngineItem:
        """Return the item of a `MediaItem`; the processor runs for new content only."""
        key = self.encoder.key(content)
        with self._lock:
            item = self._items.get(key)
            if item is not None:
                item.keep(content)
                return item
        return self._add(key, content, *self._process(content))

    def _process(self, content: Any) -> tuple[ProcessorOutput, float, str]:
        """Return the output of the processor, the duration in seconds, and the thumbnail."""
        began = time.perf_counter()
        processed = self.encoder.process(content)
        return processed, time.perf_counter() - began, thumbnail(content)

    def _add(
        self, key: bytes, content: Any, processed: ProcessorOutput, seconds: float, picture: str
    ) -> EngineItem:
        with self._lock:
            item = self._items.get(key)
            if item is not None:
                item.keep(content)
            else:
                if self._next_id > MAX_ID - processed.num_tokens:
                    raise RequestError(
                        f"{len(self._items):,} images, videos and sounds used all token ids",
                        "load the model again",
                    )
                item = self._items[key] = EngineItem(content, self._next_id, processed)
                self._in_order.append(item)
                self._name(item, content, picture, seconds)
                self._next_id += item.count
            return item

    def _name(self, item: EngineItem, content: Any, picture: str, seconds: float) -> None:
        self._numbers[content.kind] += 1
        self._names.append(
            MediaNamed(
                first_id=item.first_id,
                count=item.count,
                media=content.kind,
                number=self._numbers[content.kind],
                label=item.label,
                content=content.digest.hex(),
                thumbnail=picture,
                processor_seconds=round(seconds, 6),
            )
        )

    def name(self, token: int) -> MediaNamed:
        """Return the name of the item with this token id, for views."""
        with self._lock:
            return self._names[self._index(token)]

    def names(self, tokens: Iterable[int]) -> list[MediaNamed]:
        """Return the names of the items with these token ids; other ids are ignored."""
        ids = [token for token in tokens if self.vocab_size <= token < self.end_id]
        return list({name.first_id: name for name in map(self.name, ids)}.values())

    def place(self, tokens: Ints) -> PromptItems | None:
        """Return the items of a prompt; None for a prompt of text.

        Raises:
            RequestError: Ids of a part of an item, of no item, or of an item whose content is gone.
        """
        rows = np.flatnonzero(tokens >= self.vocab_size)
        placed, at = list[PlacedItem](), 0
        while at < len(rows):
            begin = int(rows[at])
            item = self._at(int(tokens[begin]))
            ids = tokens[begin : begin + item.count]
            if not np.array_equal(ids, item.ids):
                raise RequestError(
                    f"the prompt has a part of the {item.count} tokens of an image, video or sound",
                    "give the whole item",
                )

            content = item.content
            if content is None:
                raise RequestError(
                    f"the content of tokens {item.first_id} to {item.first_id + item.count - 1} is "
                    "no longer in memory",
                    "give the image, video or sound again instead of its token ids",
                )
            placed.append(PlacedItem(begin, item, content))
            at += item.count
        return PromptItems(len(tokens), placed, self.encoder.placeholder) if placed else None

    def _at(self, token: int) -> EngineItem:
        """Return the item with this token id, from `vocab_size` to `end_id`."""
        with self._lock:
            return self._in_order[self._index(token)]

    def _index(self, token: int) -> int:
        return bisect_right(self._in_order, token, key=attrgetter("first_id")) - 1
