"""Attention with Triton kernels of our own, for GPUs: forks of a prefix read it once. Needs triton.

`planning.py` plans a step in tiles of rows, `tables.py` brings the plan to the device, `triton_kernels.py` computes.
Everything that a step of decodes launches has a fixed grid and fixed pointers, so that CUDA graphs of it can be
replayed after later plans.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from ..kv import KVCache
from ..radix import Ints
from ..request import SHORT, Chunk
from . import LayerOptions
from .planning import INVARIANT_PIECE, Work, plan_extend, plan_invariant, plan_rows
from .tables import Tables
from .tiles import Lists, Prices, Tiling
from .triton_kernels import attend_tiles, extend_tiles, merge_parts, store_rows

ROWS = 1024
"""The tables have room for a step of so many rows; a larger one makes them grow."""

MOST_PARTS = 8192
"""Batch-invariant attention takes as many rows at a time as have no more parts than this."""

PROGRAMS_ON_CPU = 4
"""Bins of all KV heads together in the interpreter."""


class Launch(NamedTuple):
    """How a kernel runs: the rows of its matrices (query heads times rows), slots a block, warps, stages of the
    pipeline, and programs on a multiprocessor at a time."""

    block_m: int
    block_n: int
    warps: int
    stages: int
    per_sm: int = 1


class Tuning(NamedTuple):
    """The kernels of a model: small and large tiles, and extend."""

    small: Launch
    large: Launch
    extend: Launch
    prices: Prices = Prices()


TUNINGS: dict[tuple[int, int], Tuning] = {
    (2, 64): Tuning(Launch(16, 64, 4, 4, 4), Launch(64, 64, 4, 3, 2), Launch(128, 128, 8, 3)),
    (2, 128): Tuning(Launch(16, 64, 4, 3, 3), Launch(64, 64, 4, 3, 2), Launch(128, 128, 8, 3)),
    (2, 256): Tuning(Launch(16, 32, 4, 3, 3), Launch(64, 32, 4, 2, 2), Launch(128, 32, 8, 2)),
    (4, 64): Tuning(Launch(16, 32, 4, 2, 4), Launch(32, 32, 8, 2, 2), Launch(32, 32, 8, 2)),
    (4, 128): Tuning(Launch(16, 32, 4, 2, 3), Launch(32, 32, 8, 2, 2), Launch(32, 32, 8, 2)),
    (4, 256): Tuning(Launch(16, 16, 4, 2, 2), Launch(32, 16, 8, 2, 1), Launch(32, 16, 8, 2)),
}
"""By bytes of a number and the larger head dimension, rounded up. (2, 128) has the best of 5 to 14 launches of each on
an H200; the others are chosen by the registers and the shared memory that they take."""


class Geometry(NamedTuple):
    """What layers must have in common to run on the same tables."""

    kv_heads: int
    groups: int
    key_dim: int
    value_dim: int


class TritonAttention:
    """heads: query heads of each layer.

    fork_attention off reads a shared prefix once for each request, as servers do. batch_invariant: a token's result is
    bit for bit the same whatever else is in the step, however its prefix was computed or cached; slower, and never
    shared between requests.
    """

    name = "triton"

    def __init__(
        self,
        kv: KVCache,
        heads: Mapping[int, int],
        *,
        fork_attention: bool = True,
        batch_invariant: bool = False,
        tuning: Tuning | None = None,
    ) -> None:
        self.kv = kv
        self._fork, self._invariant, self._tuning = fork_attention, batch_invariant, tuning
        self._new = Tables(kv.device, {"new_slots": 2 * 16 * ROWS})
        self.new_slots = self._new["new_slots"].view(torch.int64)[:0]
        self._geometries = {layer: _geometry(kv, layer, count) for layer, count in heads.items()}
        self._steps: dict[tuple[Geometry, bool], list[_Step]] = {}
        self._active: dict[Geometry, list[_Step]] = {}

    @property
    def graph_key(self) -> Hashable:
        passes = [step.graph_key for steps in self._active.values() for step in steps]
        return self._new.generation, *passes

    def plan(self, chunks: list[Chunk], padded: int | None = None) -> None:
        total = sum(chunk.length for chunk in chunks)
        rows = padded or total
        slots = np.full(rows, self.kv.slots, np.int64)
        if total == len(chunks):
            slots[:total] = [request.slots[start] for request, start, _ in chunks]
        else:
            np.concatenate([chunk.request.slots[chunk.start : chunk.end] for chunk in chunks], out=slots[:total])
        self._new.fill({"new_slots": [slots.view(np.int32)]})
        self.new_slots = self._new["new_slots"].view(torch.int64)[:rows]
        first_rows = np.cumsum([0, *(chunk.length for chunk in chunks[:-1])]).tolist()
        for geometry in set(self._geometries.values()):
            if not self._invariant:
                (step,) = self._take(geometry, padded is not None, 1)
                step.plan(chunks, first_rows, padded, self._fork)
                continue
            passes = _affordable(chunks, first_rows)
            for step, (some, firsts) in zip(self._take(geometry, padded is not None, len(passes)), passes, strict=True):
                step.plan_invariant(some, firsts, padded if step is self._active[geometry][0] else None)

    def _take(self, geometry: Geometry, in_graph: bool, count: int) -> list[_Step]:
        """Tables for so many passes. Those of steps that graphs run are kept apart: what else runs cannot move them."""
        steps = self._steps.setdefault((geometry, in_graph), [])
        tuning = self._tuning or _tuning(geometry, next(iter(self.kv.keys.values())).dtype)
        steps += [_Step(self.kv, geometry, tuning) for _ in range(count - len(steps))]
        self._active[geometry] = steps[:count]
        return steps[:count]

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        _, kv_heads, key_dim = keys.shape
        value_dim = values.shape[-1]
        store_rows[(len(k),)](
            k, v, keys, values, self.new_slots, k.stride(0), k.stride(1), v.stride(0), v.stride(1), kv_heads, key_dim,
            value_dim, _power(kv_heads), _power(key_dim), _power(value_dim), num_warps=4,
        )  # fmt: skip

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        q = q.to(keys.dtype)
        out = torch.empty(q.shape[0], q.shape[1], values.shape[-1], dtype=q.dtype, device=q.device)
        for step in self._active[self._geometries[layer]]:
            step.attend(q, keys, values, out, options)
        return out


class _Step:
    """The tables of a step for layers of one geometry, and their launches."""

    def __init__(self, kv: KVCache, geometry: Geometry, tuning: Tuning) -> None:
        self._geometry, self._tuning = geometry, tuning
        kv_heads, groups, key_dim, value_dim = geometry
        small, large = tuning.small, tuning.large
        on_gpu = kv.device.type == "cuda"
        sms = torch.cuda.get_device_properties(kv.device).multi_processor_count if on_gpu else 0
        bins = [max(1, (sms * kind.per_sm if on_gpu else PROGRAMS_ON_CPU) // kv_heads) for kind in (small, large)]
        prices = tuning.prices._replace(align=max(tuning.prices.align, small.block_n, large.block_n))
        self._tiling = Tiling(small.block_m // groups, large.block_m // groups, bins[0], bins[1], prices)
        pairs = 2 * ROWS + bins[0] * self._tiling.small_rows + bins[1] * self._tiling.large_rows
        capacities = {
            "small_bins": bins[0] + 1,
            "large_bins": bins[1] + 1,
            "first_parts": ROWS + 1,
            "row_positions": ROWS,
            "pairs": 2 * pairs,
            "small_pieces": 8 * (ROWS + bins[0]),
            "large_pieces": 8 * (ROWS + bins[1]),
            "slots": max(kv.slots, 8 * ROWS),
            "marks": 64 * ROWS,
            "mark_positions": 64 * ROWS,
            "extends": 4 * ROWS,
        }
        self._tables = Tables(kv.device, capacities)
        self._device = kv.device
        self._parts_generation = 0
        self._allocate_parts(ROWS)
        self._kinds = [(False, 0), (False, 0)]  # of small and large tiles: are there any; 1: some have marks, 2: all
        self._has_parts = False
        self._extends = self._merged_rows = 0
        self._causal = False
        self._scratch = kv.slots
        self._blocks = _power(key_dim), _power(value_dim)

    @property
    def graph_key(self) -> Hashable:
        return self._tables.generation, self._parts_generation, *self._kinds, self._has_parts, self._extends

    def plan(self, chunks: list[Chunk], first_rows: list[int], padded: int | None, fork: bool) -> None:
        lists, work, tables = Lists(), None, dict[str, Any]()
        short = [i for i, chunk in enumerate(chunks) if chunk.length <= SHORT]
        long = [i for i, chunk in enumerate(chunks) if chunk.length > SHORT] if len(short) < len(chunks) else []
        self._extends = 0
        if short:
            some, firsts = [chunks[i] for i in short], [first_rows[i] for i in short]
            rows, scratch = self._rows(some, firsts, padded)
            work = plan_rows(some, firsts, self._tiling, lists, fork=fork, rows=rows, scratch=scratch)
        if long:
            tokens = self._tuning.extend.block_m // self._geometry.groups
            extends = plan_extend([chunks[i] for i in long], [first_rows[i] for i in long], tokens, lists)
            tables["extends"], self._extends = [extends], len(extends)
        self._fill(work, tables, lists)

    def plan_invariant(self, chunks: list[Chunk], first_rows: list[int], padded: int | None) -> None:
        lists = Lists()
        self._causal = True
        rows, scratch = self._rows(chunks, first_rows, padded)
        work = plan_invariant(chunks, first_rows, self._tiling, lists, rows=rows, scratch=scratch)
        self._fill(work, {}, lists)

    def _rows(self, chunks: list[Chunk], first_rows: list[int], padded: int | None) -> tuple[int, int]:
        """How many rows the tables must know of, and the slot that those see which belong to no chunk, or -1."""
        return (first_rows[-1] + chunks[-1].length, -1) if padded is None else (padded, self._scratch)

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, out: Tensor, options: LayerOptions) -> None:
        kv_heads, groups, key_dim, value_dim = self._geometry
        tables, bins = self._tables, (self._tiling.small_bins, self._tiling.large_bins)
        sinks = q if options.sinks is None else options.sinks
        window, softcap = options.window or 0, float(options.softcap or 0)
        with_sinks = options.sinks is not None
        sizes = kv_heads, groups, key_dim, value_dim
        for (has, marked), kind, launch, count in zip(
            self._kinds, ("small", "large"), (self._tuning.small, self._tuning.large), bins, strict=True
        ):
            if has:
                attend_tiles[(kv_heads, count)](
                    q, keys, values, out, self._parts, self._lses, tables[f"{kind}_bins"], tables[f"{kind}_pieces"],
                    tables["pairs"], tables["slots"], tables["marks"], tables["mark_positions"],
                    tables["row_positions"], sinks, q.stride(0), q.stride(1), options.scaling, *sizes, launch.block_m,
                    launch.block_n, *self._blocks, window, softcap, with_sinks, marked, self._causal,
                    num_warps=launch.warps, num_stages=launch.stages,
                )  # fmt: skip
        if self._has_parts:
            merge_parts[(q.shape[1], self._merged_rows)](
                self._parts, self._lses, tables["first_parts"], out, sinks, q.shape[1], value_dim, self._blocks[1],
                with_sinks, num_warps=1,
            )  # fmt: skip
        if self._extends:
            launch = self._tuning.extend
            extend_tiles[(kv_heads, self._extends)](
                q, keys, values, out, tables["extends"], tables["slots"], sinks, q.stride(0), q.stride(1),
                options.scaling, *sizes, launch.block_m, launch.block_n, *self._blocks, window, softcap, with_sinks,
                num_warps=launch.warps, num_stages=launch.stages,
            )  # fmt: skip

    def _fill(self, work: Work | None, tables: dict[str, Any], lists: Lists) -> None:
        self._kinds, self._has_parts = [(False, 0), (False, 0)], False
        if work is not None:
            tables["small_bins"], tables["small_pieces"] = ([table] for table in work.small)
            tables["large_bins"], tables["large_pieces"] = ([table] for table in work.large)
            tables["pairs"], tables["marks"], tables["mark_positions"] = [work.pairs], [work.marks[0]], [work.marks[1]]
            tables["first_parts"], tables["row_positions"] = [work.first_parts], [work.row_positions]
            self._kinds = [(len(table) > 0, _marked(table)) for _, table in (work.small, work.large)]
            self._has_parts, self._merged_rows = work.part_count > 0, len(work.first_parts) - 1
            if work.part_count > len(self._lses):
                self._parts_generation += 1
                self._allocate_parts(_power(work.part_count))
        tables["slots"] = lists.arrays
        self._tables.fill(tables)

    def _allocate_parts(self, count: int) -> None:
        kv_heads, groups, _, value_dim = self._geometry
        self._parts = torch.empty(count, kv_heads * groups, value_dim, dtype=torch.float32, device=self._device)
        self._lses = torch.empty(count, kv_heads * groups, dtype=torch.float32, device=self._device)


def _geometry(kv: KVCache, layer: int, heads: int) -> Geometry:
    _, kv_heads, key_dim = kv.keys[layer].shape
    if heads % kv_heads:
        raise ValueError(f"heads: {heads} query heads of layer {layer} cannot share its {kv_heads} KV heads evenly")
    return Geometry(kv_heads, heads // kv_heads, key_dim, kv.values[layer].shape[-1])


def _tuning(geometry: Geometry, dtype: torch.dtype) -> Tuning:
    """The table's entry, with tiles large enough for one row's query heads."""
    dim = max(64, _power(max(geometry.key_dim, geometry.value_dim)))
    tuning = TUNINGS[dtype.itemsize, min(dim, 256)]
    least = triton.next_power_of_2(geometry.groups)
    small, large, extend = (kind._replace(block_m=max(kind.block_m, least)) for kind in tuning[:3])
    return Tuning(small, large, extend, tuning.prices)


def _marked(pieces: Ints) -> int:
    """0: no piece has marks, 1: some have, 2: all."""
    marked = pieces[:, 2] >= 0
    return int(marked.any()) + int(marked.any() and marked.all())


def _affordable(chunks: list[Chunk], first_rows: list[int]) -> list[tuple[list[Chunk], list[int]]]:
    """Groups of chunks, and of pieces of chunks, that have few enough parts to be computed at a time."""
    groups: list[tuple[list[Chunk], list[int]]] = [([], [])]
    room = MOST_PARTS
    for chunk, first in zip(chunks, first_rows, strict=True):
        each = -(-chunk.end // INVARIANT_PIECE)
        done = 0
        while done < chunk.length:
            fits = min(room // each, chunk.length - done)
            if not fits and groups[-1][0]:
                groups.append(([], []))
                room = MOST_PARTS
                continue
            fits = max(fits, 1)
            groups[-1][0].append(Chunk(chunk.request, chunk.start + done, fits))
            groups[-1][1].append(first + done)
            room = max(0, room - fits * each)
            done += fits
    return groups


def _power(n: int) -> int:
    """The smallest power of two that is at least n, and what matrix products take at least."""
    return max(16, triton.next_power_of_2(n))
