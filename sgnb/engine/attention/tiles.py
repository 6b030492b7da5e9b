"""Tiles: a few rows of a step's attention, and the slots that they read together. Plain numpy: knows no device.

A tile is some rows (tokens that ask) and the list of all slots that any of them sees, each slot once: rows below one
prefix read it together, several levels of the tree at a time. A *mark* says for each slot of the list which rows of
the tile see it.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radix import Ints
from ..request import Chunk
from .sharing import Sharing

MARK = 256
"""A mark is first + MARK * count: so many rows of the tile, from the first on, see the slot. As in the kernels."""

Longs = NDArray[np.int64]

Marks = tuple[Ints, Ints]
"""The marks of all slots of the tiles that have any, and the slots' positions."""

Entry = tuple[int, int, int, int, int]
"""What some rows see: as `Segment`, but a plain tuple, for there are thousands in a step."""


class Prices(NamedTuple):
    """What things cost, in tokens whose keys and values are read for one row.

    row: a row's place in a tile with others, and a part more to merge. kernel: launching the kernel of large tiles.
    piece: starting a piece. least: work of the smallest bin; half of it where
    there is little in all. align: pieces are cut at multiples of it, and lists with
    marks are filled up to one. detach: a row's own tokens, when so many, are not read with the large tile but in a tile
    of their own.
    """

    row: int = 48
    kernel: int = 3000
    piece: int = 48
    least: int = 128
    align: int = 64
    detach: int = 256


class Tiling(NamedTuple):
    """Rows that a small and a large tile hold, and bins for each kind."""

    small_rows: int
    large_rows: int
    small_bins: int
    large_bins: int
    prices: Prices = Prices()


