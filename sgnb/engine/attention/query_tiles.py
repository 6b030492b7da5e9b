"""QueryTiles: a few rows of a step's attention, and the slots that they read together. Plain numpy:
knows no device.

A tile is some rows (tokens that ask) and the list of all slots that any of them sees, each slot
once: rows below one prefix read it together, several levels of the tree at a time. A *mark* says
for each slot of the list which rows of the tile see it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..request.request import Chunk

MASK_BASE = 256
"""A mark is first + MASK_BASE * count: so many rows of the tile, from the first on, see the slot. As in
the kernels."""

Longs = NDArray[np.int64]

RowMasks = tuple[Ints, Ints]
"""The marks of all slots of the tiles that have any, and the slots' positions."""


class CostModel(NamedTuple):
    """What things cost, in tokens whose keys and values are read for one row.

    row: a row's place in a tile with others, and a part more to merge. kernel: launching the kernel
    of large tiles. piece: starting a piece. least: work of the smallest bin; half of it where
    there is little in all. align: pieces are cut at multiples of it, and lists with marks are
    filled up to one. detach: a row's own tokens, when so many, are not read with the large tile but
    in a tile of their own.
    """

    row: int = 48
    kernel: int = 3000
    piece: int = 48
    least: int = 128
    align: int = 64
    detach: int = 256


class TileConfig(NamedTuple):
    """Rows that a small and a large tile hold, and bins for each kind."""

    small_rows: int
    large_rows: int
    small_ctas: int
    large_ctas: int
    costs: CostModel = CostModel()


class QueryTiles(NamedTuple):
    """One entry a tile. rows: the rows of all tiles, one tile after the other; first_row: where a
    tile's begin.

    first_slot, length: the tile's list within all slots. first_mark: its marks, -1 when every row
    sees every slot. common: how many slots from the first on every row sees, where there are marks.
    position: of the first slot, when the list is a stretch of positions. lowest: smallest position
    of its rows. filled: length without what fills the list up. growth: slots that come to it when
    each row has a token more; 0 for rows that belong to no request.
    """

    rows: Longs
    first_row: Longs
    members: Longs
    first_slot: Longs
    length: Longs
    first_mark: Longs
    common: Longs
    position: Longs
    lowest: Longs
    large: NDArray[np.bool_]
    filled: Longs
    growth: Longs


class KVIndices:
    """Collects the slots of a step's tiles. `add` returns where the new ones begin."""

    def __init__(self) -> None:
        self.arrays: list[Ints] = []
        self.count = 0

    def add(self, arrays: list[Ints]) -> Longs:
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        firsts = self.count + np.cumsum(lengths) - lengths
        self.arrays += arrays
        self.count += int(lengths.sum())
        return firsts


def single_tiles(
    chunks: list[Chunk], rows: Longs, firsts: Longs, lists: KVIndices, room: int = 0
) -> QueryTiles:
    """A tile for the one token of each chunk, that reads its positions from `firsts` on.

    room: each list has room for so many slots more, or as many as its request can have.
    """
    n = len(chunks)
    ends = [c.start + 1 for c in chunks]
    first_slot = lists.add(
        [
            c.request.slots[first : end + room]
            for c, first, end in zip(chunks, firsts.tolist(), ends, strict=True)
        ]
    )
    lengths = np.array(ends, np.int64) - firsts
    zero = np.zeros(n, np.int64)
    one = zero + 1
    return QueryTiles(
        rows, np.arange(n), members=one, first_slot=first_slot, length=lengths, first_mark=zero - 1, common=zero,
        position=firsts, lowest=firsts + lengths - 1, large=zero > 0, filled=lengths, growth=one,
    )  # fmt: skip


def dummy_tiles(rows: Longs, scratch: int, lists: KVIndices) -> QueryTiles:
    """A tile for each of the rows, that sees the slot `scratch` alone."""
    n = len(rows)
    first_slot = int(lists.add([np.full(1, scratch, np.int32)])[0])
    zero = np.zeros(n, np.int64)
    one = zero + 1
    return QueryTiles(
        rows, np.arange(n), members=one, first_slot=zero + first_slot, length=one, first_mark=zero - 1, common=zero,
        position=zero, lowest=zero, large=zero > 0, filled=one, growth=zero,
    )  # fmt: skip
