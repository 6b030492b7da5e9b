"""Attention with Triton kernels of our own, for GPUs: forks of a prefix read it once. Needs triton.

`planning.py` and `decoding.py` plan a step in tiles of rows, `device_plan.py` brings the plan to
the device and launches the kernels: those of `triton_tiles.py` for decodes and other short chunks,
of `triton_extend.py` for long ones, and of `triton_rows.py` for what goes row by row.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..cache.radix import Ints
from ..device.precompile import launch, precompiling
from ..request.request import Chunk
from . import LayerOptions
from .decoding import Decodes
from .device_plan import ROWS, DevicePlan
from .planning import INVARIANT_SPLIT
from .staging import StagingBuffers
from .triton_rows import store_rows
from .tuning import Geometry, Tuning, geometry_of, power, tuning_of

MAX_PARTIALS = 8192
"""Batch-invariant attention takes as many rows at a time as have no more parts than this."""


class TritonAttention:
    """heads: query heads of each layer.

    fork_attention off reads a shared prefix once for each request, as servers do. batch_invariant:
    a token's result is bit for bit the same whatever else is in the step, however its prefix was
    computed or cached; slower, and never shared between requests.
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
            geometry: tuning or tuning_of(geometry, kv.keys[layer].dtype)
            for layer, geometry in self._geometries.items()
        }
        self._store_sizes = {layer: _store_sizes(kv, layer) for layer in kv.keys}
        self._steps: dict[tuple[Geometry, bool], list[DevicePlan]] = {}
        self._active: dict[Geometry, list[DevicePlan]] = {}

    @property
    def graph_key(self) -> Hashable:
        passes = [step.graph_key for steps in self._active.values() for step in steps]
        return self._new.generation, *passes

    def plan(self, chunks: list[Chunk], padded: int | None = None) -> None:
        total = sum([chunk[2] for chunk in chunks])
        if total == len(chunks) and not self._invariant:
            decodes = Decodes.of(chunks)
            for geometry in self._tunings:
                (step,) = self._take(geometry, padded is not None, 1)
                new_slots = step.plan_decodes(chunks, decodes, padded, self._fork)
            self._fill_new_slots(new_slots, padded or total)
            return
        new = [chunk.request.slots[chunk.start : chunk.end] for chunk in chunks]
        self._fill_new_slots(new[0] if len(new) == 1 else np.concatenate(new), padded or total)
        first_rows = np.cumsum([0, *(chunk.length for chunk in chunks[:-1])]).tolist()
        for geometry in self._tunings:
            if not self._invariant:
                (step,) = self._take(geometry, padded is not None, 1)
                step.plan(chunks, first_rows, padded, self._fork)
                continue
            passes = _affordable(chunks, first_rows)
            for step, (some, firsts) in zip(
                self._take(geometry, padded is not None, len(passes)), passes, strict=True
            ):
                step.plan_invariant(
                    some, firsts, padded if step is self._active[geometry][0] else None
                )

    def precompile(self, rows: int) -> None:
        self._fill_new_slots(np.zeros(0, np.int32), rows)
        for geometry in self._tunings:
            (step,) = self._take(geometry, True, 1)
            step.precompile(self._invariant)

    def _fill_new_slots(self, new: Ints, rows: int) -> None:
        """Rows that belong to no request are stored in the scratch slot."""
        slots = np.full(rows, self.kv.slots, np.int64)
        slots[: len(new)] = new
        self._new.fill({"new_slots": [slots.view(np.int32)]})
        where = self._new.generation, rows
        if where not in self._new_slots:
            self._new_slots = {where: self._new["new_slots"].view(torch.int64)[:rows]}
        self.new_slots = self._new_slots[where]

    def _take(self, geometry: Geometry, in_graph: bool, count: int) -> list[DevicePlan]:
        """StagingBuffers for so many passes. Those of steps that graphs run are kept apart: what else runs
        cannot move them."""
        steps = self._steps.setdefault((geometry, in_graph), [])
        while len(steps) < count:
            steps.append(DevicePlan(self.kv, geometry, self._tunings[geometry]))
        self._active[geometry] = steps[:count]
        return self._active[geometry]

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        launch(
            store_rows, (len(k),), k, v, self.kv.keys[layer], self.kv.values[layer], self.new_slots,
            k.stride(0), k.stride(1), v.stride(0), v.stride(1), *self._store_sizes[layer], num_warps=4,
        )  # fmt: skip

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        q = q.to(keys.dtype)
        out = torch.empty(q.shape[0], q.shape[1], values.shape[-1], dtype=q.dtype, device=q.device)
        for step in self._active[self._geometries[layer]]:
            step.attend(q, keys, values, out, options)
        return out


def precompile_layers(
    shapes: dict[int, LayerShape],
    heads: Mapping[int, int],
    options: Mapping[int, LayerOptions],
    dtype: torch.dtype,
    device: torch.device,
    batch_invariant: bool,
) -> None:
    """Begin to compile what `attend` needs in decode steps of such layers, and wait for nothing."""
    attention = TritonAttention(
        KVCache(shapes, 1, dtype, device), heads, batch_invariant=batch_invariant
    )
    with torch.inference_mode(), precompiling(wait=False):
        attention.precompile(1)
        for layer, shape in shapes.items():
            q = torch.empty(1, heads[layer], shape.key_dim, dtype=dtype, device=device)
            attention.attend(layer, q, options[layer])


def _store_sizes(kv: KVCache, layer: int) -> tuple[int, ...]:
    """The kernel's sizes: of the layer's keys and values, and the powers of two above them."""
    _, kv_heads, key_dim = kv.keys[layer].shape
    sizes = kv_heads, key_dim, kv.values[layer].shape[-1]
    return *sizes, *map(power, sizes)


def _affordable(chunks: list[Chunk], first_rows: list[int]) -> list[tuple[list[Chunk], list[int]]]:
    """Groups of chunks, and of pieces of chunks, that have few enough parts to be computed at a
    time."""
    groups: list[tuple[list[Chunk], list[int]]] = [([], [])]
    room = MAX_PARTIALS
    for chunk, first in zip(chunks, first_rows, strict=True):
        each = -(-chunk.end // INVARIANT_SPLIT)
        done = 0
        while done < chunk.length:
            fits = min(room // each, chunk.length - done)
            if not fits and groups[-1][0]:
                groups.append(([], []))
                room = MAX_PARTIALS
                continue
            fits = max(fits, 1)
            groups[-1][0].append(Chunk(chunk.request, chunk.start + done, fits))
            groups[-1][1].append(first + done)
            room = max(0, room - fits * each)
            done += fits
    return groups
