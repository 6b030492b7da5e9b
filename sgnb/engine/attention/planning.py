"""Attention planning: query tiles of a step and their schedule. Plain numpy.

Decode steps and other short chunks launch `attend_tiles`, on the following tiles:

- rows without a prefix worth sharing (`worth_sharing`): a private small tile each
- a tree of at most `small_rows` rows: a shared small tile
- a larger tree, if sharing saves `CostModel.launch`: shared large tiles, in a separate launch
- private tokens of a row, from `CostModel.detach` on: a private tile, merged with the shared tile

Long chunks use `extend_tiles` or FlashInfer (`hybrid.py`); FlashInfer never decodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..request.batch import Batch
from .cascade import Cascade, find_cascade
from .cascade_tiles import cascade_tiles
from .query_tiles import (
    NO_MASKS,
    CostModel,
    KVIndices,
    QueryTiles,
    RowMasks,
    TileConfig,
    consecutive_tiles,
    padding_tiles,
    private_tiles,
)
from .schedule import Schedule, make_schedule

INVARIANT_SPLIT = 512
"""KV split size of batch-invariant attention, in positions, independent of the other requests."""


def worth_sharing(rows: int, tokens: int, costs: CostModel) -> bool:
    """Return True if `rows` rows should read `tokens` tokens of a common prefix together.

    Under the cost model `costs`, sharing saves (rows - 1) reads of the prefix and costs each row a
    place in a shared tile.
    """
    return (rows - 1) * tokens > rows * costs.shared_row


def plan_short(
    batch: Batch,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    fork: bool,
    num_rows: int,
    scratch: int,
) -> Schedule:
    """Plan short chunks. fork: read common prefixes once.

    num_rows: rows of the schedule. Rows after the batch's rows belong to no request and read the
    slot `scratch`.
    """
    tiles, masks = short_tiles(
        batch, config, kv_indices, fork=fork, num_rows=num_rows, scratch=scratch
    )
    return make_schedule(tiles, masks, row_positions(batch, 0, num_rows), config)


def short_tiles(
    batch: Batch,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    fork: bool,
    num_rows: int,
    scratch: int,
    reserve: int = 0,
) -> tuple[QueryTiles, RowMasks]:
    """Tiles of `plan_short`: masked tiles, then private tiles, then padding.

    reserve: KV indices left free for each row, behind the row's tile.
    """
    cascade = _worthwhile(batch, config) if fork and len(batch) > 1 else None
    tiles, masks = list[QueryTiles](), NO_MASKS
    private, own_from = batch.first_rows, np.zeros(len(batch), np.int64)
    if cascade is not None or not batch.is_decode:
        if cascade is None:
            cascade = Cascade(batch.first_rows, own_from, np.empty((0, 5), np.int64))
        private, own_from = np.arange(len(batch)), cascade.own_from
        masked = _in_groups(batch, cascade) | (batch.lengths > 1)
        members = masked.nonzero()[0]
        if len(members):
            shared, masks, detached = cascade_tiles(
                batch, cascade, members, config, kv_indices, reserve
            )
            tiles.append(shared)
            private = np.concatenate([private[~masked], detached])

    if len(private):
        tiles.append(private_tiles(batch, private, own_from[private], kv_indices, reserve))
    if num_rows > batch.num_tokens:
        padding = np.arange(batch.num_tokens, num_rows)
        tiles.append(padding_tiles(padding, scratch, False, kv_indices))
    return _join(tiles), masks


def plan_invariant(
    batch: Batch,
    first_row: int,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    num_rows: int,
    scratch: int,
) -> Schedule:
    """Plan batch-invariant attention. The batch's rows begin at `first_row`; later rows are padding
    as in `plan_short`.

    Tokens of a request share a large tile. The KV of the tile begins at position 0 and is split at
    multiples of `INVARIANT_SPLIT`, so a row reads the same blocks in the same order in every batch.
    """
    request, first, count = consecutive_tiles(batch, config.large_rows)
    kv_begin = kv_indices.add(_whole_prefixes(batch))
    position = batch.starts[request] + first
    zeros = np.zeros(len(request), np.int64)
    used = first_row + batch.num_tokens
    tiles = [
        QueryTiles(
            rows=np.arange(first_row, used),
            num_rows=count,
            kv_begin=kv_begin[request],
            kv_len=position + count,
            mask_begin=zeros - 1,
            num_common=zeros,
            kv_position=zeros,
            min_position=position,
            large=zeros == 0,
        )
    ]
    if num_rows > used:
        tiles.append(padding_tiles(np.arange(used, num_rows), scratch, True, kv_indices))
    positions = row_positions(batch, first_row, num_rows)
    return make_schedule(_join(tiles), NO_MASKS, positions, config, INVARIANT_SPLIT)


def plan_extend(batch: Batch, first_row: int, tile_rows: int, kv_indices: KVIndices) -> Ints:
    """Tiles of the prefill kernel, int32[n, 4]: first row, rows, position, first KV index of the
    request.

    Tiles with the longest KV come first, so the last tiles to finish are short.
    """
    request, first, count = consecutive_tiles(batch, tile_rows)
    kv_begin = kv_indices.add(_whole_prefixes(batch))
    row = first_row + batch.first_rows[request] + first
    position = batch.starts[request] + first
    items = np.stack([row, count, position, kv_begin[request]], 1)
    return items[np.argsort(-position, kind="stable")].astype(np.int32)


def row_positions(batch: Batch, first_row: int, num_rows: int) -> Ints:
    """Positions of the schedule's rows; 0 for padding rows."""
    positions = np.zeros(num_rows, np.int32)
    positions[first_row : first_row + batch.num_tokens] = batch.positions
    return positions


def _worthwhile(batch: Batch, config: TileConfig) -> Cascade | None:
    """The cascade, or None if sharing saves less in the whole step than a second kernel costs."""
    worth = partial(worth_sharing, costs=config.costs)
    cascade = find_cascade(batch, batch.lengths.tolist(), worth)
    begin, end, low, high, _ = cascade.groups.T
    rows = high - low
    launches = bool((rows > config.small_rows).any())
    saved = int(((rows - 1) * (end - begin)).sum())
    batch.has_cascade = saved > (config.costs.launch if launches else 0)
    return cascade if batch.has_cascade else None


def _in_groups(batch: Batch, cascade: Cascade) -> NDArray[np.bool_]:
    """Per request: True if the request is below a group."""
    low, high = cascade.groups[:, 2], cascade.groups[:, 3]
    places = batch.num_tokens + 1
    depth = np.bincount(low, minlength=places) - np.bincount(high, minlength=places)
    return depth.cumsum()[cascade.first_places] > 0


def _whole_prefixes(batch: Batch) -> Sequence[Ints]:
    ends = batch.ends.tolist()
    return [request.slots[:end] for request, end in zip(batch.requests, ends, strict=True)]


def _join(tiles: list[QueryTiles]) -> QueryTiles:
    if len(tiles) == 1:
        return tiles[0]
    return QueryTiles(*(np.concatenate(column) for column in zip(*tiles, strict=True)))