class Tiles(NamedTuple):
    """One entry a tile. rows: the rows of all tiles, one tile after the other; first_row: where a tile's begin.

    first_slot, length: the tile's list within all slots. first_mark: its marks, -1 when every row sees every slot.
    common: how many slots from the first on every row sees, where there are marks. position: of the first slot, when
    the list is a stretch of positions. lowest: smallest position of its rows.
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


class Lists:
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


def single_tiles(chunks: list[Chunk], rows: Longs, firsts: Longs, lists: Lists) -> Tiles:
    """A tile for the one token of each chunk, that reads its positions from `firsts` on."""
    n = len(chunks)
    first_slot = lists.add([c.request.slots[f : c.start + 1] for c, f in zip(chunks, firsts.tolist(), strict=True)])
    positions = np.fromiter((c.start for c in chunks), np.int64, n)
    return Tiles(
        rows, np.arange(n), np.ones(n, np.int64), first_slot, positions + 1 - firsts, np.full(n, -1),
        np.zeros(n, np.int64), firsts, positions, np.zeros(n, np.bool_),
    )  # fmt: skip


def dummy_tiles(rows: Longs, scratch: int, lists: Lists) -> Tiles:
    """A tile for each of the rows, that sees the slot `scratch` alone."""
    n = len(rows)
    first_slot = int(lists.add([np.full(1, scratch, np.int32)])[0])
    zero = np.zeros(n, np.int64)
    return Tiles(rows, np.arange(n), zero + 1, zero + first_slot, zero + 1, zero - 1, zero, zero, zero, zero > 0)


def joined_tiles(
    chunks: list[Chunk],
    sharing: Sharing,
    joined: list[int],
    order: Longs,
    row_positions: Longs,
    tiling: Tiling,
    lists: Lists,
) -> tuple[Tiles, Marks, list[int]]:
    """Tiles for the trees of rows, with marks; and the chunks whose own tokens are left for tiles of their own.

    joined: the chunks in trees. order: the row at each place of the order.
    """
    starts, begins, segments = sharing
    spans = [(low, high) for _, _, low, high, _ in segments]
    spans += [(starts[i], starts[i] + chunks[i].length) for i in joined if chunks[i].length > 1]
    bounds, large, tile_of = _cut_trees(np.array(spans, np.int64), len(order), tiling)
    parts: list[Entry] = list(segments)
    detached, in_large, detach = [], large[tile_of].tolist(), tiling.prices.detach
    for i in joined:
        (_, start, length), row, begin = chunks[i], starts[i], begins[i]
        if length == 1 and start + 1 - begin >= detach and in_large[row]:
            detached.append(i)
            continue
        if start + 1 > begin:
            parts.append((begin, start + 1, row, row + length, i))
        if length > 1:
            parts += [(start + n, start + n + 1, row + n, row + length, i) for n in range(1, length)]
    members = bounds[:, 1] - bounds[:, 0]
    first_slot, lengths, first_mark, common, marks = _lay_out(
        parts, chunks, bounds, tile_of, tiling.prices.align, lists
    )
    first_row = np.cumsum(members) - members
    rows = order[np.repeat(bounds[:, 0] - first_row, members) + np.arange(members.sum())]
    lowest = np.minimum.reduceat(row_positions[rows], first_row)
    position = np.zeros(len(members), np.int64)
    tiles = Tiles(rows, first_row, members, first_slot, lengths, first_mark, common, position, lowest, large)
    return tiles, marks, detached


def _cut_trees(spans: Longs, total: int, tiling: Tiling) -> tuple[Longs, NDArray[np.bool_], Longs]:
    """Where tiles begin and end in the order, [tiles, 2], which are large, and the tile of each of `total` places.

    spans: [n, 2], where trees and their branches begin and end. A tree's rows are dealt out evenly. Places outside of
    trees get the last tile.
    """
    spans = spans[np.lexsort((-spans[:, 1], spans[:, 0]))]
    reached = np.maximum.accumulate(spans[:, 1])
    tops = spans[np.concatenate([[True], spans[1:, 0] >= reached[:-1]])]
    bounds: list[tuple[int, int]] = []
    large = []
    tile_of = np.full(total, -1, np.int64)
    for low, high in tops.tolist():
        is_large = high - low > tiling.small_rows
        count = -(-(high - low) // (tiling.large_rows if is_large else tiling.small_rows))
        for begin, end in itertools.pairwise(low + (high - low) * k // count for k in range(count + 1)):
            tile_of[begin:end] = len(bounds)
            bounds.append((begin, end))
            large.append(is_large)
    return np.array(bounds, np.int64), np.array(large, np.bool_), tile_of


def _lay_out(
    segments: list[Entry], chunks: list[Chunk], bounds: Longs, tile_of: Longs, align: int, lists: Lists
) -> tuple[Longs, Longs, Longs, Longs, Marks]:
    """Lists of slots for tiles made of the segments, each copied to every tile that it meets.

    Lists are filled up to multiples of `align` with a slot of theirs that no row sees. Returns each tile's first slot,
    length, first mark and how many slots at the beginning all rows see; and the marks.
    """
    source = np.concatenate([chunks[c].request.slots[first:end] for first, end, _, _, c in segments])
    parts = np.fromiter(itertools.chain.from_iterable(segments), np.int64, 5 * len(segments)).reshape(-1, 5)
    lengths = parts[:, 1] - parts[:, 0]
    offsets = np.cumsum(lengths) - lengths
    first_tile = tile_of[parts[:, 2]]
    copies = tile_of[parts[:, 3] - 1] - first_tile + 1
    part = np.repeat(np.arange(len(parts)), copies)
    tile = np.repeat(first_tile - np.cumsum(copies) + copies, copies) + np.arange(len(part))
    by_tile = np.argsort(tile, kind="stable")
    part, tile = part[by_tile], tile[by_tile]
    begin, length = bounds[tile, 0], lengths[part]
    low = np.maximum(parts[part, 2], begin) - begin
    high = np.minimum(parts[part, 3], bounds[tile, 1]) - begin
    for_all = np.where(high - low == bounds[tile, 1] - begin, length, 0)
    filled = np.bincount(tile, weights=length, minlength=len(bounds)).astype(np.int64)
    tile_length = -(-filled // align) * align
    # What fills a list up is one more copy: of nothing, with an empty mark.
    counts = np.bincount(tile, minlength=len(bounds))
    ends = np.cumsum(counts)
    spare = tile_length - filled
    all_lengths, all_marks = np.insert(length, ends, spare), np.insert(low + MARK * (high - low), ends, 0)
    where = np.cumsum(all_lengths) - all_lengths
    along = np.arange(int(tile_length.sum()), dtype=np.int32)
    first_sources = np.insert(offsets[part], ends, offsets[part[ends - 1]]) - where
    first_positions = np.insert(parts[part, 0], ends, 0) - where
    slots = source[np.minimum(np.repeat(first_sources.astype(np.int32), all_lengths) + along, len(source) - 1)]
    positions = np.repeat(first_positions.astype(np.int32), all_lengths) + along
    marks = np.repeat(all_marks.astype(np.int32), all_lengths)
    first_mark = np.cumsum(tile_length) - tile_length
    fills = np.repeat(first_mark + tile_length - np.cumsum(spare), spare) + np.arange(spare.sum())
    slots[fills] = np.repeat(slots[first_mark + filled - 1], spare)
    first_slot = first_mark + lists.add([slots])[0]
    common = np.bincount(tile, weights=for_all, minlength=len(bounds)).astype(np.int64)
    return first_slot, tile_length, first_mark, common, (marks, positions)
