"""Plans a step's attention: which tiles of rows, and which program of a device does what. Plain numpy.

The lists of all tiles, one after the other, are cut into *bins* of equal work, one for each program that a device runs
at a time (stream-K, Osama et al., arXiv 2301.03598), so that a tile is cut into *pieces* only where a bin ends. A row
that is in one piece gets its output from there; the *parts* of other rows are merged.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ..radix import Ints
from ..request import Chunk
from .sharing import Sharing, find_sharing
from .tiles import Lists, Longs, Marks, Prices, Tiles, Tiling, dummy_tiles, joined_tiles, single_tiles

INVARIANT_PIECE = 512
"""Where batch-invariant attention cuts: at multiples of so many positions, whatever else is in the step."""

EVEN = 1.1
"""Pieces of one list each are better than bins of equal work as long as the largest is at most so much larger."""

NO_MARKS: Marks = np.empty(0, np.int32), np.empty(0, np.int32)


class Work(NamedTuple):
    """The tables of a step, for the kernels; all int32.

    small, large: (bins [bins + 1], where the pieces of a bin begin; pieces [n, 8]: first slot, length, first mark or
    -1, position of the first slot, first pair, rows, lowest position of a row, how many slots of a list with marks all
    rows see before the first that some do not). pairs [n, 2]: a row of a piece, and its part, or -1 - row when it has
    no other. first_parts [rows + 1]: the parts of a row. marks: [n] and positions [n].
    slots: to be joined; `slot_count` together. part_count: of all rows.
    """

    small: tuple[Ints, Ints]
    large: tuple[Ints, Ints]
    pairs: Ints
    first_parts: Ints
    row_positions: Ints
    marks: Marks
    slots: list[Ints]
    slot_count: int
    part_count: int


def worth_sharing(rows: int, tokens: int, prices: Prices) -> bool:
    """The cost rule: whether `rows` rows read `tokens` tokens of a common prefix together.

    It saves reading them (rows - 1) times. It costs each row its place in a common tile, where matrix products are
    larger than one row needs, and perhaps one more partial result: written, read and merged.
    """
    return (rows - 1) * tokens > rows * prices.row


def plan_rows(
    chunks: list[Chunk],
    first_rows: list[int],
    tiling: Tiling,
    lists: Lists,
    *,
    fork: bool,
    rows: int,
    scratch: int,
) -> Work:
    """Tiles for chunks of one or a few tokens, whose first tokens are rows `first_rows` of `rows`.

    fork: read common prefixes once. The rows after the last chunk's, up to `rows`, belong to none: they see the slot
    `scratch`, if it is not negative.
    """
    row_positions = np.zeros(rows, np.int64)
    tiles, marks = _tree_tiles(chunks, first_rows, tiling, lists, row_positions, fork)
    used = first_rows[-1] + chunks[-1].length
    if scratch >= 0 and rows > used:
        tiles.append(dummy_tiles(np.arange(used, rows), scratch, lists))
    return _finish(_join(tiles), tiling, lists, marks, row_positions)


def plan_invariant(
    chunks: list[Chunk], first_rows: list[int], tiling: Tiling, lists: Lists, *, rows: int, scratch: int
) -> Work:
    """Tiles in which a row's result depends on nothing but what it sees.

    Tokens of one request share a large tile, its list begins at position 0, and it is cut at multiples of
    `INVARIANT_PIECE`: so a token meets the same blocks, in the same order, however many rows are with it.
    """
    row_positions = np.zeros(rows, np.int64)
    tiles = []
    request_slots = lists.add([chunk.request.slots[: chunk.end] for chunk in chunks])
    for chunk, first, slots in zip(chunks, first_rows, request_slots, strict=True):
        row_positions[first : first + chunk.length] = np.arange(chunk.start, chunk.end)
        begins = np.arange(0, chunk.length, tiling.large_rows)
        members = np.minimum(tiling.large_rows, chunk.length - begins)
        n, zero = len(begins), np.zeros(len(begins), np.int64)
        own = np.arange(first, first + chunk.length)
        tiles.append(
            Tiles(own, begins, members, zero + slots, chunk.start + begins + members, zero - 1, zero, zero,
                  chunk.start + begins, np.ones(n, np.bool_))
        )  # fmt: skip
    used = first_rows[-1] + chunks[-1].length
    if scratch >= 0 and rows > used:
        dummies = dummy_tiles(np.arange(used, rows), scratch, lists)
        tiles.append(dummies._replace(large=~dummies.large))
    return _finish(_join(tiles), tiling, lists, NO_MARKS, row_positions, INVARIANT_PIECE)


def plan_extend(chunks: list[Chunk], first_rows: list[int], tokens: int, lists: Lists) -> Ints:
    """int32[n, 4]: first row, tokens, position, first slot of its request, for tiles of up to `tokens` tokens.

    Those that see the most come first, so that the last ones to finish are short.
    """
    tables = []
    request_slots = lists.add([chunk.request.slots[: chunk.end] for chunk in chunks])
    for chunk, first, slots in zip(chunks, first_rows, request_slots, strict=True):
        begins = np.arange(0, chunk.length, tokens)
        members = np.minimum(tokens, chunk.length - begins)
        tables.append(np.stack([first + begins, members, chunk.start + begins, np.full(len(begins), slots)], 1))
    table = np.concatenate(tables)
    return table[np.argsort(-table[:, 2], kind="stable")].astype(np.int32)


def _tree_tiles(
    chunks: list[Chunk], first_rows: list[int], tiling: Tiling, lists: Lists, row_positions: Longs, fork: bool
) -> tuple[list[Tiles], Marks]:
    """The tiles and their marks: rows that share nothing have tiles of their own, the others are joined."""
    lengths = [chunk.length for chunk in chunks]
    total = sum(lengths)
    sharing = _worthwhile(chunks, lengths, tiling) if fork and len(chunks) > 1 else None
    if sharing is None:
        starts = [0, *itertools.accumulate(lengths[:-1])]
        sharing = Sharing(starts, [0] * len(chunks), [])
    order = np.empty(total, np.int64)
    inside = np.zeros(total + 1, np.int64)
    for _, _, low, high, _ in sharing.segments:
        inside[low] += 1
        inside[high] -= 1
    covered = np.cumsum(inside)[sharing.starts] > 0
    if total == len(chunks):
        order[sharing.starts] = first_rows
        row_positions[first_rows] = [chunk.start for chunk in chunks]
    else:
        for chunk, start, first in zip(chunks, sharing.starts, first_rows, strict=True):
            order[start : start + chunk.length] = np.arange(first, first + chunk.length)
            row_positions[first : first + chunk.length] = np.arange(chunk.start, chunk.end)
        covered |= np.array(lengths) > 1
    joined, single = np.flatnonzero(covered).tolist(), np.flatnonzero(~covered).tolist()
    tiles, marks = [], NO_MARKS
    if joined:
        found, marks, detached = joined_tiles(chunks, sharing, joined, order, row_positions, tiling, lists)
        tiles.append(found)
        single += detached
    if single:
        rows, begins = (np.asarray(of, np.int64)[single] for of in (first_rows, sharing.begins))
        tiles.append(single_tiles([chunks[i] for i in single], rows, begins, lists))
    return tiles, marks


def _worthwhile(chunks: list[Chunk], lengths: list[int], tiling: Tiling) -> Sharing | None:
    """What to read once, or None when it saves less in the whole step than launching another kernel costs."""
    sharing = find_sharing(chunks, lengths, lambda rows, tokens: worth_sharing(rows, tokens, tiling.prices))
    saved = sum((high - low - 1) * (end - first) for first, end, low, high, _ in sharing.segments)
    large = any(high - low > tiling.small_rows for _, _, low, high, _ in sharing.segments)
    return sharing if saved > (tiling.prices.kernel if large else 0) else None


def _join(tiles: list[Tiles]) -> Tiles:
    if len(tiles) == 1:
        return tiles[0]
    shift, first_rows = 0, []
    for some in tiles:
        first_rows.append(some.first_row + shift)
        shift += len(some.rows)
    joined = Tiles(*(np.concatenate(column) for column in zip(*tiles, strict=True)))
    return joined._replace(first_row=np.concatenate(first_rows))


def _finish(tiles: Tiles, tiling: Tiling, lists: Lists, marks: Marks, row_positions: Longs, every: int = 0) -> Work:
    """Cut the tiles into pieces and number the parts."""
    kinds, pair_rows, first_pair = [], [], 0
    for kind, bins in ((~tiles.large, tiling.small_bins), (tiles.large, tiling.large_bins)):
        chosen = np.flatnonzero(kind)
        index, begin, end, starts = cut(tiles.length[chosen], bins, tiling.prices, every)
        tile = chosen[index]
        members = tiles.members[tile]
        firsts = np.cumsum(members) - members
        pieces = np.zeros((len(tile), 8), np.int32)
        marked = tiles.first_mark[tile]
        columns = (
            tiles.first_slot[tile] + begin, end - begin, np.where(marked < 0, -1, marked + begin),
            tiles.position[tile] + begin, first_pair + firsts, members, tiles.lowest[tile],
            np.clip(tiles.common[tile] - begin, 0, end - begin),
        )  # fmt: skip
        for column, values in enumerate(columns):
            pieces[:, column] = values
        kinds.append((starts.astype(np.int32), pieces))
        pair_rows.append(tiles.rows[np.repeat(tiles.first_row[tile] - firsts, members) + np.arange(members.sum())])
        first_pair += int(members.sum())
    pairs, first_parts = number_parts(np.concatenate(pair_rows), len(row_positions))
    return Work(
        kinds[0], kinds[1], pairs, first_parts, row_positions.astype(np.int32),
        marks,
        lists.arrays, lists.count, int(first_parts[-1]),
    )  # fmt: skip


def cut(lengths: Longs, bins: int, prices: Prices, every: int = 0) -> tuple[Longs, Longs, Longs, Longs]:
    """Cut lists of these lengths, laid end to end, into bins of equal work.

    When there are more bins than lists, each list is cut evenly instead, so that a bin has one piece, unless that makes
    the largest clearly larger. every: cut each list at multiples of it, and share out the pieces. Returns for each
    piece its list, where in the list it begins and ends; and int64[bins + 1], the pieces at which the bins begin.
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
        costs = np.cumsum(end - begin + prices.piece)
        edges = costs[-1] * np.arange(1, bins) // bins
        inner = np.searchsorted(costs, edges, side="right")
        return index, begin, end, np.concatenate([[0], inner, [len(index)]])
    costs = np.cumsum(lengths + prices.piece)
    least = prices.least // 2 if costs[-1] <= 8 * prices.least else prices.least
    used = int(max(1, min(bins, costs[-1] // least)))
    if len(lengths) <= bins:
        size = _even_size(lengths, bins, least, prices.align)
        if size <= EVEN * (int(costs[-1]) // used):
            counts = -(-lengths // size)
            index = np.repeat(np.arange(len(lengths)), counts)
            each = -(-lengths // (counts * prices.align)) * prices.align
            begin = (np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)) * each[index]
            kept = begin < lengths[index]
            index, begin = index[kept], begin[kept]
            end = np.minimum(begin + each[index], lengths[index])
            return index, begin, end, np.minimum(np.arange(bins + 1), len(index))
    edges = costs[-1] * np.arange(1, used) // used
    index = np.searchsorted(costs, edges, side="right")
    inside = edges - (costs[index] - lengths[index]) + prices.align // 2
    cuts = borders[index] + np.clip(inside // prices.align * prices.align, 0, lengths[index])
    points = np.unique(np.concatenate([borders, cuts]))
    index = np.searchsorted(borders, points[:-1], side="right") - 1
    begin, end = points[:-1] - borders[index], points[1:] - borders[index]
    starts = np.full(bins + 1, len(points) - 1)
    starts[0] = 0
    starts[1:used] = np.searchsorted(points, cuts)
    return index, begin, end, starts


def _even_size(lengths: Longs, bins: int, least: int, align: int) -> int:
    """The largest piece when each list is cut evenly into pieces, as many as there are bins or a little fewer."""
    size = max(least, -(-int(lengths.sum()) // bins))
    while True:
        size = -(-size // align) * align
        if int((-(-lengths // size)).sum()) <= bins:
            return size
        size += max(1, size // 16)


def number_parts(pair_rows: Longs, rows: int) -> tuple[Ints, Ints]:
    """[n, 2]: each pair's row and its part, -1 - row if it is in no other; and where the parts of a row begin."""
    counts = np.bincount(pair_rows, minlength=rows)
    kept = np.where(counts > 1, counts, 0)
    first_parts = np.concatenate([[0], np.cumsum(kept)])
    by_row = np.argsort(pair_rows, kind="stable")
    rank = np.empty(len(pair_rows), np.int64)
    rank[by_row] = np.arange(len(pair_rows)) - (np.cumsum(counts) - counts)[pair_rows[by_row]]
    part = np.where(counts[pair_rows] > 1, first_parts[pair_rows] + rank, -1 - pair_rows)
    return np.stack([pair_rows, part], 1).astype(np.int32), first_parts.astype(np.int32)
