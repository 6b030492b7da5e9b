"""Searches for an order of prompt parts as data."""

from __future__ import annotations

import msgspec
import numpy as np

from ...engine.cache.part_extents import PartsPrompt, PartTokens
from ...part_order import OrderMemory, OrderSearch
from .wire import SAME_VERSION, WireError

WirePiece = tuple[int, bytes]
"""A `PartTokens` as data."""


class WireOrder(msgspec.Struct, array_like=True):
    """A `PartsPrompt` with an `OrderSearch`, as data."""

    memory: int  # number of the client's memory
    start: int
    keys: list[int]
    head: bytes
    first: list[WirePiece]
    later: list[list[WirePiece]]
    endings: list[int]
    separator: int
    namespace: str | None

    def search(self, memory: OrderMemory) -> OrderSearch:
        """Return the search. memory: the client's memory on this side."""
        return OrderSearch(self.keys, self.start, memory)


def write_order(prompt: PartsPrompt, search: OrderSearch) -> WireOrder:
    """Return a search as data. Keys are hashes of this process."""
    return WireOrder(
        memory=search.memory.number,
        start=search.start,
        keys=[hash(key) for key in search.keys],
        head=prompt.head.tobytes(),
        first=[_write(piece) for piece in prompt.first],
        later=[[_write(piece) for piece in row] for row in prompt.later],
        endings=list(prompt.endings),
        separator=prompt.separator,
        namespace=prompt.namespace,
    )


def read_prompt(wire: WireOrder) -> PartsPrompt:
    """Return the prompt of received data. Raises WireError for other data."""
    count = len(wire.keys)
    sizes = {len(wire.first), len(wire.endings), *map(len, wire.later)}
    if (
        sizes != {count}
        or not wire.later
        or not all(0 <= e < len(wire.later) for e in wire.endings)
    ):
        message = f"an order of {count} parts does not fit the parts"
        raise WireError(message, SAME_VERSION)
    return PartsPrompt(
        head=np.frombuffer(wire.head, np.int32),
        first=[_read(piece) for piece in wire.first],
        later=[[_read(piece) for piece in row] for row in wire.later],
        endings=wire.endings,
        separator=wire.separator,
        namespace=wire.namespace,
    )


def _write(piece: PartTokens) -> WirePiece:
    return piece.replaced, piece.tokens.tobytes()


def _read(piece: WirePiece) -> PartTokens:
    return PartTokens(piece[0], np.frombuffer(piece[1], np.int32))
