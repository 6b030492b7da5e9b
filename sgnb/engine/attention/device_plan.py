"""A step's tables on the device, for layers of one geometry, and the kernels that are launched on
them.

Everything that a step of decodes launches has a fixed grid and fixed pointers, so that CUDA graphs
of it can be replayed after later plans. Knows plans; knows no layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..cache.radix import Ints
from ..device.precompile import launch
from ..request.request import SHORT, Chunk
from . import LayerOptions
from .decoding import ROOM, DecodePlan, Decodes
from .planning import plan_extend, plan_invariant, plan_rows
from .query_tiles import KVIndices, TileConfig
from .schedule import Schedule
from .staging import StagingBuffers
from .triton_extend import extend_tiles
from .triton_rows import merge_states
from .triton_tiles import attend_tiles
from .tuning import Geometry, Launch, Tuning, power

ROWS = 1024
"""The tables have room for a step of so many rows; a larger one makes them grow."""

PROGRAMS_ON_CPU = 4
"""Bins of all KV heads together where there is no GPU."""

CHANGING = ("row_positions", "small_items", "large_items", "slots", "marks")
"""The tables that are new in a step that follows another, though the work is not cut anew."""


class _Kernel(NamedTuple):
    """What of a kernel's arguments is the same for all layers, and how it is launched."""

    kernel: Any
    grid: tuple[int, ...]
    tables: tuple[Tensor, ...]
    constants: tuple[Any, ...]
    how: dict[str, int]


class _Launches(NamedTuple):
    """What each layer of the same options launches. merge: None when no row has parts."""

    tiles: list[_Kernel]
    merge: _Kernel | None


