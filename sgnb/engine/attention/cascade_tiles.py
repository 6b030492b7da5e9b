"""Query tiles of rows with common prefixes. Plain numpy: knows cascades; no device.

A tile reads all tree levels above the rows at once, with row masks: first the common tokens of all
rows, then narrower groups, then the private tokens of each row. A short chunk of several tokens is
also a tree: each later token is visible from the token's row onward.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..step_input import AttentionInput
from .cascade import Cascade, Longs
from .query_tiles import MASK_BASE, KVIndices, QueryTiles, RowMasks, TileConfig, ranks


class _Layout(NamedTuple):
    """KV layout of all tiles in sequence; each tile with its reserve is padded to the alignment."""

    begin: Longs  # of each tile
    length: Longs  # of each tile, without padding
    num_common: Longs
    indices: Ints
    masks: RowMasks


def cascade_tiles(
    step: AttentionInput,
    cascade: Cascade,
    members: Longs,
    config: TileConfig,
    kv_indices: KVIndices,
    reserve: int,
) -> tuple[QueryTiles, RowMasks, Longs]:
    """Build the shared tiles of a step.

    Args:
        step: The rows of the step.
        cascade: The groups of the step.
        members: Requests below groups, or with several new tokens.
        config: Tile sizes and costs.
        kv_indices: Collector of the KV indices.
        reserve: KV indices left free behind each tile, per request with private tokens in the tile.

    Returns:
        Tiles, row masks, and the members whose private tokens need private tiles.
    """
    groups, costs = cascade.groups, config.costs
    low, own_from = cascade.first_places[members], cascade.own_from[members]
    high, own_to = low + step.lengths[members], step.starts[members] + 1
    several = high - low > 1
    trees = np.concatenate([groups[:, 2:4], np.stack([low, high], 1)[several]])
    bounds, large, tile_of = _cut_trees(trees, step.num_tokens, config)

    # KV segments, with the columns of groups: the groups, the private tokens of each request up to
    # and including the first new token, and the later new tokens.
    attached = several | (own_to - own_from < costs.detach) | ~large[tile_of[low]]
    private = np.stack([own_from, own_to, low, high, members], 1)[attached]
    segments = np.concatenate([groups, private, _later_tokens(private)])
    reserved = reserve * np.bincount(tile_of[private[:, 2]], minlength=len(bounds))
    layout = _lay_out(step, segments, bounds, tile_of, reserved, costs.align)

    row = np.arange(step.num_tokens)
    row_of = np.empty_like(row)
    row_of[(cascade.first_places - step.first_rows).repeat(step.lengths) + row] = row
    num_rows = bounds[:, 1] - bounds[:, 0]
    rows = row_of[bounds[:, 0].repeat(num_rows) + ranks(num_rows)]
    tiles = QueryTiles(
        rows=rows,
        num_rows=num_rows,
        kv_begin=layout.begin + kv_indices.add([layout.indices]),
        kv_len=layout.length,
        mask_begin=layout.begin,
        num_common=layout.num_common,
        kv_position=np.zeros(len(bounds), np.int64),
        min_position=np.minimum.reduceat(step.kv_positions[rows], num_rows.cumsum() - num_rows),
        large=large,
    )
    return tiles, layout.masks, members[~attached]


def _later_tokens(private: Longs) -> Longs:
    """Segments of one token each, from the second new token of a request onward."""
    counts = private[:, 3] - private[:, 2] - 1
    request, n = private.repeat(counts, 0), ranks(counts)
    position, place = request[:, 1] + n, request[:, 2] + 1 + n
    return np.stack([position, position + 1, place, request[:, 3], request[:, 4]], 1)


def _cut_trees(
    spans: Longs, total: int, config: TileConfig
) -> tuple[Longs, NDArray[np.bool_], Longs]:
    """Distribute the rows of each tree evenly over tiles.

    spans: [n, 2], low and high row indices of trees and branches. Returns the row ranges of the
    tiles, [tiles, 2], a flag for large tiles, and the tile of each of the `total` rows; rows
    outside trees get the last tile.
    """
    spans = spans[np.lexsort((-spans[:, 1], spans[:, 0]))]
    reached = np.maximum.accumulate(spans[:, 1])
    trees = spans[np.concatenate([[True], spans[1:, 0] >= reached[:-1]])]
    sizes = trees[:, 1] - trees[:, 0]
    large = sizes > config.small_rows
    counts = -(-sizes // np.where(large, config.large_rows, config.small_rows))

    tree, rank = np.arange(len(trees)).repeat(counts), ranks(counts)
    low, high = (trees[tree, 0] + sizes[tree] * k // counts[tree] for k in (rank, rank + 1))
    tile_of = np.full(total, len(tree) - 1)
    num_rows = high - low
    tile_of[low.repeat(num_rows) + ranks(num_rows)] = np.arange(len(tree)).repeat(num_rows)
    return np.stack([low, high], 1), large[tree], tile_of


def _lay_out(
    step: AttentionInput,
    segments: Longs,
    bounds: Longs,
    tile_of: Longs,
    reserved: Longs,
    align: int,
) -> _Layout:
    """Copy each segment to every intersecting tile."""
    num_tiles, first_tile = len(bounds), tile_of[segments[:, 2]]
    copies = tile_of[segments[:, 3] - 1] - first_tile + 1
    tile = first_tile.repeat(copies) + ranks(copies)
    begin, end, low, high, holder = segments.repeat(copies, 0).T
    low, high = np.maximum(low, bounds[tile, 0]), np.minimum(high, bounds[tile, 1])
    length, rows = end - begin, high - low
    for_all = np.where(rows == (bounds[:, 1] - bounds[:, 0])[tile], length, 0)
    used, num_common = (
        np.bincount(tile, weights, num_tiles).astype(np.int64) for weights in (length, for_all)
    )
    padded = -(-(used + reserved) // align) * align
    tile_begin = padded.cumsum() - padded

    # Padding is an additional segment of each tile, visible to no row: of the last array of slots.
    mask = low - bounds[tile, 0] + MASK_BASE * rows
    columns = np.zeros((4, len(tile) + num_tiles), np.int64)
    columns[:, : len(tile)] = holder, begin, end, mask
    columns[0, len(tile) :], columns[2, len(tile) :] = -1, padded - used
    by_tile = np.concatenate([tile, np.arange(num_tiles)]).argsort(kind="stable")
    holder, begin, end, mask = columns[:, by_tile]
    slots = list(step.kv_slots)
    slots.append(np.zeros(int((padded - used).max()), np.int32))
    spans = zip(holder.tolist(), begin.tolist(), end.tolist(), strict=True)
    indices = np.concatenate([slots[i][first:last] for i, first, last in spans])

    length = end - begin
    masks = mask.astype(np.int32).repeat(length)
    positions = (begin - length.cumsum() + length).astype(np.int32).repeat(length)
    positions += np.arange(len(positions), dtype=np.int32)
    # Padding must refer to finite KV, so padding repeats a token of the tile.
    indices[masks == 0] = indices[tile_begin].repeat(padded - used)
    return _Layout(tile_begin, used, num_common, indices, RowMasks(masks, positions))
