"""Attention planning: query tiles of a step and their schedule. Plain numpy.

Decode steps and other short chunks launch `attend_tiles`, on the following tiles:

- rows without a prefix worth sharing (`worth_sharing`): a private small tile each
- a tree of at most `small_rows` rows: a shared small tile
- a larger tree, if sharing saves `CostModel.launch`: shared large tiles, in a separate launch
- private tokens of a row, from `CostModel.detach` on: a private tile, merged with the shared tile

Long chunks use `extend_tiles` or FlashInfer (`split.py`); FlashInfer never decodes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..step_input import AttentionInput
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
    step: AttentionInput,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    fork: bool,
    num_rows: int,
    scratch: int,
) -> tuple[Schedule, bool]:
    """Plan short chunks.

    Args:
        step: The rows of the step.
        config: Tile sizes and costs.
        kv_indices: Collector of the KV indices.
        fork: Read common prefixes once.
        num_rows: Rows of the schedule. Rows after the step's rows are padding.
        scratch: Slot that padding rows read.

    Returns:
        The schedule, and True if the schedule reads a shared prefix once for several sequences.
    """
    tiles, masks, has_cascade = short_tiles(
        step, config, kv_indices, fork=fork, num_rows=num_rows, scratch=scratch
    )
    return make_schedule(tiles, masks, row_positions(step, 0, num_rows), config), has_cascade


def short_tiles(
    step: AttentionInput,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    fork: bool,
    num_rows: int,
    scratch: int,
    reserve: int = 0,
) -> tuple[QueryTiles, RowMasks, bool]:
    """Return the tiles of `plan_short` (masked tiles, then private tiles, then padding), the row
    masks, and True if a tile reads a shared prefix.

    reserve: KV indices left free for each row, behind the row's tile.
    """
    cascade = _worthwhile(step, config) if fork and len(step) > 1 else None
    has_cascade = cascade is not None
    tiles, masks = list[QueryTiles](), NO_MASKS
    private, own_from = step.first_rows, np.zeros(len(step), np.int64)
    if cascade is not None or not step.is_decode:
        if cascade is None:
            cascade = Cascade(step.first_rows, own_from, np.empty((0, 5), np.int64))
        private, own_from = np.arange(len(step)), cascade.own_from
        masked = _in_groups(step, cascade) | (step.lengths > 1)
        members = masked.nonzero()[0]
        if len(members):
            shared, masks, detached = cascade_tiles(
                step, cascade, members, config, kv_indices, reserve
            )
            tiles.append(shared)
            private = np.concatenate([private[~masked], detached])

    if len(private):
        tiles.append(private_tiles(step, private, own_from[private], kv_indices, reserve))
    if num_rows > step.num_tokens:
        padding = np.arange(step.num_tokens, num_rows)
        tiles.append(padding_tiles(padding, scratch, False, kv_indices))
    return _join(tiles), masks, has_cascade


def plan_invariant(
    step: AttentionInput,
    first_row: int,
    config: TileConfig,
    kv_indices: KVIndices,
    *,
    num_rows: int,
    scratch: int,
) -> Schedule:
    """Plan batch-invariant attention. The step's rows begin at `first_row`; later rows are padding
    as in `plan_short`.

    Tokens of a request share a large tile. The KV of the tile begins at position 0 and is split at
    multiples of `INVARIANT_SPLIT`, so a row reads the same blocks in the same order in every step.
    """
    request, first, count = consecutive_tiles(step, config.large_rows)
    kv_begin = kv_indices.add(step.kv_indices)
    position = step.starts[request] + first

    zeros = np.zeros(len(request), np.int64)
    used = first_row + step.num_tokens
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
    positions = row_positions(step, first_row, num_rows)
    return make_schedule(_join(tiles), NO_MASKS, positions, config, INVARIANT_SPLIT)


def plan_extend(
    step: AttentionInput, first_row: int, tile_rows: int, kv_indices: KVIndices
) -> Ints:
    """Tiles of the prefill kernel, int32[n, 5]: first row, rows, position, first KV index of the
    request, and last position visible to every row (of a whole sequence; otherwise -1).

    Tiles with the longest KV come first, so the last tiles to finish are short.
    """
    request, first, count = consecutive_tiles(step, tile_rows)
    kv_begin = kv_indices.add(step.kv_indices)
    row = first_row + step.first_rows[request] + first
    position = step.starts[request] + first
    visible = np.full(len(request), -1)
    if any(step.whole):
        visible = np.where(np.asarray(step.whole), step.ends - 1, -1)[request]
    items = np.stack([row, count, position, kv_begin[request], visible], 1)
    return items[np.argsort(-position, kind="stable")].astype(np.int32)


def row_positions(step: AttentionInput, first_row: int, num_rows: int) -> Ints:
    """Positions of the schedule's rows; 0 for padding rows."""
    positions = np.zeros(num_rows, np.int32)
    positions[first_row : first_row + step.num_tokens] = step.kv_positions
    return positions


def _worthwhile(step: AttentionInput, config: TileConfig) -> Cascade | None:
    """The cascade, or None if sharing saves less in the whole step than a second kernel costs."""
    worth = partial(worth_sharing, costs=config.costs)
    cascade = find_cascade(step, step.lengths.tolist(), worth)
    begin, end, low, high, _ = cascade.groups.T
    rows = high - low
    launches = bool((rows > config.small_rows).any())
    saved = int(((rows - 1) * (end - begin)).sum())
    return cascade if saved > (config.costs.launch if launches else 0) else None


def _in_groups(step: AttentionInput, cascade: Cascade) -> NDArray[np.bool_]:
    """Per request: True if the request is below a group."""
    low, high = cascade.groups[:, 2], cascade.groups[:, 3]
    places = step.num_tokens + 1
    depth = np.bincount(low, minlength=places) - np.bincount(high, minlength=places)
    return depth.cumsum()[cascade.first_places] > 0


def _join(tiles: list[QueryTiles]) -> QueryTiles:
    if len(tiles) == 1:
        return tiles[0]
    return QueryTiles(*(np.concatenate(column) for column in zip(*tiles, strict=True)))
