"""Plans a step's attention: which query tiles there are, and their schedule. Plain numpy.

Decode steps and other short chunks launch `attend_tiles`, on tiles that are decided here:

- rows below no prefix worth sharing (`worth_sharing`): a private tile each, tuned as small ones
- a tree of at most `small_rows` rows: one shared small tile
- a larger tree, if that saves `CostModel.launch`: shared large tiles, in a launch of their own
- own tokens of a row, from `CostModel.detach` on: a private tile, merged with the shared one

Long chunks go to `extend_tiles`, or to FlashInfer (`hybrid.py`), which never decodes.
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
"""Batch-invariant attention splits KV at multiples of this many positions, whatever else is in the
step."""


def worth_sharing(rows: int, tokens: int, costs: CostModel) -> bool:
    """The cost rule: whether `rows` rows read `tokens` tokens of a common prefix together.

    It saves (rows - 1) reads of them, and costs each row its place in a shared tile.
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
    """Of short chunks. fork: read common prefixes once.

    num_rows: of the schedule. Those after the batch's belong to no request, and read the slot
    `scratch`.
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
    """The tiles of `plan_short`: first those with row masks, then private ones, then padding.

    reserve: KV indices that are left free for each row, behind its tile's.
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
    """A schedule in which a row's result depends on nothing but what it sees. The batch's rows
    begin at `first_row`; later ones are as for `plan_short`.

    Tokens of one request share a large tile, its KV begins at position 0, and is split at multiples
    of `INVARIANT_SPLIT`: so a row meets the same blocks, in the same order, whatever is with it.
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
    """Tiles for the prefill kernel, int32[n, 4]: first row, rows, position, first KV index of the
    request.

    Those that read the most come first, so that the last ones to finish are short.
    """
    request, first, count = consecutive_tiles(batch, tile_rows)
    kv_begin = kv_indices.add(_whole_prefixes(batch))
    row = first_row + batch.first_rows[request] + first
    position = batch.starts[request] + first
    items = np.stack([row, count, position, kv_begin[request]], 1)
    return items[np.argsort(-position, kind="stable")].astype(np.int32)


def row_positions(batch: Batch, first_row: int, num_rows: int) -> Ints:
    """Of the rows of a schedule; 0 for those that are not the batch's."""
    positions = np.zeros(num_rows, np.int32)
    positions[first_row : first_row + batch.num_tokens] = batch.positions
    return positions


def _worthwhile(batch: Batch, config: TileConfig) -> Cascade | None:
    """What to read once, or None when that saves less in the whole step than another kernel
    costs."""
    worth = partial(worth_sharing, costs=config.costs)
    cascade = find_cascade(batch, batch.lengths.tolist(), worth)
    begin, end, low, high, _ = cascade.groups.T
    rows = high - low
    launches = bool((rows > config.small_rows).any())
    saved = int(((rows - 1) * (end - begin)).sum())
    batch.has_cascade = saved > (config.costs.launch if launches else 0)
    return cascade if batch.has_cascade else None


def _in_groups(batch: Batch, cascade: Cascade) -> NDArray[np.bool_]:
    """Whether each request is below some group."""
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
