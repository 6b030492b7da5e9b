"""Plans a step's attention: which tiles of rows there are, for `schedule.py` to cut into work. Plain
numpy."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from ..cache.radix import Ints
from ..request.request import Chunk
from .cascade import Cascade, find_cascade
from .cascade_tiles import CascadeTiles, as_table, joined_tiles
from .query_tiles import (
    CostModel,
    KVIndices,
    QueryTiles,
    RowMasks,
    TileConfig,
    dummy_tiles,
    single_tiles,
)
from .schedule import Schedule, make_schedule

INVARIANT_SPLIT = 512
"""Where batch-invariant attention cuts: at multiples of so many positions, whatever else is in the
step."""

NO_MASKS: RowMasks = np.empty(0, np.int32), np.empty(0, np.int32)


def worth_sharing(rows: int, tokens: int, costs: CostModel) -> bool:
    """The cost rule: whether `rows` rows read `tokens` tokens of a common prefix together.

    It saves reading them (rows - 1) times. It costs each row its place in a common tile, where
    matrix products are larger than one row needs, and perhaps one more partial result: written,
    read and merged.
    """
    return (rows - 1) * tokens > rows * costs.row


def plan_rows(
    chunks: list[Chunk],
    first_rows: list[int],
    config: TileConfig,
    lists: KVIndices,
    *,
    fork: bool,
    rows: int,
    scratch: int,
) -> Schedule:
    """QueryTiles for chunks of one or a few tokens, whose first tokens are rows `first_rows` of `rows`.

    fork: read common prefixes once. The rows after the last chunk's, up to `rows`, belong to none:
    they see the slot `scratch`, if it is not negative.
    """
    row_positions = np.zeros(rows, np.int32)
    tiles, trees = tree_tiles(chunks, first_rows, config, lists, row_positions, fork)
    used = first_rows[-1] + chunks[-1].length
    if scratch >= 0 and rows > used:
        tiles.append(dummy_tiles(np.arange(used, rows), scratch, lists))
    return make_schedule(join(tiles), config, trees.marks if trees else NO_MASKS, row_positions)[0]


def plan_invariant(
    chunks: list[Chunk],
    first_rows: list[int],
    config: TileConfig,
    lists: KVIndices,
    *,
    rows: int,
    scratch: int,
) -> Schedule:
    """QueryTiles in which a row's result depends on nothing but what it sees.

    Tokens of one request share a large tile, its list begins at position 0, and it is cut at
    multiples of `INVARIANT_SPLIT`: so a token meets the same blocks, in the same order, however
    many rows are with it.
    """
    row_positions = np.zeros(rows, np.int32)
    tiles = []
    request_slots = lists.add([chunk.request.slots[: chunk.end] for chunk in chunks])
    for chunk, first, slots in zip(chunks, first_rows, request_slots, strict=True):
        row_positions[first : first + chunk.length] = np.arange(chunk.start, chunk.end)
        begins = np.arange(0, chunk.length, config.large_rows)
        members = np.minimum(config.large_rows, chunk.length - begins)
        n, zero = len(begins), np.zeros(len(begins), np.int64)
        own = np.arange(first, first + chunk.length)
        tiles.append(
            QueryTiles(
                own, begins, members, first_slot=zero + slots, length=chunk.start + begins + members,
                first_mark=zero - 1, common=zero, position=zero, lowest=chunk.start + begins,
                large=np.ones(n, np.bool_), filled=chunk.start + begins + members, growth=zero,
            )
        )  # fmt: skip
    used = first_rows[-1] + chunks[-1].length
    if scratch >= 0 and rows > used:
        dummies = dummy_tiles(np.arange(used, rows), scratch, lists)
        tiles.append(dummies._replace(large=~dummies.large))
    return make_schedule(join(tiles), config, NO_MASKS, row_positions, INVARIANT_SPLIT)[0]


def plan_extend(chunks: list[Chunk], first_rows: list[int], tokens: int, lists: KVIndices) -> Ints:
    """int32[n, 4]: first row, tokens, position, first slot of its request, for tiles of up to
    `tokens` tokens.

    Those that see the most come first, so that the last ones to finish are short.
    """
    tables = []
    request_slots = lists.add([chunk.request.slots[: chunk.end] for chunk in chunks])
    for chunk, first, slots in zip(chunks, first_rows, request_slots, strict=True):
        begins = np.arange(0, chunk.length, tokens)
        members = np.minimum(tokens, chunk.length - begins)
        tables.append(
            np.stack(
                [first + begins, members, chunk.start + begins, np.full(len(begins), slots)], 1
            )
        )
    table = np.concatenate(tables)
    return table[np.argsort(-table[:, 2], kind="stable")].astype(np.int32)


def tree_tiles(
    chunks: list[Chunk],
    first_rows: list[int],
    config: TileConfig,
    lists: KVIndices,
    row_positions: Ints,
    fork: bool,
    room: int = 0,
) -> tuple[list[QueryTiles], CascadeTiles | None]:
    """The tiles: rows that share nothing have tiles of their own, those of the others, which come
    first, are joined.

    Fills `row_positions`. room: each list has room for so many tokens more of each row.
    """
    lengths = [chunk[2] for chunk in chunks]
    total = sum(lengths)
    sharing = _worthwhile(chunks, lengths, config) if fork and len(chunks) > 1 else None
    if sharing is None:
        starts = [0, *itertools.accumulate(lengths[:-1])]
        sharing = Cascade(starts, [0] * len(chunks), [])
    order = np.empty(total, np.int64)
    _, _, lows, highs, _ = as_table(sharing.segments).T
    inside = np.bincount(lows, minlength=total + 1) - np.bincount(highs, minlength=total + 1)
    covered = inside.cumsum()[sharing.starts] > 0
    if total == len(chunks):
        order[sharing.starts] = first_rows
        row_positions[first_rows] = [chunk[1] for chunk in chunks]
    else:
        for chunk, start, first in zip(chunks, sharing.starts, first_rows, strict=True):
            order[start : start + chunk.length] = np.arange(first, first + chunk.length)
            row_positions[first : first + chunk.length] = np.arange(chunk.start, chunk.end)
        covered |= np.array(lengths) > 1
    joined, single = np.flatnonzero(covered).tolist(), np.flatnonzero(~covered).tolist()
    tiles, trees = [], None
    if joined:
        trees = joined_tiles(chunks, sharing, joined, order, row_positions, config, lists, room)
        tiles.append(trees.tiles)
        single += trees.detached
    if single:
        rows, begins = (np.array(of, np.int64)[single] for of in (first_rows, sharing.begins))
        tiles.append(single_tiles([chunks[i] for i in single], rows, begins, lists, room))
    return tiles, trees


def _worthwhile(chunks: list[Chunk], lengths: list[int], config: TileConfig) -> Cascade | None:
    """What to read once, or None when it saves less in the whole step than launching another kernel
    costs."""
    sharing = find_cascade(chunks, lengths, partial(worth_sharing, costs=config.costs))
    first, end, low, high, _ = as_table(sharing.segments).T
    large = (high - low > config.small_rows).any()
    return (
        sharing
        if ((high - low - 1) * (end - first)).sum() > (config.costs.kernel if large else 0)
        else None
    )


def join(tiles: list[QueryTiles]) -> QueryTiles:
    """The tiles of several lists of them, in order."""
    if len(tiles) == 1:
        return tiles[0]
    shift, first_rows = 0, []
    for some in tiles:
        first_rows.append(some.first_row + shift)
        shift += len(some.rows)
    joined = QueryTiles(*(np.concatenate(column) for column in zip(*tiles, strict=True)))
    return joined._replace(first_row=np.concatenate(first_rows))
