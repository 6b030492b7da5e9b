"""QueryTiles for rows below common prefixes: their lists of slots, with marks for which of the rows see
which slot.

Plain numpy: knows chunks and what they share; no device. What a list is made of is kept, so that
the same rows with one token more need no new lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..request.request import Chunk
from .cascade import Cascade, CascadeGroup
from .query_tiles import MASK_BASE, KVIndices, Longs, QueryTiles, RowMasks, TileConfig


class Growth(NamedTuple):
    """Where the next token of a row comes in the list of its tile; one entry for each row that has
    tokens there.

    rows: of the step. places: in the lists of all tiles; the token after it comes `strides` later.
    sources: the place of its slot among the sources; that of the token after it follows. marks: say
    that the row alone sees it.
    """

    rows: Longs
    places: Longs
    strides: Longs
    sources: Longs
    marks: Longs


class CascadeTiles(NamedTuple):
    """The tiles of rows below common prefixes, with their marks.

    detached: chunks whose own tokens are left for tiles of their own. sources: stretches of the
    requests' slots: views, in which later slots of the requests will be seen. slots: those of all
    sources, one after the other. gather: for each place of the lists the place in those.
    """

    tiles: QueryTiles
    marks: RowMasks
    detached: list[int]
    sources: list[Ints]
    slots: Ints
    gather: Longs
    growth: Growth


class _Lists(NamedTuple):
    """first, filled: where each tile's list begins, and how many of its slots some row sees; the
    rest up to the next list is filled up with a slot of its own that no row sees. common: as in
    `QueryTiles`."""

    first: Longs
    filled: Longs
    common: Longs
    gather: Longs
    marks: Ints
    positions: Ints


def joined_tiles(
    chunks: list[Chunk],
    sharing: Cascade,
    joined: list[int],
    order: Longs,
    row_positions: Ints,
    config: TileConfig,
    lists: KVIndices,
    room: int = 0,
) -> CascadeTiles:
    """joined: the chunks in trees. order: the row at each place of the order.

    room: lists have room for so many tokens more of each row; then every chunk is one token.
    """
    starts, begins, segments = sharing
    shared = as_table(segments)
    below = _longs(joined)
    firsts, lengths = _longs([chunks[i][1] for i in joined]), _longs([chunks[i][2] for i in joined])
    places, begun = _longs(starts)[below], _longs(begins)[below]
    several = lengths > 1
    spans = np.concatenate([shared[:, 2:4], np.stack([places, places + lengths], 1)[several]])
    bounds, large, tile_of = _cut_trees(spans, len(order), config)
    kept = several | (firsts + 1 - begun < config.costs.detach) | ~large[tile_of[places]]
    own = np.stack([begun, firsts + 1, places, places + lengths, below], 1)[kept]
    parts = np.concatenate([shared, own, _later_tokens(own)])
    sources = _sources(chunks, parts, len(shared), room)
    sizes = _longs(map(len, sources))
    offsets = sizes.cumsum() - sizes
    growing = tile_of[own[:, 2]]
    growth = np.bincount(growing, minlength=len(bounds))
    align = config.costs.align
    made = _lay_out(parts, offsets, bounds, tile_of, growth * room, align)
    slots = np.concatenate(sources)
    first_slot = made.first + lists.add([slots[made.gather]])[0]
    members = bounds[:, 1] - bounds[:, 0]
    first_row = members.cumsum() - members
    rows = order[_stretches(bounds[:, 0], members)]
    tiles = QueryTiles(
        rows, first_row, members, first_slot, length=-(-made.filled // align) * align, first_mark=made.first,
        common=made.common, position=np.zeros(len(members), np.int64),
        lowest=np.minimum.reduceat(row_positions[rows], first_row), large=large, filled=made.filled, growth=growth,
    )  # fmt: skip
    grows = Growth(
        order[own[:, 2]],
        made.first[growing] + made.filled[growing] + _ranks(growing, growth),
        growth[growing],
        offsets[len(shared) : len(shared) + len(own)] + own[:, 1] - own[:, 0],
        own[:, 2] - bounds[growing, 0] + MASK_BASE,
    )
    tokens = np.arange(room)
    made.positions[grows.places[:, None] + grows.strides[:, None] * tokens] = (
        own[:, 1, None] + tokens
    )
    return CascadeTiles(
        tiles,
        (made.marks, made.positions),
        below[~kept].tolist(),
        sources,
        slots,
        made.gather,
        grows,
    )


def as_table(segments: list[CascadeGroup]) -> Longs:
    """[n, 5], in the order of a segment's fields."""
    return np.fromiter(
        itertools.chain.from_iterable(segments), np.int64, 5 * len(segments)
    ).reshape(-1, 5)


def _sources(chunks: list[Chunk], parts: Longs, shared: int, room: int) -> list[Ints]:
    """The slots of each part. Those after the first `shared` have room, as far as the request has
    slots."""
    held = [chunk[0].slots for chunk in chunks]
    ends = parts[:, 1].copy()
    ends[shared:] += room
    stretches = zip(parts[:, 0].tolist(), ends.tolist(), parts[:, 4].tolist(), strict=True)
    return [held[i][first:end] for first, end, i in stretches]


