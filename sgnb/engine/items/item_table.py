"""Table of the items of an engine: content to token ids, and back."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any

import numpy as np

from ...errors import MediaError, RequestError
from ...events import MediaNamed
from ...media import thumbnail
from ...segment import Segment
from ..cache.tiers.stored_prompt import ItemSpan
from .item import EngineItem, Ints, MediaEncoder, PlacedItem, ProcessorOutput, PromptItems
from .item_facts import ItemFacts

THREADS = 8
"""Maximum number of threads that run the processor."""

_log = logging.getLogger(__name__)

_Processed = tuple[bytes, ProcessorOutput, float, str]
"""Key, output of the processor, duration in seconds, thumbnail."""

MAX_ID = np.iinfo(np.int32).max


class ItemTable:
    """Items by key (content and options of the processor) and by token id, for any thread.

    Args:
        encoder: Processor and encoders of the model.
        vocab_size: Ids of items begin here.

    Attributes:
        read_facts: Returns the stored facts of an item by its key, or None. On any thread.
    """

    def __init__(self, encoder: MediaEncoder, vocab_size: int) -> None:
        self.encoder = encoder
        self.read_facts: Callable[[bytes], bytes | None] = lambda key: None
        self._items: dict[bytes, EngineItem] = {}
        self._in_order: list[EngineItem] = []
        self._names: list[MediaNamed] = []
        self._numbers = Counter[str]()  # of items per kind
        self.vocab_size = self._next_id = vocab_size
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "sgnb-processor")  # started on demand

    @property
    def end_id(self) -> int:
        """Id after the last token of all items."""
        return self._next_id

    def prepare(self, contents: Iterable[Any]) -> None:
        """Run the processor for all new content, on worker threads. Ids follow the order."""
        new = self._new(contents)
        if len(new) > 1:
            for content, processed in zip(new.values(), self._begin(new), strict=True):
                self._add(content, *processed.result())

    def prepare_soon(
        self, contents: Iterable[Any], then: Callable[[Exception | None], None]
    ) -> bool:
        """Begin to run the processor for all new content on worker threads. Ids follow the order.

        Args:
            contents: Values of `MediaItem`.
            then: Called on a worker thread after the last content, with the first error.

        Returns:
            Whether there is new content; otherwise `then` is not called.
        """
        new = self._new(contents)
        processing = self._begin(new)
        counter = itertools.count(1)

        def finish(_: Future[_Processed]) -> None:
            if next(counter) < len(processing):
                return
            error = None
            for content, processed in zip(new.values(), processing, strict=True):
                try:
                    self._add(content, *processed.result())
                except Exception as failure:
                    error = error or failure
            then(error)

        for processed in processing:
            processed.add_done_callback(finish)
        return bool(processing)

    def process_again(self, item: EngineItem, content: Any) -> Future[ProcessorOutput]:
        """Begin to run the processor on a worker thread for the content of an item. The future
        raises MediaError if the options of the processor changed."""

        def process() -> ProcessorOutput:
            key, processed, *_ = self._process(content)
            if self._items.get(key) is not item:
                raise MediaError(
                    f"the options of the processor changed while a request with {item.label} ran",
                    "run the program again",
                )
            if processed.num_tokens != item.count:
                raise MediaError(
                    f"the processor gives {processed.num_tokens} tokens for {item.label}, and "
                    f"gave {item.count} tokens in an earlier process",
                    "run %sglang cache forget, and load the model again",
                )
            return processed

        return self._threads.submit(process)

    def _new(self, contents: Iterable[Any]) -> dict[bytes, Any]:
        """Return the content to process, by key. Adds stored items."""
        keys = {self.encoder.key(content): content for content in contents}
        return {
            key: content
            for key, content in keys.items()
            if key not in self._items and self._restore(key, content) is None
        }

    def _restore(self, key: bytes, content: Any) -> EngineItem | None:
        """Add an item with stored facts, without a run of the processor."""
        data = self.read_facts(key)
        if data is None:
            return None
        try:
            facts = ItemFacts.unpack(data)
        except ValueError:
            _log.warning("stored facts of an image, video or sound are damaged", exc_info=True)
            return None

        item = self._add(
            content,
            key,
            ProcessorOutput(facts.num_tokens, None, facts.blocks),
            0.0,
            thumbnail(content),
        )
        if item.positions is None:
            item.adopt(facts)
        return item

    def _begin(self, new: dict[bytes, Any]) -> list[Future[_Processed]]:
        return [self._threads.submit(self._process, content) for content in new.values()]

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
        return self._restore(key, content) or self._add(content, *self._process(content))

    def _process(self, content: Any) -> _Processed:
        """Run the processor, again if the options of the processor change meanwhile."""
        while True:
            key, began = self.encoder.key(content), time.perf_counter()
            processed = self.encoder.process(content)
            if self.encoder.key(content) == key:
                return key, processed, time.perf_counter() - began, thumbnail(content)

    def _add(
        self, content: Any, key: bytes, processed: ProcessorOutput, seconds: float, picture: str
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
                item = self._items[key] = EngineItem(
                    content, self._next_id, processed, key, seconds
                )
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
            RequestError: The ids are a part of an item, unknown, or of an item with evicted
                content.
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

    def find_spans(self, tokens: Ints) -> list[ItemSpan]:
        """Return the items of a prompt with valid ids, which may end inside the last item."""
        spans, at = list[ItemSpan](), 0
        rows = np.flatnonzero(tokens >= self.vocab_size)
        while at < len(rows):
            begin = int(rows[at])
            spans.append(ItemSpan(begin, self._at(int(tokens[begin]))))
            at += spans[-1].item.count
        return spans

    def _at(self, token: int) -> EngineItem:
        """Return the item with this token id, from `vocab_size` to `end_id`."""
        with self._lock:
            return self._in_order[self._index(token)]

    def _index(self, token: int) -> int:
        return bisect_right(self._in_order, token, key=attrgetter("first_id")) - 1
