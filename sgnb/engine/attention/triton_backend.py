"""Attention with Triton kernels for GPUs; forks of a prefix read the prefix once. Needs triton.

`planning.py` plans a step on the host. `device_plan.py` copies the plan to the device and launches
the kernels: `triton_tiles.py` for decodes and other short chunks, `triton_extend.py` for long
chunks, `triton_rows.py` to store and to merge.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..cache.kv_dtype import KVDtype
from ..cache.radix import Ints
from ..device.precompile import launch, precompiling
from ..step_input import AttentionInput
from .device_plan import ROWS, DevicePlan
from .planning import INVARIANT_SPLIT
from .protocol import LayerOptions
from .staging import StagingBuffers
from .triton_rows import store_rows
from .tuning import Geometry, Tuning, geometry_of, power, tuning_of

MAX_PARTIALS = 8192
"""Maximum number of partials per pass of batch-invariant attention."""


class TritonAttention:
    """Triton attention. heads: query heads of each layer.

    Without fork_attention, each request reads a shared prefix separately. batch_invariant: results
    of a token are bitwise equal in every batch and for every cache state of the prefix; slower, and
    without sharing between requests.
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
        self._fork, self._invariant = fork_attention, batch_invariant
        self._new = StagingBuffers(kv.device, {"new_slots": 2 * 16 * ROWS})

        self.new_slots = self._new["new_slots"].view(torch.int64)[:0]
        self._new_slots: dict[tuple[int, int], Tensor] = {}
        self._geometries = {layer: geometry_of(kv, layer, count) for layer, count in heads.items()}
        self._tunings = {
            geometry: tuning or tuning_of(geometry, kv.dtype, kv.kv_dtype)
            for geometry in self._geometries.values()
        }
        self._store_sizes = {layer: _store_sizes(kv, layer) for layer in kv.keys}

        self._plans: dict[tuple[Geometry, bool], list[DevicePlan]] = {}
        self._active: dict[Geometry, list[DevicePlan]] = {}

    @property
    def graph_key(self) -> Hashable:
        keys = [plan.graph_key for plans in self._active.values() for plan in plans]
        return self._new.generation, *keys

    @property
    def has_cascade(self) -> bool:
        return any(plan.has_cascade for plans in self._active.values() for plan in plans)

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        self._fill_new_slots(step.new_slots, padded or step.num_tokens)
        if not step.is_decode:
            for plan in chain.from_iterable(self._plans.values()):
                plan.forget_decodes()
        passes = _passes(step) if self._invariant else [(step, 0)]
        for geometry in self._tunings:
            plans = self._take(geometry, padded is not None, len(passes))
            if not self._invariant:
                plans[0].plan(step, padded)
                continue
            for plan, (part, first_row) in zip(plans, passes, strict=True):
                plan.plan_invariant(part, first_row, padded if plan is plans[-1] else None)

    def precompile(self, rows: int) -> None:
        self._fill_new_slots(np.zeros(0, np.int32), rows)
        for geometry in self._tunings:
            [plan] = self._take(geometry, True, 1)
            plan.precompile(self._invariant)

    def _fill_new_slots(self, new: Ints, rows: int) -> None:
        """Store rows without a request in the scratch slot."""
        slots = np.full(rows, self.kv.slots, np.int64)
        slots[: len(new)] = new
        self._new.fill({"new_slots": [slots.view(np.int32)]})
        where = self._new.generation, rows
        if where not in self._new_slots:
            self._new_slots = {where: self._new["new_slots"].view(torch.int64)[:rows]}
        self.new_slots = self._new_slots[where]

    def _take(self, geometry: Geometry, in_graph: bool, count: int) -> list[DevicePlan]:
        """Plans for `count` passes. Plans of CUDA graphs are separate, so other steps cannot move
        their tables."""
        plans = self._plans.setdefault((geometry, in_graph), [])
        while len(plans) < count:
            tuning = self._tunings[geometry]
            plans.append(DevicePlan(self.kv, geometry, tuning, fork=self._fork))
        self._active[geometry] = plans[:count]
        return self._active[geometry]

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        launch(
            store_rows, (len(k),), k, v, *pools(self.kv, layer), self.new_slots,
            k.stride(0), k.stride(1), v.stride(0), v.stride(1), *self._store_sizes[layer],
            num_warps=4,
        )  # fmt: skip

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        layer_pools = pools(self.kv, layer)
        q = q.to(self.kv.dtype)
        size = *q.shape[:2], layer_pools[1].shape[-1]
        out = torch.empty(size, dtype=q.dtype, device=q.device)
        for plan in self._active[self._geometries[layer]]:
            plan.attend(q, layer_pools, out, options)
        return out


def precompile_layers(
    shapes: dict[int, LayerShape],
    heads: Mapping[int, int],
    options: Mapping[int, LayerOptions],
    dtype: torch.dtype,
    device: torch.device,
    batch_invariant: bool,
    kv_dtype: KVDtype = "auto",
) -> None:
    """Start compiling the decode kernels of `attend` for these layers, without waiting."""
    attention = TritonAttention(
        KVCache(shapes, 1, dtype, device, kv_dtype), heads, batch_invariant=batch_invariant
    )
    with torch.inference_mode(), precompiling(wait=False):
        attention.precompile(1)
        for layer, shape in shapes.items():
            q = torch.empty(1, heads[layer], shape.key_dim, dtype=dtype, device=device)
            attention.attend(layer, q, options[layer])


def pools(kv: KVCache, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values and scales of a layer. Kernels do not read scales of numbers without scales."""
    keys = kv.keys[layer]
    return keys, kv.values[layer], kv.scales.get(layer, keys)


def _store_sizes(kv: KVCache, layer: int) -> tuple[int, ...]:
    """The kernel's sizes: of the layer's keys and values, and the powers of two above them."""
    _, kv_heads, key_dim = kv.keys[layer].shape
    sizes = kv_heads, key_dim, kv.values[layer].shape[-1]
    return *sizes, *map(power, sizes)


def _passes(step: AttentionInput) -> list[tuple[AttentionInput, int]]:
    """Cut the step, between any two tokens, into passes of at most `MAX_PARTIALS` partials. Returns
    each pass with the first row."""
    passes: list[tuple[AttentionInput, int]] = []
    part: list[tuple[int, int, int]] = []  # sequence, start, length
    room, first_row, row = MAX_PARTIALS, 0, 0

    def close() -> None:
        sequences, starts, lengths = np.array(part, np.int64).T.copy()
        one_pass = AttentionInput(
            starts=starts,
            lengths=lengths,
            new_slots=step.new_slots[first_row:row],
            kv_slots=[step.kv_slots[i] for i in sequences.tolist()],
            keys=[step.keys[i] for i in sequences.tolist()],
        )
        passes.append((one_pass, first_row))
        part.clear()

    spans = zip(step.starts.tolist(), step.ends.tolist(), strict=True)
    for sequence, (start, end) in enumerate(spans):
        partials = -(-end // INVARIANT_SPLIT)  # maximum of a row
        while start < end:
            if part and room < partials:
                close()
                room, first_row = MAX_PARTIALS, row
            length = max(1, min(room // partials, end - start))
            part.append((sequence, start, length))
            room -= length * partials
            start, row = start + length, row + length
    close()
    return passes