def _later_tokens(own: Longs) -> Longs:
    """Of chunks of several tokens those after the first: each is a part of its own, seen from its
    row on."""
    counts = own[:, 3] - own[:, 2] - 1
    chunk = np.arange(len(own)).repeat(counts)
    n = np.arange(len(chunk)) - (counts.cumsum() - counts)[chunk]
    position, row = own[chunk, 1] + n, own[chunk, 2] + 1 + n
    return np.stack([position, position + 1, row, own[chunk, 3], own[chunk, 4]], 1)


def _cut_trees(
    spans: Longs, total: int, config: TileConfig
) -> tuple[Longs, NDArray[np.bool_], Longs]:
    """Where tiles begin and end in the order, [tiles, 2], which are large, and the tile of each of
    `total` places.

    spans: [n, 2], where trees and their branches begin and end. A tree's rows are dealt out evenly.
    Places outside of trees get the last tile.
    """
    spans = spans[np.lexsort((-spans[:, 1], spans[:, 0]))]
    reached = np.maximum.accumulate(spans[:, 1])
    tops = spans[np.concatenate([[True], spans[1:, 0] >= reached[:-1]])]
    sizes = tops[:, 1] - tops[:, 0]
    large = sizes > config.small_rows
    counts = -(-sizes // np.where(large, config.large_rows, config.small_rows))
    tree = np.arange(len(tops)).repeat(counts)
    number = np.arange(len(tree)) - (counts.cumsum() - counts)[tree]
    edges = [tops[tree, 0] + sizes[tree] * k // counts[tree] for k in (number, number + 1)]
    tile_of = np.full(total, len(tree) - 1)
    members = edges[1] - edges[0]
    tile_of[_stretches(edges[0], members)] = np.arange(len(tree)).repeat(members)
    return np.stack(edges, 1), large[tree], tile_of


def _lay_out(
    parts: Longs, offsets: Longs, bounds: Longs, tile_of: Longs, spare: Longs, align: int
) -> _Lists:
    """KVIndices of slots for tiles, made of the parts, each copied to every tile that it meets.

    parts: [n, 5], as `CascadeGroup`; offsets: their places in the sources. spare: room of each list;
    lists end at multiples of `align`.
    """
    tiles = np.arange(len(bounds))
    first_tile = tile_of[parts[:, 2]]
    copies = tile_of[parts[:, 3] - 1] - first_tile + 1
    part = np.arange(len(parts)).repeat(copies)
    tile = (first_tile - copies.cumsum() + copies).repeat(copies) + np.arange(len(part))
    length, begin, end = (parts[:, 1] - parts[:, 0])[part], bounds[tile, 0], bounds[tile, 1]
    low, high = np.maximum(parts[part, 2], begin) - begin, np.minimum(parts[part, 3], end) - begin
    filled = np.bincount(tile, weights=length, minlength=len(bounds)).astype(np.int64)
    for_all = np.where(high - low == end - begin, length, 0)
    common = np.bincount(tile, weights=for_all, minlength=len(bounds)).astype(np.int64)
    sizes = -(-(filled + spare) // align) * align
    first = sizes.cumsum() - sizes
    # What fills a list up is one more copy, with an empty mark.
    columns = np.zeros((4, len(part) + len(bounds)), np.int64)
    columns[:, : len(part)] = length, offsets[part], parts[part, 0], low + MASK_BASE * (high - low)
    columns[0, len(part) :] = sizes - filled
    length, source, position, mark = columns[
        :, np.concatenate([tile, tiles]).argsort(kind="stable")
    ]
    where = length.cumsum() - length
    along = np.arange(int(sizes.sum()))
    index = (source - where).repeat(length) + along
    for at, size, used in zip(first.tolist(), sizes.tolist(), filled.tolist(), strict=True):
        index[at + used : at + size] = index[at]
    positions = (position - where).astype(np.int32).repeat(length) + along.astype(np.int32)
    return _Lists(first, filled, common, index, mark.astype(np.int32).repeat(length), positions)


def _stretches(begins: Longs, lengths: Longs) -> Longs:
    """The numbers from each of `begins` on, so many, one stretch after the other."""
    ends = lengths.cumsum()
    return (begins - ends + lengths).repeat(lengths) + np.arange(ends[-1])


def _ranks(groups: Longs, sizes: Longs) -> Longs:
    """The how-manieth of its group each is; sizes: of the groups."""
    by_group = groups.argsort(kind="stable")
    ranks = np.empty(len(groups), np.int64)
    ranks[by_group] = np.arange(len(groups)) - (sizes.cumsum() - sizes)[groups[by_group]]
    return ranks


def _longs(numbers: Iterable[int]) -> Longs:
    return (
        np.array(numbers, np.int64) if isinstance(numbers, list) else np.fromiter(numbers, np.int64)
    )
