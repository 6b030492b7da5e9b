"""A plan on the device: tables and kernel launches of a step for layers of one geometry.

Launches of short chunks have a fixed grid and fixed pointers, so their CUDA graphs can be replayed
after later plans. Knows schedules; knows no layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..cache.radix import Ints
from ..device.precompile import launch
from ..step_input import AttentionInput
from .decode_plans import RESERVE, DecodePlans
from .planning import plan_extend, plan_invariant, plan_short
from .protocol import LayerOptions
from .query_tiles import KVIndices, TileConfig
from .schedule import Schedule, WorkItems
from .staging import StagingBuffers
from .triton_extend import extend_tiles
from .triton_rows import merge_states
from .triton_tiles import attend_tiles
from .tuning import Geometry, Launch, Tuning, power

ROWS = 1024
"""Initial capacity of the staging buffers, in rows."""

CTAS_ON_CPU = 4
"""Number of CTAs of all KV heads on a machine without a GPU."""


class _Kernel(NamedTuple):
    """Launch arguments shared by all layers with equal options."""

    kernel: Any
    grid: tuple[int, ...]
    tables: tuple[Tensor, ...]
    constants: tuple[Any, ...]
    launch_options: dict[str, int]


class _Shape(NamedTuple):
    """Plan properties that select the kernels to launch."""

    # kernel variants from `_masked`: small, large tiles
    masked: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    merges: bool = False  # True if a row has partials
    num_rows: int = 0  # of the schedule
    num_extends: int = 0  # tiles of the prefill kernel


class DevicePlan:
    """The current plan; a new plan replaces the previous plan."""

    def __init__(self, kv: KVCache, geometry: Geometry, tuning: Tuning, *, fork: bool) -> None:
        """fork: read common prefixes once."""
        self._geometry, self._tuning = geometry, tuning
        self._device, self._scratch, self._fork = kv.device, kv.slots, fork
        self._config = config = _tile_config(kv.device, geometry, tuning)
        self._decodes = DecodePlans(config, fork=fork, scratch=kv.slots)

        entries = ROWS + config.small_ctas * config.small_rows
        entries += ROWS + config.large_ctas * config.large_rows
        self._tables = StagingBuffers(
            kv.device,
            {
                "small_indptr": config.small_ctas + 1,
                "large_indptr": config.large_ctas + 1,
                "partials_indptr": ROWS + 1,
                "scatter_map": 2 * entries,
                "row_positions": ROWS,
                "small_items": 8 * (ROWS + config.small_ctas),
                "large_items": 8 * (ROWS + config.large_ctas),
                "extend_items": 5 * ROWS,
                "kv_indices": max(kv.slots, 8 * ROWS) + RESERVE * ROWS,
                "row_masks": 64 * ROWS,
                "kv_positions": 64 * ROWS,
            },
        )

        self._partials_generation = 0
        self._allocate_partials(ROWS)

        self._shape, self._causal = _Shape(), False
        self.has_cascade = False  # the plan reads a shared prefix once for several sequences
        self._blocks = power(geometry.key_dim), power(geometry.value_dim)
        self._launches: dict[Hashable, list[_Kernel]] = {}

    @property
    def graph_key(self) -> Hashable:
        return self._tables.generation, self._partials_generation, *self._shape

    def plan(self, step: AttentionInput, padded: int | None) -> None:
        """Plan short chunks in tiles with shared prefixes, long chunks on the prefill kernel. All
        chunks of a padded step are planned as short."""
        if step.is_decode:
            planned, indices = self._decodes.plan(step, padded or len(step))
            self.has_cascade = self._decodes.has_cascade
            self._put([indices], planned)
            return

        kv_indices, schedule, extends, self.has_cascade = KVIndices(), None, None, False
        num_short = step.num_short if padded is None else len(step)
        short = step if num_short == len(step) else step.part(0, num_short)
        if len(short):
            schedule, self.has_cascade = plan_short(
                short,
                self._config,
                kv_indices,
                fork=self._fork,
                num_rows=padded or short.num_tokens,
                scratch=self._scratch,
            )
        if len(short) < len(step):
            long = step.part(len(short), len(step))
            tile_rows = self._tuning.extend.block_m // self._geometry.groups
            extends = plan_extend(long, short.num_tokens, tile_rows, kv_indices)
        self._put(kv_indices.arrays, schedule, extends)

    def forget_decodes(self) -> None:
        """Force a full plan: the next decode step does not follow the last decode step."""
        self._decodes.forget()

    def plan_invariant(self, step: AttentionInput, first_row: int, padded: int | None) -> None:
        """Plan the rows from `first_row` onward without sharing, for batch-invariant results."""
        self._causal, kv_indices = True, KVIndices()
        schedule = plan_invariant(
            step,
            first_row,
            self._config,
            kv_indices,
            num_rows=padded or first_row + step.num_tokens,
            scratch=self._scratch,
        )
        self._put(kv_indices.arrays, schedule)

    def precompile(self, causal: bool) -> None:
        """Launch kernels for work of every kind, within a `precompiling` block."""
        self._launches.clear()
        self._causal = causal
        self._shape = _Shape(((0, 1, 2), (0, 1, 2)), True, 1, 0 if causal else 1)

    def attend(
        self, q: Tensor, pools: tuple[Tensor, ...], out: Tensor, options: LayerOptions
    ) -> None:
        """pools: keys, values and scales of the layer."""
        scaling, window, softcap, sinks = options
        key = window or 0, float(softcap or 0), sinks is not None
        if key not in self._launches:
            self._launches[key] = self._prepare(*key)
        row, head, _ = q.stride()
        sinks = q if sinks is None else sinks
        for kernel, grid, tables, constants, launch_options in self._launches[key]:
            layer: tuple[Any, ...] = (q, *pools, out, *tables, sinks, row, head, scaling)
            if kernel is merge_states:
                layer = *tables, out, sinks
            launch(kernel, grid, *layer, *constants, **launch_options)

    def _prepare(self, window: int, softcap: float, with_sinks: bool) -> list[_Kernel]:
        """Prepare the launches of layers with these options, valid until the shape changes."""
        kv_heads, groups, _, value_dim = self._geometry
        tables, tuning, config, shape = self._tables, self._tuning, self._config, self._shape
        names = "scatter_map", "kv_indices", "row_masks", "kv_positions", "row_positions"
        options = window, softcap, with_sinks
        partials, kernels = (self._partials, self._lses), list[_Kernel]()

        def add(kernel: Any, ctas: int, used: list[Tensor], how: Launch, *more: Any) -> None:
            sizes = *self._geometry, how.block_m, how.block_n, *self._blocks
            launch_options = {"num_warps": how.warps, "num_stages": how.stages}
            constants = *sizes, *options, *more
            kernels.append(
                _Kernel(kernel, (kv_heads, ctas), tuple(used), constants, launch_options)
            )

        for kind, variants, how, ctas in (
            ("small", shape.masked[0], tuning.small, config.small_ctas),
            ("large", shape.masked[1], tuning.large, config.large_ctas),
        ):
            used = [tables[name] for name in (f"{kind}_indptr", f"{kind}_items", *names)]
            for masked in variants:
                add(attend_tiles, ctas, [*partials, *used], how, masked, self._causal)
        if shape.num_extends:
            used = [tables["extend_items"], tables["kv_indices"]]
            add(extend_tiles, shape.num_extends, used, tuning.extend)
        if shape.merges:
            heads = kv_heads * groups
            used = [*partials, tables["partials_indptr"]]
            constants = heads, value_dim, self._blocks[1], with_sinks
            grid = heads, shape.num_rows
            kernels.append(_Kernel(merge_states, grid, tuple(used), constants, {"num_warps": 1}))
        return kernels

    def _put(
        self, kv_indices: list[Ints], schedule: Schedule | None, extends: Ints | None = None
    ) -> None:
        """Copy the tables to the device and record the launches."""
        tables: dict[str, Sequence[Ints]] = {"kv_indices": kv_indices}
        masked: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        num_rows = num_partials = num_extends = 0

        if schedule is not None:
            small, large, scatter_map, partials_indptr, row_positions, masks, num_partials = (
                schedule
            )
            masked, num_rows = (_masked(small), _masked(large)), len(row_positions)
            tables |= {
                "small_indptr": [small.cta_indptr],
                "large_indptr": [large.cta_indptr],
                "partials_indptr": [partials_indptr],
                "scatter_map": [scatter_map],
                "row_positions": [row_positions],
                "small_items": [small.items],
                "large_items": [large.items],
                "row_masks": [masks.masks],
                "kv_positions": [masks.kv_positions],
            }
        if extends is not None:
            tables["extend_items"], num_extends = [extends], len(extends)

        previous = self.graph_key, self._shape
        self._tables.fill(tables)
        if num_partials > len(self._lses):
            self._partials_generation += 1
            self._allocate_partials(power(num_partials))

        self._shape = _Shape(masked, num_partials > 0, num_rows, num_extends)
        if previous != (self.graph_key, self._shape):
            self._launches.clear()

    def _allocate_partials(self, count: int) -> None:
        kv_heads, groups, _, value_dim = self._geometry
        shape = count, kv_heads * groups, value_dim
        self._partials = torch.empty(shape, dtype=torch.float32, device=self._device)
        self._lses = torch.empty(shape[:2], dtype=torch.float32, device=self._device)


def _tile_config(device: torch.device, geometry: Geometry, tuning: Tuning) -> TileConfig:
    small, large = tuning.small, tuning.large
    sms, on_gpu = 0, device.type == "cuda"
    if on_gpu:
        sms = torch.cuda.get_device_properties(device).multi_processor_count
    small_ctas, large_ctas = (
        max(1, (sms * kind.ctas_per_sm if on_gpu else CTAS_ON_CPU) // geometry.kv_heads)
        for kind in (small, large)
    )
    costs = tuning.costs
    costs = costs._replace(align=max(costs.align, small.block_n, large.block_n))
    small_rows, large_rows = small.block_m // geometry.groups, large.block_m // geometry.groups
    return TileConfig(small_rows, large_rows, small_ctas, large_ctas, costs)


def _masked(work: WorkItems) -> tuple[int, ...]:
    """Kernel variants of the work items: empty without items; 0, 1 or 2 if none, some or all items
    have row masks."""
    masked = work.items[:, 2] >= 0
    return (int(masked.any()) + int(masked.all()),) if len(masked) else ()
