"""Items (images, videos, sounds) as tokens of one engine."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..step_input import EmbeddingSpan, Longs, SpanRows
from .item_facts import ItemFacts

Ints = NDArray[np.int32]

Inputs = dict[str, Any]
"""Arguments of the model for one item: the output of the processor."""


class ProcessorOutput(NamedTuple):
    """Output of a processor for one item."""

    num_tokens: int
    inputs: Inputs | None  # None without a run of the processor
    blocks: Sequence[tuple[int, int]]  # see `EngineItem`


class EngineItem:
    """Image, video or sound of prompts of one engine.

    All tokens of the item, including markers around the placeholders, have ids above the vocabulary
    of the model. The ids are unique in the engine and identify the content in the radix tree.

    Attributes:
        first_id: Id of the first token; the other ids follow.
        count: Number of tokens.
        label: Kind and size, for views.
        inputs: Output of the processor until the item is encoded; None afterwards.
        blocks: Spans of mutually visible tokens, as the patches of an image in some models; one
            step computes all tokens of a block. Empty for causal items.
        positions: Rotary positions relative to the item's first position, int64[axes, count]. None
            until the item is encoded once.
        advance: Rotary position of the next token, relative to the item's first position.
        rows: Input of the text decoder; None if not in memory.
        key: Digest of content and processor, see `MediaEncoder.key`.
        seconds: Time of the processor.
    """

    def __init__(
        self,
        content: Any,
        first_id: int,
        processed: ProcessorOutput,
        key: bytes = b"",
        seconds: float = 0.0,
    ) -> None:
        self.first_id, self.key, self.seconds = first_id, key, seconds
        self.count, self.blocks = processed.num_tokens, processed.blocks
        self.inputs = processed.inputs
        self.positions: Longs | None = None
        self.advance = 0
        self.rows: SpanRows | None = None
        self.label: str = content.label
        self._contents: dict[int, weakref.ref[Any]] = {}
        self.keep(content)

    @property
    def content(self) -> Any:
        """A live `MediaItem` with the content, or None."""
        alive = (reference() for reference in list(self._contents.values()))
        return next((content for content in alive if content is not None), None)

    def keep(self, content: Any) -> None:
        """Add a weak reference to a `MediaItem` with the content."""
        key = id(content)
        if key not in self._contents:
            self._contents[key] = weakref.ref(content, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        """Forget a `MediaItem`; without another one, nobody can ask for the encoding."""
        self._contents.pop(key, None)
        if not self._contents:
            self.inputs = None

    def pack_facts(self) -> bytes | None:
        """See `tiers.stored_prompt.StoredItem`."""
        if self.positions is None:
            return None
        return ItemFacts(self.count, self.blocks, self.positions, self.advance).pack()

    def adopt(self, facts: ItemFacts) -> None:
        """Take the positions of an earlier encoding."""
        self.positions, self.advance = facts.positions, facts.advance

    @property
    def ids(self) -> Ints:
        return np.arange(self.first_id, self.first_id + self.count, dtype=np.int32)


class PlacedItem(NamedTuple):
    """An item in a prompt."""

    begin: int  # position of the first token
    item: EngineItem
    content: Any  # keeps the content in memory until the request ends

    @property
    def end(self) -> int:
        return self.begin + self.item.count


class PromptItems:
    """Items of a prompt, in order.

    Args:
        length: Number of tokens of the prompt.
        items: The items.
        placeholder: Token of the vocabulary that stands for tokens of items in scores.
    """

    def __init__(self, length: int, items: Sequence[PlacedItem], placeholder: int) -> None:
        self.items = items
        self.placeholder = placeholder
        self._blocks = [
            (placed.begin + begin, placed.begin + end)
            for placed in items
            for begin, end in placed.item.blocks
        ]
        self._length = length
        self._positions: Longs | None = None
        self._shift = 0  # difference of position and index behind the prompt

    def text_tokens(self, tokens: Ints) -> Ints:
        """Return tokens with the placeholder instead of the tokens of items."""
        return np.where(self.inside(0, len(tokens)), np.int32(self.placeholder), tokens)

    def without_items(self, tokens: Ints) -> Ints:
        """Return the tokens outside of items."""
        text: Ints = tokens[~self.inside(0, len(tokens))]
        return text

    def inside(self, start: int, end: int) -> NDArray[np.bool_]:
        """Return which of the positions start .. end belong to items."""
        inside = np.zeros(end - start, np.bool_)
        for placed in self.items:
            inside[max(0, placed.begin - start) : max(0, placed.end - start)] = True
        return inside

    def missing(self, start: int) -> list[PlacedItem]:
        """Return the items to encode before a step from position `start` on: items with tokens
        there and without rows in memory, and items with unknown positions."""
        return [
            placed
            for placed in self.items
            if placed.item.positions is None or (placed.end > start and placed.item.rows is None)
        ]

    def parts(self, start: int, end: int) -> list[tuple[int, int, bool]]:
        """Cut the positions start .. end at the borders of blocks: (begin, end, is a block)."""
        parts, at = list[tuple[int, int, bool]](), start
        for begin, stop in self._blocks:
            low, high = max(start, begin), min(end, stop)
            if low < high:
                parts += [(at, low, False)] if at < low else []
                parts.append((low, high, True))
                at = high
        return parts + ([(at, end, False)] if at < end else [])

    def cut(self, start: int, end: int) -> int:
        """Return where a step from `start` may end instead of inside a block: before the block, or
        behind a block from `start` on."""
        for begin, stop in self._blocks:
            if begin < end < stop:
                return begin if begin > start else stop
        return end

    def spans(self, start: int, end: int) -> list[EmbeddingSpan]:
        """Return the rows of items among the tokens start .. end, relative to `start`."""
        spans = []
        for placed in self.items:
            low, high = max(start, placed.begin), min(end, placed.end)
            if low < high:
                assert placed.item.rows is not None
                rows = placed.item.rows.part(low - placed.begin, high - placed.begin)
                spans.append(EmbeddingSpan(low - start, rows))
        return spans

    def rotary_span(self, start: int, end: int) -> Longs:
        """Return the rotary positions of the tokens start .. end, int64[axes, end - start], or
        int64[end - start] if the axes are equal."""
        if self._positions is None:
            self._positions, self._shift = self._compose()
        positions = self._positions
        later = np.arange(max(start, self._length), end) + self._shift

        span = positions[:, start:end]
        if (span == span[0]).all():
            return np.concatenate([span[0], later])
        later = np.broadcast_to(later, (len(positions), len(later)))
        return np.concatenate([span, later], 1)

    def _compose(self) -> tuple[Longs, int]:
        """Return the rotary positions of the prompt, int64[axes, tokens], and the difference of
        position and index behind the prompt. Text has consecutive positions, equal on all axes; an
        item adds relative positions to the next position, and advances the position."""
        parts, at, following = list[Longs](), 0, 0
        for begin, item, _ in self.items:
            assert item.positions is not None, "items are encoded before a request runs"
            parts.append(np.arange(following, following + begin - at)[None])
            following += begin - at
            parts.append(item.positions + following)
            at, following = begin + item.count, following + item.advance

        parts.append(np.arange(following, following + self._length - at)[None])
        axes = max(len(part) for part in parts)
        positions = np.concatenate([np.broadcast_to(p, (axes, p.shape[1])) for p in parts], 1)
        return positions, following - at


class MediaEncoder(Protocol):
    """Processor and encoders of a model; `model/item_encoder.py` implements this interface."""

    placeholder: int
    refused: dict[str, str]  # reasons by kind of item
    row_bytes: int  # size of the embedding of a token

    @property
    def modalities(self) -> frozenset[str]:
        """Supported kinds of items: image, video, audio."""

    def key(self, content: Any) -> bytes:
        """Return a SHA-256 digest of the content, the processor and its present options. Equal
        digests of different processes mean equal items."""

    def process(self, content: Any) -> ProcessorOutput:
        """Run the processor on an item. On any thread.

        Raises:
            MediaError: The processor refuses the content.
        """

    def encode(self, items: Sequence[EngineItem]) -> None:
        """Set `rows`, `positions` and `advance` of items with `inputs`."""
