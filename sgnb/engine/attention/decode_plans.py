"""Incremental plans of consecutive decode steps: the previous plan plus one token per row.

Requests and tree are unchanged between two decode steps and each row reads one more token. The
tiles are reused, and the new KV index of each row goes to a reserved index. The order of KV differs
from a new plan, the set does not. Large trees profit: a tile layout takes milliseconds. Other
modules know only about reserved KV indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cache.radix import Ints
from ..step_input import AttentionInput, Longs, SequenceKey
from .planning import row_positions, short_tiles
from .query_tiles import MASK_BASE, KVIndices, QueryTiles, TileConfig, ranks
from .schedule import Schedule, lengthen, make_schedule

RESERVE, MAX_RESERVE = 32, 256
"""Minimum and maximum number of reserved KV indices per row: decode steps between two full plans.
"""

RESERVED_TOKENS = 4096
"""Reserved KV indices of all rows together, if more than `RESERVE` per row."""

BALANCED = 8
"""Steps per schedule. The last work items grow, so the work is then divided again."""


class _TileGrowth(NamedTuple):
    """Index of the next token of each row, and the growth of each tile."""

    places: Longs  # [rows], positions in the KV indices
    mask_places: Longs  # [rows], positions in the row masks; -1 for rows of tiles without masks
    masks: Longs  # [rows], mask values: only the row sees the token
    strides: Longs  # [rows], distance to the index of the following token
    per_tile: Longs  # [tiles], new tokens per step
    moves: Longs  # [tiles], 1; 0 for padding, because padding rows stay at position 0


class DecodePlans:
    """Cache of the last decode plan. `fork` and `scratch` as for `planning.plan_short`."""

    def __init__(self, config: TileConfig, *, fork: bool, scratch: int) -> None:
        self._config, self._fork, self._scratch = config, fork, scratch
        self._keys: Sequence[SequenceKey] = []
        self._starts: Longs = np.empty(0, np.int64)
        self._num_rows = self._reserved = 0
        self._age = 0  # steps served by the schedule
        self.has_cascade = False  # the plan reads a shared prefix once for several sequences
        self._schedule: Schedule

    def plan(self, step: AttentionInput, num_rows: int) -> tuple[Schedule, Ints]:
        """Plan a decode step. Returns schedule and KV indices; the next plan overwrites both."""
        follows = (
            self._reserved > 0
            and num_rows == self._num_rows
            # Other slots change only on preemption, and a step without the sequence is planned in
            # between.
            and step.keys == self._keys
            and bool((step.starts - self._starts == 1).all())
        )
        self._keys, self._starts = step.keys, step.starts

        if follows:
            self._reserved -= 1
            self._advance(step)
        else:
            self.forget()  # also if planning fails halfway
            self._plan_anew(step, num_rows)

        positions = row_positions(step, 0, num_rows)
        if follows and self._age < BALANCED:
            self._schedule = self._schedule._replace(row_positions=positions)
            lengthen(self._schedule, self._tiles, self._config)
            self._age += 1
        else:
            self._schedule = make_schedule(self._tiles, self._masks, positions, self._config)
            self._age = 1
        return self._schedule, self._kv_indices

    def forget(self) -> None:
        """Force a full plan next: requests computed several tokens since the last plan."""
        self._reserved = 0

    def _plan_anew(self, step: AttentionInput, num_rows: int) -> None:
        count, kv_indices = len(step), KVIndices()
        reserve = min(max(RESERVE, RESERVED_TOKENS // count), MAX_RESERVE)
        self._tiles, self._masks, self.has_cascade = short_tiles(
            step,
            self._config,
            kv_indices,
            fork=self._fork,
            num_rows=num_rows,
            scratch=self._scratch,
            reserve=reserve,
        )

        self._kv_indices: Ints = np.concatenate(kv_indices.arrays)
        self._growth = _find_growth(self._tiles, count)
        self._num_rows, self._reserved = num_rows, reserve

    def _advance(self, step: AttentionInput) -> None:
        places, mask_places, masks, strides, per_tile, moves = self._growth

        self._kv_indices[places] = step.new_slots
        masked = (mask_places >= 0).nonzero()[0]

        if len(masked):
            where = mask_places[masked]
            self._masks.masks[where] = masks[masked]
            self._masks.kv_positions[where] = step.starts[masked]
            mask_places[masked] += strides[masked]

        places += strides
        self._tiles = self._tiles._replace(
            kv_len=self._tiles.kv_len + per_tile,
            min_position=self._tiles.min_position + moves,
        )


def _find_growth(tiles: QueryTiles, count: int) -> _TileGrowth:
    """Growth of the first `count` rows (the others are padding), in the private tile if any, else
    in the shared tile."""
    tile = np.arange(len(tiles.num_rows)).repeat(tiles.num_rows)
    private = tiles.mask_begin[tile] < 0
    has_private = np.zeros(len(tiles.rows), np.bool_)
    has_private[tiles.rows[private]] = True
    grows = (private | ~has_private[tiles.rows]) & (tiles.rows < count)
    entries = grows.nonzero()[0]
    entries = entries[tiles.rows[entries].argsort()]  # one entry per row, in row order

    first_rows = tiles.rows[tiles.num_rows.cumsum() - tiles.num_rows]
    per_tile = np.bincount(tile[grows], minlength=len(tiles.num_rows))
    rank = np.zeros(len(tile), np.int64)
    rank[grows] = ranks(per_tile)
    tile, offset = tile[entries], (tiles.kv_len[tile] + rank)[entries]
    mask_begin = tiles.mask_begin[tile]
    return _TileGrowth(
        places=tiles.kv_begin[tile] + offset,
        mask_places=np.where(mask_begin < 0, -1, mask_begin + offset),
        masks=ranks(tiles.num_rows)[entries] + MASK_BASE,
        strides=per_tile[tile],
        per_tile=per_tile,
        moves=(first_rows < count).astype(np.int64),
    )
