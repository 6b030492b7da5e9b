"""Schedule of query tiles on persistent CTAs: split-KV work items and destinations of results.
Plain numpy: knows no requests.

The concatenated KV of all tiles is divided into ranges of equal work, one per CTA (stream-K, Osama
et al., arXiv 2301.03598). A tile is split only at the end of a range. A row in a single work item
is final; partial states of other rows are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cache.radix import Ints
from .cascade import Longs
from .query_tiles import CostModel, QueryTiles, RowMasks, TileConfig, ranks

EVEN = 1.1
"""Maximum ratio of the largest work item to an equal range for assigning one work item per CTA."""


class WorkItems(NamedTuple):
    """Work items of a kernel, for small or large tiles. All int32."""

    cta_indptr: Ints  # [CTAs + 1], the work items of each CTA
    items: Ints
    """[n, 8]: first KV index, length, first row mask or -1, position of the first token, first
    entry of the scatter map, rows, lowest row position, leading tokens visible to all rows."""
    tile: Longs  # [n], tile of each work item; work items of a tile are adjacent


class Schedule(NamedTuple):
    """The tables of a step for the kernels; all int32."""

    small: WorkItems
    large: WorkItems
    scatter_map: Ints  # [n, 2], of each row of a work item: the row; its partial, or -1 - row
    partials_indptr: Ints  # [rows + 1], the partials of each row
    row_positions: Ints  # [rows]
    masks: RowMasks
    num_partials: int


def make_schedule(
    tiles: QueryTiles, masks: RowMasks, row_positions: Ints, config: TileConfig, every: int = 0
) -> Schedule:
    """Build the schedule. every: split KV only at multiples of `every`, for any number of CTAs."""
    first_entry, lengths = 0, _lengths(tiles, config)
    items, rows = [], []
    for chosen, ctas in ((~tiles.large, config.small_ctas), (tiles.large, config.large_ctas)):
        if not chosen.any():
            empty = np.empty((0, 8), np.int32)
            items.append(WorkItems(np.zeros(ctas + 1, np.int32), empty, np.empty(0, np.int64)))
            continue
        which = chosen.nonzero()[0]
        index, begin, end, cta_indptr = split_kv(lengths[which], ctas, config.costs, every)
        tile = which[index]
        table, some_rows = _describe(tiles, tile, begin, end, first_entry)
        items.append(WorkItems(cta_indptr.astype(np.int32), table, tile))
        rows.append(some_rows)
        first_entry += len(some_rows)

    all_rows = rows[0] if len(rows) == 1 else np.concatenate(rows)
    scatter_map, partials_indptr = make_scatter_map(all_rows, len(row_positions))
    num_partials = int(partials_indptr[-1])
    return Schedule(
        items[0], items[1], scatter_map, partials_indptr, row_positions, masks, num_partials
    )


def lengthen(schedule: Schedule, tiles: QueryTiles, config: TileConfig) -> None:
    """Extend the last work item of each tile in place to the tile's new end.

    Work is less evenly divided than in a new schedule.

    Args:
        schedule: Schedule of the same tiles with fewer tokens.
        tiles: Tiles with the new lengths.
        config: Configuration of the kernels, as for `make_schedule`.
    """
    lengths = _lengths(tiles, config)
    for _, items, tile in (schedule.small, schedule.large):
        if len(items):
            last = np.append(tile[1:] != tile[:-1], True).nonzero()[0]
            ends = (tiles.kv_begin + lengths)[tile[last]]
            items[last, 1] = ends - items[last, 0]
            items[:, 6] = tiles.min_position[tile]


def _lengths(tiles: QueryTiles, config: TileConfig) -> Longs:
    """KV indices of each tile, including the padding of masked tiles to whole blocks."""
    align = config.costs.align
    padded = -(-tiles.kv_len // align) * align
    return np.where(tiles.mask_begin < 0, tiles.kv_len, padded)


def _describe(
    tiles: QueryTiles, tile: Longs, begin: Longs, end: Longs, first_entry: int
) -> tuple[Ints, Longs]:
    """Table of the work items begin .. end of `tile`, and the rows of all work items."""
    num_rows, mask_begin, length = tiles.num_rows[tile], tiles.mask_begin[tile], end - begin
    entries = num_rows.cumsum() - num_rows
    table = np.empty((len(tile), 8), np.int32)
    table[:, 0] = tiles.kv_begin[tile] + begin
    table[:, 1] = length
    table[:, 2] = np.where(mask_begin < 0, -1, mask_begin + begin)
    table[:, 3] = tiles.kv_position[tile] + begin
    table[:, 4] = entries + first_entry
    table[:, 5] = num_rows
    table[:, 6] = tiles.min_position[tile]
    table[:, 7] = np.minimum(np.maximum(tiles.num_common[tile] - begin, 0), length)

    first_row = tiles.num_rows.cumsum() - tiles.num_rows
    return table, tiles.rows[first_row[tile].repeat(num_rows) + ranks(num_rows)]


def split_kv(
    lengths: Longs, ctas: int, costs: CostModel, every: int = 0
) -> tuple[Longs, Longs, Longs, Longs]:
    """Split the KV of tiles between CTAs.

    With at least as many CTAs as tiles, tiles are split evenly and each CTA has at most one work
    item, unless the largest item clearly exceeds an equal range. every: split each tile at
    multiples of `every` instead. Returns tile, begin and end of each work item, and the indptr of
    the CTAs.
    """
    if every:
        return _split_at_multiples(lengths, ctas, costs, every)
    work = int(lengths.sum()) + len(lengths) * costs.work_item
    least = costs.min_work // 2 if work <= 8 * costs.min_work else costs.min_work
    used = max(1, min(ctas, work // least))
    if len(lengths) <= ctas:
        size = _even_size(lengths, ctas, least, costs.align)
        if size <= EVEN * (work // used):
            return _split_evenly(lengths, ctas, size, costs.align)
    return _split_by_work(lengths, ctas, used, costs)


def _split_at_multiples(
    lengths: Longs, ctas: int, costs: CostModel, every: int
) -> tuple[Longs, Longs, Longs, Longs]:
    counts = -(-lengths // every)
    tile, begin = np.arange(len(lengths)).repeat(counts), ranks(counts) * every
    end = np.minimum(begin + every, lengths[tile])
    work = (end - begin + costs.work_item).cumsum()
    inner = work.searchsorted(work[-1] * np.arange(1, ctas) // ctas, side="right")
    return tile, begin, end, np.concatenate([[0], inner, [len(tile)]])


def _split_evenly(
    lengths: Longs, ctas: int, size: int, align: int
) -> tuple[Longs, Longs, Longs, Longs]:
    counts = -(-lengths // size)
    sizes = -(-lengths // (counts * align)) * align
    counts = -(-lengths // sizes)
    tile = np.arange(len(lengths)).repeat(counts)
    begin = ranks(counts) * sizes[tile]
    end = np.minimum(begin + sizes[tile], lengths[tile])
    return tile, begin, end, np.minimum(np.arange(ctas + 1), len(tile))


def _split_by_work(
    lengths: Longs, ctas: int, used: int, costs: CostModel
) -> tuple[Longs, Longs, Longs, Longs]:
    """Split all tiles into ranges of about equal cost, one for each of the first `used` CTAs.

    Returns:
        Tile, begin and end of each work item, and the first item of each CTA, int64[ctas + 1].
    """
    ends, work = lengths.cumsum(), (lengths + costs.work_item).cumsum()
    borders = np.concatenate([[0], ends])
    targets = work[-1] * np.arange(1, used) // used
    tile = work.searchsorted(targets, side="right")
    inside = targets - (work[tile] - lengths[tile]) + costs.align // 2
    cuts = borders[tile] + np.clip(inside // costs.align * costs.align, 0, lengths[tile])

    points = np.unique(np.concatenate([borders, cuts]))
    tile = ends.searchsorted(points[:-1], side="right")
    cta_indptr = np.full(ctas + 1, len(points) - 1)
    cta_indptr[0] = 0
    cta_indptr[1:used] = points.searchsorted(cuts)
    return tile, points[:-1] - borders[tile], points[1:] - borders[tile], cta_indptr


def _even_size(lengths: Longs, ctas: int, least: int, align: int) -> int:
    """Largest work item of an even split of each tile into at most `ctas` items in total."""
    size = max(least, -(-int(lengths.sum()) // ctas))
    while True:
        size = -(-size // align) * align
        if int((-(-lengths // size)).sum()) <= ctas:
            return size
        size += max(1, size // 16)


def make_scatter_map(rows: Longs, num_rows: int) -> tuple[Ints, Ints]:
    """`Schedule.scatter_map` of the rows of all work items, and `partials_indptr`. A row that has
    one entry has no partial."""
    counts = np.bincount(rows, minlength=num_rows)
    scatter_map = np.empty((len(rows), 2), np.int32)
    partials_indptr = np.zeros(num_rows + 1, np.int32)

    scatter_map[:, 0], scatter_map[:, 1] = rows, -1 - rows
    if len(rows) > num_rows or counts.max() > 1:
        split = counts > 1
        np.cumsum(np.where(split, counts, 0), out=partials_indptr[1:])
        entries = split[rows].nonzero()[0]
        by_row = entries[rows[entries].argsort(kind="stable")]
        scatter_map[by_row, 1] = np.arange(len(by_row))
    return scatter_map, partials_indptr
