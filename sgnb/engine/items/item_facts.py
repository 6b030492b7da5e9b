"""Facts about an item that replace a run of the processor, as bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..step_input import Longs

MAX_TOKENS = 1 << 22
"""Largest number of positions that is read."""


class ItemFacts(NamedTuple):
    """See `EngineItem`, for an encoded item."""

    num_tokens: int
    blocks: Sequence[tuple[int, int]]
    positions: Longs
    advance: int

    def pack(self) -> bytes:
        """Return a line of JSON, and compressed positions."""
        blocks = [list(map(int, block)) for block in self.blocks]
        head = json.dumps([self.num_tokens, blocks, len(self.positions), self.advance])
        return head.encode() + b"\n" + zlib.compress(self.positions.astype("<i4").tobytes(), 1)

    @staticmethod
    def unpack(data: bytes) -> ItemFacts:
        """Undo `pack`.

        Raises:
            ValueError: The data is damaged.
        """
        head, _, packed = data.partition(b"\n")
        try:
            count, pairs, axes, advance = json.loads(head)
            blocks = [(int(begin), int(end)) for begin, end in pairs]
            count, axes, advance = int(count), int(axes), int(advance)
        except (TypeError, OverflowError, RecursionError) as error:
            raise ValueError("no facts of an item") from error

        size = 4 * count * axes
        if count < 1 or axes < 1 or size > 4 * MAX_TOKENS or abs(advance) > MAX_TOKENS:
            raise ValueError("no size of an item")
        if any(not 0 <= begin < end <= count for begin, end in blocks):
            raise ValueError("a block outside of the item")
        try:
            content = zlib.decompressobj().decompress(packed, size + 1)
        except zlib.error as error:
            raise ValueError("damaged positions") from error
        positions = np.frombuffer(content, "<i4").astype(np.int64).reshape(axes, count)
        return ItemFacts(count, blocks, positions, advance)
