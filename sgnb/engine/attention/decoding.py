"""The plan of a step in which every chunk is one token, and of the steps that follow it. Plain
numpy.

From one step of decodes to the next, the same requests have one token more each. Then the tiles
stay, and each list gets its rows' new slots at its end: a plan made from nothing would read the
same, in another order. Which requests there are, and where they hang in the tree, is compared in
each step; slots are read from the requests in each step, so that it does not matter who changed
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cache.radix import Ints
from ..request.request import Chunk
from .cascade_tiles import CascadeTiles
from .planning import NO_MASKS, join, tree_tiles
from .query_tiles import KVIndices, Longs, QueryTiles, RowMasks, TileConfig, dummy_tiles
from .schedule import Schedule, make_schedule

ROOM = 32
"""At least so many steps follow a first one; then everything is planned anew."""

MOST_ROOM, MOST_TOKENS = 256, 4096
"""And more, up to so many, as long as no more tokens than this come to all rows together."""

CUT_ANEW = 8
"""Bins of several pieces are cut anew every so many steps: until then they grow alike, or nearly
so."""


class Decodes(NamedTuple):
    """The chunks of a step: token starts[i] of the i-th request. By their numbers, as a plan must
    keep no requests.

    nodes: where in the tree they hang; -1 for a request without a node.
    """

    requests: list[int]
    nodes: list[int]
    starts: Longs

    @classmethod
    def of(cls, chunks: list[Chunk]) -> Decodes:
        requests = [chunk[0] for chunk in chunks]
        nodes = [-1 if request.node is None else request.node.id for request in requests]
        starts = [chunk[1] for chunk in chunks]
        return cls([request.id for request in requests], nodes, np.array(starts, np.int64))


class DecodePlan:
    """The plan of a step, which can become that of the next one. fork, rows, scratch: as for
    `planning.plan_rows`.

    work: the tables. slots: all lists. new_slots: int32[chunks], where the tokens' keys and values
    go.
    """

    work: Schedule

    def __init__(
        self,
        chunks: list[Chunk],
        decodes: Decodes,
        config: TileConfig,
        *,
        fork: bool,
        rows: int,
        scratch: int,
    ) -> None:
        count, lists, row_positions = len(chunks), KVIndices(), np.zeros(rows, np.int32)
        room = min(max(ROOM, MOST_TOKENS // count), MOST_ROOM)
        tiles, trees = tree_tiles(
            chunks, list(range(count)), config, lists, row_positions, fork, room
        )
        self._places, self._strides = _next_places(count, tiles, trees)
        self._dummies = rows - count if scratch >= 0 else 0
        if self._dummies:
            tiles.append(dummy_tiles(np.arange(count, rows), scratch, lists))
        self._decodes, self._tiling, self._rows, self._first = decodes, config, rows, join(tiles)
        self._steps, self._room = 0, min(room, _held(chunks))
        self._shared = None if trees is None else _Shared(trees)
        self._alone = lists.arrays if trees is None else lists.arrays[1:]
        self.slots: Ints = np.concatenate(lists.arrays)
        self.new_slots: Ints = self.slots[self._places - 1]
        if trees is not None:
            self.new_slots[trees.growth.rows] = trees.slots[trees.growth.sources - 1]
        self._cut(self._first, NO_MASKS if trees is None else trees.marks, row_positions)

    def precedes(self, decodes: Decodes, rows: int) -> bool:
        """Whether `advance` makes this the plan of a step of these chunks, and so many rows."""
        before = self._decodes
        return (
            self._steps < self._room
            and rows == self._rows
            and decodes.requests == before.requests
            and decodes.nodes == before.nodes
            and bool((decodes.starts - before.starts == 1).all())
        )

    def advance(self, decodes: Decodes) -> bool:
        """Become the plan of the next step, which this one `precedes`. True when the work was cut
        anew.

        Otherwise only slots, marks, positions of rows, and pieces are new, and all tables keep
        their sizes. The positions of marks were there from the beginning.
        """
        self._decodes = decodes
        self._steps += 1
        alone = self.slots
        if self._shared is not None:
            alone = self._shared.advance(self._places, self.slots)
        if self._alone:
            np.concatenate(self._alone, out=alone)
        self.new_slots = self.slots[self._places]
        self._places += self._strides
        positions = self.work.row_positions
        positions[: len(self._places)] += 1
        filled = self._first.filled + self._first.growth * self._steps
        length = filled
        if self._shared is not None:
            align = self._tiling.costs.align
            length = np.where(self._first.first_mark < 0, filled, -(-filled // align) * align)
        if self._steps < self._cut_at:
            self._lengthen(length)
            return False
        lowest = self._first.lowest + self._steps
        lowest[len(lowest) - self._dummies :] = 0
        self._cut(
            self._first._replace(filled=filled, length=length, lowest=lowest),
            self.work.marks,
            positions,
        )
        return True

    def _cut(self, tiles: QueryTiles, marks: RowMasks, row_positions: Ints) -> None:
        self.work, tile_of = make_schedule(tiles, self._tiling, marks, row_positions)
        self._ends, stands = [], MOST_ROOM
        kinds = self.work.small, self.work.large
        for (starts, pieces), tile, dummies in zip(kinds, tile_of, (self._dummies, 0), strict=True):
            if len(pieces):
                last = np.append(tile[1:] != tile[:-1], True).nonzero()[0]
                ended = tile[last]
                begins = pieces[last, 0] - tiles.first_slot[ended]
                self._ends.append(
                    (pieces[:, 1], pieces[: len(pieces) - dummies, 6], last, ended, begins)
                )
                stands = min(
                    stands, _stands(starts, tiles.filled[ended], tiles.growth[ended], self._tiling)
                )
        self._cut_at = self._steps + 1 + stands

    def _lengthen(self, length: Longs) -> None:
        """The last piece of each list reaches to its end, and rows are one position farther."""
        for lengths, lowest, last, ended, begins in self._ends:
            lengths[last] = length[ended] - begins
            lowest += 1


class _Shared:
    """The lists of tiles with marks, as they grow. size: all of them."""

    def __init__(self, trees: CascadeTiles) -> None:
        self.size = len(trees.gather)
        self._trees = trees
        self._sources = trees.growth.sources.copy()

    def advance(self, places: Longs, slots: Ints) -> Ints:
        """Write the lists to the beginning of `slots`, with the rows' next tokens in these places;
        the rest is left.

        places: of all rows.
        """
        trees = self._trees
        here = places[trees.growth.rows]
        trees.gather[here] = self._sources
        trees.marks[0][here] = trees.growth.marks
        self._sources += 1
        np.concatenate(trees.sources, out=trees.slots)
        # No index is out of bounds, so that nothing is clipped: numpy checks them slowly otherwise.
        np.take(trees.slots, trees.gather, out=slots[: self.size], mode="clip")
        return slots[self.size :]


def _next_places(
    count: int, tiles: list[QueryTiles], trees: CascadeTiles | None
) -> tuple[Longs, Longs]:
    """Where in the lists the next token of each row comes, and how far behind it the one after
    that."""
    places, strides = np.zeros(count, np.int64), np.ones(count, np.int64)
    if trees is not None:
        places[trees.growth.rows], strides[trees.growth.rows] = (
            trees.growth.places,
            trees.growth.strides,
        )
    if tiles[-1].first_mark[0] < 0:
        places[tiles[-1].rows] = tiles[-1].first_slot + tiles[-1].length
    return places, strides


def _held(chunks: list[Chunk]) -> int:
    """For how many steps every request can have slots."""
    return min(len(chunk.request.slots) - chunk.end for chunk in chunks)


def _stands(starts: Ints, filled: Longs, growth: Longs, config: TileConfig) -> int:
    """How many steps a cut stands. Where each bin has one piece, the longest decides when the
    device is done: until a piece needs another block."""
    if (starts[1:] - starts[:-1]).max() > 1:
        return CUT_ANEW - 1
    spare = -filled % config.costs.align
    return int(np.where(growth > 0, spare // np.maximum(growth, 1), MOST_ROOM).min())
