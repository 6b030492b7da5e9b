"""Cuts a step's tiles into pieces of work, and numbers the partial results. Plain numpy: knows no
requests.

The lists of all tiles, one after the other, are cut into *bins* of equal work, one for each program
that a device runs at a time (stream-K, Osama et al., arXiv 2301.03598), so that a tile is cut into
*pieces* only where a bin ends. A row that is in one piece gets its output from there; the *parts*
of other rows are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cache.radix import Ints
from .query_tiles import CostModel, Longs, QueryTiles, RowMasks, TileConfig

EVEN = 1.1
"""Pieces of one list each are better than bins of equal work as long as the largest is at most so
much larger."""


class Schedule(NamedTuple):
    """The tables of a step, for the kernels; all int32.

    small, large: (bins [bins + 1], where the pieces of a bin begin; pieces [n, 8]: first slot,
    length, first mark or
    -1, position of the first slot, first pair, rows, lowest position of a row, how many slots of a
    list with marks all rows see before the first that some do not). pairs [n, 2]: a row of a piece,
    and its part, or -1 - row when it has no other. partials_indptr [rows + 1]: the parts of a row.
    marks: [n] and positions [n]. num_partials: of all rows.
    """

    small: tuple[Ints, Ints]
    large: tuple[Ints, Ints]
    pairs: Ints
    partials_indptr: Ints
    row_positions: Ints
    marks: RowMasks
    num_partials: int


def make_schedule(
    tiles: QueryTiles, config: TileConfig, marks: RowMasks, row_positions: Ints, every: int = 0
) -> tuple[Schedule, tuple[Longs, Longs]]:
    """Cut the tiles into pieces and number the parts. Also the tile of each small and of each large
    piece.

    every: cut lists at multiples of it.
    """
    kinds, pair_rows, tile_of, first_pair = [], [], [], 0
    for kind, bins in ((~tiles.large, config.small_ctas), (tiles.large, config.large_ctas)):
        chosen = kind.nonzero()[0]
        tile_of.append(chosen)
        if not len(chosen):
            kinds.append((np.zeros(bins + 1, np.int32), np.empty((0, 8), np.int32)))
            continue
        index, begin, end, starts = split_kv(tiles.length[chosen], bins, config.costs, every)
        tile_of[-1] = tile = chosen[index]
        members, marked, length = tiles.members[tile], tiles.first_mark[tile], end - begin
        ends = members.cumsum()
        firsts = ends - members
        pieces = np.empty((len(tile), 8), np.int32)
        pieces[:, 0] = tiles.first_slot[tile] + begin
        pieces[:, 1] = length
        pieces[:, 2] = np.where(marked < 0, -1, marked + begin)
        pieces[:, 3] = tiles.position[tile] + begin
        pieces[:, 4] = firsts + first_pair
        pieces[:, 5] = members
        pieces[:, 6] = tiles.lowest[tile]
        pieces[:, 7] = np.minimum(np.maximum(tiles.common[tile] - begin, 0), length)
        kinds.append((starts.astype(np.int32), pieces))
        pairs = int(ends[-1])
        pair_rows.append(
            tiles.rows[(tiles.first_row[tile] - firsts).repeat(members) + np.arange(pairs)]
        )
        first_pair += pairs
    pairs_table, partials_indptr = make_scatter_map(np.concatenate(pair_rows), len(row_positions))
    work = Schedule(
        kinds[0],
        kinds[1],
        pairs_table,
        partials_indptr,
        row_positions,
        marks,
        int(partials_indptr[-1]),
    )
    return work, (tile_of[0], tile_of[1])


def split_kv(
    lengths: Longs, bins: int, costs: CostModel, every: int = 0
) -> tuple[Longs, Longs, Longs, Longs]:
    """Cut lists of these lengths, laid end to end, into bins of equal work.

    When there are more bins than lists, each list is cut evenly instead, so that a bin has one
    piece, unless that makes the largest clearly larger. every: cut each list at multiples of it,
    and share out the pieces. Returns for each piece its list, where in the list it begins and ends;
    and int64[bins + 1], the pieces at which the bins begin.
    """
    if not len(lengths):
        empty = np.empty(0, np.int64)
        return empty, empty, empty, np.zeros(bins + 1, np.int64)
    borders = np.concatenate([[0], np.cumsum(lengths)])
    if every:
        counts = -(-lengths // every)
        index = np.repeat(np.arange(len(lengths)), counts)
        begin = (np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)) * every
        end = np.minimum(begin + every, lengths[index])
        work = np.cumsum(end - begin + costs.piece)
        edges = work[-1] * np.arange(1, bins) // bins
        inner = np.searchsorted(work, edges, side="right")
        return index, begin, end, np.concatenate([[0], inner, [len(index)]])
    work = np.cumsum(lengths + costs.piece)
    least = costs.least // 2 if work[-1] <= 8 * costs.least else costs.least
    used = int(max(1, min(bins, work[-1] // least)))
    if len(lengths) <= bins:
        size = _even_size(lengths, bins, least, costs.align)
        if size <= EVEN * (int(work[-1]) // used):
            counts = -(-lengths // size)
            index = np.repeat(np.arange(len(lengths)), counts)
            each = -(-lengths // (counts * costs.align)) * costs.align
            begin = (np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)) * each[
                index
            ]
            kept = begin < lengths[index]
            index, begin = index[kept], begin[kept]
            end = np.minimum(begin + each[index], lengths[index])
            return index, begin, end, np.minimum(np.arange(bins + 1), len(index))
    edges = work[-1] * np.arange(1, used) // used
    index = np.searchsorted(work, edges, side="right")
    inside = edges - (work[index] - lengths[index]) + costs.align // 2
    cuts = borders[index] + np.clip(inside // costs.align * costs.align, 0, lengths[index])
    points = np.unique(np.concatenate([borders, cuts]))
    index = np.searchsorted(borders, points[:-1], side="right") - 1
    begin, end = points[:-1] - borders[index], points[1:] - borders[index]
    starts = np.full(bins + 1, len(points) - 1)
    starts[0] = 0
    starts[1:used] = np.searchsorted(points, cuts)
    return index, begin, end, starts


def _even_size(lengths: Longs, bins: int, least: int, align: int) -> int:
    """The largest piece when each list is cut evenly into pieces, as many as there are bins or a
    little fewer."""
    size = max(least, -(-int(lengths.sum()) // bins))
    while True:
        size = -(-size // align) * align
        if int((-(-lengths // size)).sum()) <= bins:
            return size
        size += max(1, size // 16)


def make_scatter_map(pair_rows: Longs, rows: int) -> tuple[Ints, Ints]:
    """[n, 2]: each pair's row and its part, -1 - row if it is in no other; and where the parts of a
    row begin."""
    counts = np.bincount(pair_rows, minlength=rows)
    kept = np.where(counts > 1, counts, 0)
    partials_indptr = np.concatenate([[0], np.cumsum(kept)])
    by_row = np.argsort(pair_rows, kind="stable")
    rank = np.empty(len(pair_rows), np.int64)
    rank[by_row] = np.arange(len(pair_rows)) - (np.cumsum(counts) - counts)[pair_rows[by_row]]
    part = np.where(counts[pair_rows] > 1, partials_indptr[pair_rows] + rank, -1 - pair_rows)
    return np.stack([pair_rows, part], 1).astype(np.int32), partials_indptr.astype(np.int32)
