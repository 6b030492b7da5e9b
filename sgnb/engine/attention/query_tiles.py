"""Query tiles: a few rows of a step and their common KV indices. Plain numpy; knows no device.

A tile reads the union of the KV of all rows, each KV token once. If not every row sees every token,
each KV index has a *row mask* of the rows that see the token. The rows of a mask are a contiguous
range, since rows are in depth-first order of the radix tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..step_input import AttentionInput
from .cascade import Longs

MASK_BASE = 256
"""Row masks are first + MASK_BASE * count, for the tile's rows that see the token. Same value as in
the kernels."""


class CostModel(NamedTuple):
    """Cost model. Unit: reading one KV token for one query row."""

    shared_row: int = 48  # a row in a shared tile: wider matrix products, one more partial state
    launch: int = 3000  # an additional launch of `attend_tiles`, for large tiles
    work_item: int = 48  # starting a work item
    min_work: int = 128  # minimum work of a CTA; half if the total is small
    # KV is split at multiples of `align`, and masked tiles are padded to a multiple
    align: int = 64
    detach: int = 256  # minimum number of private tokens for a private tile of the row


class TileConfig(NamedTuple):
    """Parameters of the kernels for small and large tiles, as needed for planning."""

    small_rows: int  # maximum query rows of a tile
    large_rows: int
    small_ctas: int  # persistent CTAs of each KV head
    large_ctas: int
    costs: CostModel = CostModel()


class QueryTiles(NamedTuple):
    """Query tiles, one entry per tile except `rows`."""

    rows: Longs  # the rows of all tiles, tile after tile
    num_rows: Longs
    kv_begin: Longs  # the tile's first KV index
    kv_len: Longs  # without the padding of masked tiles
    mask_begin: Longs  # first row mask; -1 if every row sees every token
    num_common: Longs  # leading tokens visible to all rows, for masked tiles
    # position of the first token of unmasked tiles, whose positions are consecutive
    kv_position: Longs
    min_position: Longs  # lowest row position: KV before the window of this row is skipped
    large: NDArray[np.bool_]


class RowMasks(NamedTuple):
    """Row masks of masked tiles, one entry per KV token."""

    masks: Ints
    kv_positions: Ints


NO_MASKS = RowMasks(np.empty(0, np.int32), np.empty(0, np.int32))


class KVIndices:
    """Collector of a step's KV indices (slots of the pool)."""

    def __init__(self) -> None:
        self.arrays: list[Ints] = []
        self.count = 0

    def add(self, arrays: Sequence[Ints], reserve: int = 0) -> Longs:
        """Append `arrays` and return the begin of each array. reserve: free indices behind each
        array."""
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays)) + reserve
        begins = self.count + lengths.cumsum() - lengths
        if reserve:
            free = [np.zeros(reserve, np.int32)] * len(arrays)
            arrays = [*chain.from_iterable(zip(arrays, free, strict=True))]
        self.arrays += arrays
        self.count = int(begins[-1] + lengths[-1])
        return begins


def private_tiles(
    step: AttentionInput, which: Longs, begins: Longs, kv_indices: KVIndices, reserve: int
) -> QueryTiles:
    """One tile per request for the request's single row, reading positions begins[i] .. end.

    reserve: KV indices left free behind each tile.
    """
    last = step.starts[which]
    spans = zip(which.tolist(), begins.tolist(), (last + 1).tolist(), strict=True)
    arrays = [step.kv_slots[i][begin:end] for i, begin, end in spans]
    kv_begin = kv_indices.add(arrays, reserve)

    zeros = np.zeros(len(which), np.int64)
    return QueryTiles(
        rows=step.first_rows[which],
        num_rows=zeros + 1,
        kv_begin=kv_begin,
        kv_len=last + 1 - begins,
        mask_begin=zeros - 1,
        num_common=zeros,
        kv_position=begins,
        min_position=last,
        large=zeros > 0,
    )


def padding_tiles(rows: Longs, scratch: int, large: bool, kv_indices: KVIndices) -> QueryTiles:
    """One tile per padding row, reading the slot `scratch`."""
    zeros = np.zeros(len(rows), np.int64)
    return QueryTiles(
        rows=rows,
        num_rows=zeros + 1,
        kv_begin=zeros + kv_indices.add([np.full(1, scratch, np.int32)]),
        kv_len=zeros + 1,
        mask_begin=zeros - 1,
        num_common=zeros,
        kv_position=zeros,
        min_position=zeros,
        large=np.full(len(rows), large),
    )


def consecutive_tiles(step: AttentionInput, max_rows: int) -> tuple[Longs, Longs, Longs]:
    """Cut each request's tokens into tiles of at most `max_rows`. Returns request, first token and
    length of each tile."""
    counts = -(-step.lengths // max_rows)
    request = np.arange(len(step)).repeat(counts)
    first = ranks(counts) * max_rows
    return request, first, np.minimum(max_rows, step.lengths[request] - first)


def ranks(counts: Longs) -> Longs:
    """0 .. counts[i] - 1 for each i: the rank of each element within its group."""
    return np.arange(counts.sum()) - (counts.cumsum() - counts).repeat(counts)