class DevicePlan:
    """One plan at a time; the next takes its place."""

    def __init__(self, kv: KVCache, geometry: Geometry, tuning: Tuning) -> None:
        self._geometry, self._tuning = geometry, tuning
        kv_heads, groups, key_dim, value_dim = geometry
        small, large = tuning.small, tuning.large
        on_gpu = kv.device.type == "cuda"
        sms = torch.cuda.get_device_properties(kv.device).multi_processor_count if on_gpu else 0
        bins = [
            max(1, (sms * kind.per_sm if on_gpu else PROGRAMS_ON_CPU) // kv_heads)
            for kind in (small, large)
        ]
        costs = tuning.costs._replace(align=max(tuning.costs.align, small.block_n, large.block_n))
        self._tiling = TileConfig(
            small.block_m // groups, large.block_m // groups, bins[0], bins[1], costs
        )
        pairs = 2 * ROWS + bins[0] * self._tiling.small_rows + bins[1] * self._tiling.large_rows
        # Those that change in every step are neighbours, so that they are copied together where
        # they are near.
        capacities = {
            "small_ctas": bins[0] + 1,
            "large_ctas": bins[1] + 1,
            "partials_indptr": ROWS + 1,
            "pairs": 2 * pairs,
            "row_positions": ROWS,
            "small_items": 8 * (ROWS + bins[0]),
            "large_items": 8 * (ROWS + bins[1]),
            "slots": max(kv.slots, 8 * ROWS) + ROOM * ROWS,
            "marks": 64 * ROWS,
            "kv_positions": 64 * ROWS,
            "extends": 4 * ROWS,
        }
        self._tables = StagingBuffers(kv.device, capacities)
        self._device = kv.device
        self._parts_generation = 0
        self._allocate_parts(ROWS)
        self._kinds: list[tuple[int, ...]] = [(), ()]  # see `_marked`; of small and large tiles
        self._has_parts = False
        self._extends = self._merged_rows = 0
        self._causal = False
        self._scratch = kv.slots
        self._blocks = power(key_dim), power(value_dim)
        self._decodes: DecodePlan | None = None
        self._launches: dict[Hashable, _Launches] = {}

    @property
    def graph_key(self) -> Hashable:
        return (
            self._tables.generation,
            self._parts_generation,
            *self._kinds,
            self._has_parts,
            self._extends,
        )

    def plan_decodes(
        self, chunks: list[Chunk], decodes: Decodes, padded: int | None, fork: bool
    ) -> Ints:
        """Chunks of one token each. Returns where their keys and values go, int32[chunks]."""
        rows, scratch = (len(chunks), -1) if padded is None else (padded, self._scratch)
        plan, self._decodes = (
            self._decodes,
            None,
        )  # whatever fails from here on, nothing follows a half-made plan
        if plan is not None and plan.precedes(decodes, rows):
            cut_anew = plan.advance(decodes)
            tables = _tables(plan.work, [plan.slots])
            if cut_anew:
                self._describe(plan.work)
            else:
                tables = {name: tables[name] for name in CHANGING}
        else:
            plan = DecodePlan(chunks, decodes, self._tiling, fork=fork, rows=rows, scratch=scratch)
            self._describe(plan.work)
            tables = _tables(plan.work, [plan.slots])
        self._tables.fill(tables)
        self._decodes = plan
        return plan.new_slots

    def plan(
        self, chunks: list[Chunk], first_rows: list[int], padded: int | None, fork: bool
    ) -> None:
        lists, work, tables = KVIndices(), None, dict[str, Sequence[Ints]]()
        short = [i for i, chunk in enumerate(chunks) if chunk.length <= SHORT]
        long = (
            [i for i, chunk in enumerate(chunks) if chunk.length > SHORT]
            if len(short) < len(chunks)
            else []
        )
        self._decodes = None
        if short:
            some, firsts = [chunks[i] for i in short], [first_rows[i] for i in short]
            rows, scratch = self._rows(some, firsts, padded)
            work = plan_rows(
                some, firsts, self._tiling, lists, fork=fork, rows=rows, scratch=scratch
            )
        self._describe(work)
        if long:
            tokens = self._tuning.extend.block_m // self._geometry.groups
            extends = plan_extend(
                [chunks[i] for i in long], [first_rows[i] for i in long], tokens, lists
            )
            tables["extends"], self._extends = [extends], len(extends)
        tables |= {"slots": lists.arrays} if work is None else _tables(work, lists.arrays)
        self._tables.fill(tables)

    def plan_invariant(
        self, chunks: list[Chunk], first_rows: list[int], padded: int | None
    ) -> None:
        lists = KVIndices()
        self._causal = True
        rows, scratch = self._rows(chunks, first_rows, padded)
        work = plan_invariant(chunks, first_rows, self._tiling, lists, rows=rows, scratch=scratch)
        self._describe(work)
        self._tables.fill(_tables(work, lists.arrays))

    def precompile(self, causal: bool) -> None:
        """As after a plan with work of every kind; for a `precompiling` block."""
        self._launches.clear()
        self._decodes, self._causal = None, causal
        self._kinds, self._has_parts, self._merged_rows = [(0, 1, 2)] * 2, True, 1
        self._extends = 0 if causal else 1

    def _rows(
        self, chunks: list[Chunk], first_rows: list[int], padded: int | None
    ) -> tuple[int, int]:
        """How many rows the tables must know of, and the slot that those see which belong to no
        chunk, or -1."""
        return (
            (first_rows[-1] + chunks[-1].length, -1) if padded is None else (padded, self._scratch)
        )

    def attend(
        self, q: Tensor, keys: Tensor, values: Tensor, out: Tensor, options: LayerOptions
    ) -> None:
        scaling, window, softcap, sinks = options
        key = window or 0, float(softcap or 0), sinks is not None
        launches = self._launches.get(key)
        if launches is None:
            launches = self._launches[key] = self._prepare(*key)
        if sinks is None:
            sinks = q
        row, head, _ = q.stride()
        for kernel in launches.tiles:
            launch(
                kernel.kernel, kernel.grid, q, keys, values, out, *kernel.tables, sinks, row, head, scaling,
                *kernel.constants, **kernel.how,
            )  # fmt: skip
        if launches.merge is not None:
            merge = launches.merge
            launch(
                merge.kernel, merge.grid, *merge.tables, out, sinks, *merge.constants, **merge.how
            )

    def _prepare(self, window: int, softcap: float, with_sinks: bool) -> _Launches:
        """All that the layers of such options have in common, until the work is cut anew."""
        kv_heads, groups, _, value_dim = self._geometry
        tables, tuning = self._tables, self._tuning
        names = "pairs", "slots", "marks", "kv_positions", "row_positions"
        tiles = []
        for kind, marked_kinds, way, bins in (
            ("small", self._kinds[0], tuning.small, self._tiling.small_ctas),
            ("large", self._kinds[1], tuning.large, self._tiling.large_ctas),
        ):
            for marked in marked_kinds:
                used = [
                    self._parts,
                    self._lses,
                    *(tables[name] for name in (f"{kind}_bins", f"{kind}_pieces", *names)),
                ]
                sizes = (*self._geometry, way.block_m, way.block_n, *self._blocks)
                options = window, softcap, with_sinks, marked, self._causal
                tiles.append(
                    _Kernel(
                        attend_tiles, (kv_heads, bins), tuple(used), (*sizes, *options), _how(way)
                    )
                )
        if self._extends:
            way = tuning.extend
            sizes = (*self._geometry, way.block_m, way.block_n, *self._blocks)
            tiles.append(
                _Kernel(
                    extend_tiles, (kv_heads, self._extends), (tables["extends"], tables["slots"]),
                    (*sizes, window, softcap, with_sinks), _how(way),
                )
            )  # fmt: skip
        if not self._has_parts:
            return _Launches(tiles, None)
        heads = kv_heads * groups
        merge = _Kernel(
            merge_states, (heads, self._merged_rows), (self._parts, self._lses, tables["partials_indptr"]),
            (heads, value_dim, self._blocks[1], with_sinks), {"num_warps": 1},
        )  # fmt: skip
        return _Launches(tiles, merge)

    def _describe(self, work: Schedule | None) -> None:
        """What must be launched for this work, and nothing else."""
        self._launches.clear()
        self._kinds, self._has_parts, self._extends = [(), ()], False, 0
        if work is None:
            return
        self._kinds = [_marked(table) for _, table in (work.small, work.large)]
        self._has_parts, self._merged_rows = work.num_partials > 0, len(work.partials_indptr) - 1
        if work.num_partials > len(self._lses):
            self._parts_generation += 1
            self._allocate_parts(power(work.num_partials))

    def _allocate_parts(self, count: int) -> None:
        kv_heads, groups, _, value_dim = self._geometry
        self._parts = torch.empty(
            count, kv_heads * groups, value_dim, dtype=torch.float32, device=self._device
        )
        self._lses = torch.empty(count, kv_heads * groups, dtype=torch.float32, device=self._device)


def _tables(work: Schedule, slots: list[Ints]) -> dict[str, Sequence[Ints]]:
    """The tables by the names that they have in a step."""
    return {
        "small_ctas": [work.small[0]],
        "large_ctas": [work.large[0]],
        "partials_indptr": [work.partials_indptr],
        "pairs": [work.pairs],
        "row_positions": [work.row_positions],
        "small_items": [work.small[1]],
        "large_items": [work.large[1]],
        "slots": slots,
        "marks": [work.marks[0]],
        "kv_positions": [work.marks[1]],
    }


def _marked(pieces: Ints) -> tuple[int, ...]:
    """The kernel that the work takes: 0 when no piece has marks, 1 when some have, 2 when all.
    Without work, none."""
    marked = pieces[:, 2] >= 0
    return (int(marked.any()) + int(marked.all()),) if len(pieces) else ()


def _how(way: Launch) -> dict[str, int]:
    return {"num_warps": way.warps, "num_stages": way.stages}
