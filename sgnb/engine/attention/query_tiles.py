"""Query tiles: a few rows of a step, and the KV indices that they read together. Plain numpy:
knows no device.

A tile reads the union of what its rows see, each KV token once. Where not every row sees every
token, a *row mask* beside each KV index says which rows of the tile do: a contiguous range of them,
since rows are in depth-first order of the radix tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..request.batch import Batch
from .cascade import Longs

MASK_BASE = 256
"""A row mask is first + MASK_BASE * count, of the tile's rows that see the token. As in the
kernels."""


class CostModel(NamedTuple):
    """Cost model. Unit: reading one KV token for one query row."""

    shared_row: int = 48  # a row in a shared tile: wider matrix products, one more partial state
    launch: int = 3000  # one more launch of `attend_tiles`, for large tiles
    work_item: int = 48  # starting a work item
    min_work: int = 128  # least work of a CTA; half of it where there is little in all
    align: int = 64  # KV is split at multiples of it, and masked tiles are padded to one
    detach: int = 256  # a row with this many private tokens or more reads them in its own tile


class TileConfig(NamedTuple):
    """What a plan must know of the kernels of small and of large tiles."""

    small_rows: int  # query rows of a tile, at most
    large_rows: int
    small_ctas: int  # persistent CTAs of each KV head
    large_ctas: int
    costs: CostModel = CostModel()


class QueryTiles(NamedTuple):
    """One entry a tile, except for `rows`."""

    rows: Longs  # the rows of all tiles, tile after tile
    num_rows: Longs
    kv_begin: Longs  # the tile's first KV index
    kv_len: Longs  # without the padding of masked tiles
    mask_begin: Longs  # its first row mask; -1 when every row sees every token
    num_common: Longs  # leading tokens that all rows see, where there are row masks
    kv_position: Longs  # position of the first token, where there are none: they are consecutive
    min_position: Longs  # lowest position of its rows: what lies before its window is skipped
    large: NDArray[np.bool_]


class RowMasks(NamedTuple):
    """Of the tiles that have them, one entry a KV token."""

    masks: Ints
    kv_positions: Ints


NO_MASKS = RowMasks(np.empty(0, np.int32), np.empty(0, np.int32))


class KVIndices:
    """Collects the KV indices of a step: slots of the pool."""

    def __init__(self) -> None:
        self.arrays: list[Ints] = []
        self.count = 0

    def add(self, arrays: Sequence[Ints], reserve: int = 0) -> Longs:
        """Returns where each of them begins. reserve: indices left free behind each."""
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays)) + reserve
        begins = self.count + lengths.cumsum() - lengths
        if reserve:
            free = [np.zeros(reserve, np.int32)] * len(arrays)
            arrays = [*chain.from_iterable(zip(arrays, free, strict=True))]
        self.arrays += arrays
        self.count = int(begins[-1] + lengths[-1])
        return begins


def private_tiles(
    batch: Batch, which: Longs, begins: Longs, kv_indices: KVIndices, reserve: int
) -> QueryTiles:
    """One tile for the one row of each of these requests, reading positions begins[i] .. end.

    reserve: KV indices that are left free behind each.
    """
    last = batch.starts[which]
    requests = [batch.requests[i] for i in which.tolist()]
    spans = zip(requests, begins.tolist(), (last + 1).tolist(), strict=True)
    arrays = [request.slots[begin:end] for request, begin, end in spans]
    kv_begin = kv_indices.add(arrays, reserve)
    zeros = np.zeros(len(which), np.int64)
    return QueryTiles(
        rows=batch.first_rows[which],
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
    """One tile for each of these rows, which belong to no request: they read the slot `scratch`."""
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


def consecutive_tiles(batch: Batch, most: int) -> tuple[Longs, Longs, Longs]:
    """Cut each request's tokens into tiles of at most `most`. Of each tile: the request, its first
    token and its length."""
    counts = -(-batch.lengths // most)
    request = np.arange(len(batch)).repeat(counts)
    first = ranks(counts) * most
    return request, first, np.minimum(most, batch.lengths[request] - first)


def ranks(counts: Longs) -> Longs:
    """0 .. counts[i] - 1 for each i: the rank of each element within its group."""
    return np.arange(counts.sum()) - (counts.cumsum() - counts).repeat(counts)
