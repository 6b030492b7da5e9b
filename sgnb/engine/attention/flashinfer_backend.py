"""FlashInfer's attention for what extends: a plan for each kind of layer once a step.

Keys and values are read where they lie, as pages of one token, or are brought together before: a
prefix that requests share is read once for each. Knows nothing of CUDA graphs, nor of storing.
FlashInfer compiles a kernel at its first use, for about a minute, unless `flashinfer_kernels` has
built it.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..device.transfer import pinned
from ..request.batch import Batch
from . import LayerOptions
from .flashinfer_kernels import AttentionKernel, extend_generation

LEAST_WORKSPACE = 64 << 20

MOST_GATHERED = 4
"""Keys and values are brought together where there are at most this many for a new token. Hopper's
kernels read what lies together by other and faster means: a prompt of 8,192 tokens, all in all, by
2 to 3 % (`benchmarks.gpu.serving`, prefill). More is copied than is gained where short
continuations follow long prefixes."""


def most_gathered(device: torch.device) -> int:
    return MOST_GATHERED if extend_generation(device) == "fa3" else 0


class LayerKind(NamedTuple):
    """Layers that agree in this share a plan."""

    heads: int
    kv_heads: int
    dim: int
    scaling: float
    window: int | None
    softcap: float | None

    @classmethod
    def of(cls, q: Tensor, keys: Tensor, options: LayerOptions) -> LayerKind:
        """q [T, heads, dim] against keys [slots, kv heads, dim]."""
        return cls(
            q.shape[1], keys.shape[1], q.shape[2], options.scaling, options.window, options.softcap
        )

    def kernel(self, dtype: torch.dtype, device: torch.device) -> AttentionKernel:
        """What must be compiled for such layers."""
        generation = extend_generation(device)
        return AttentionKernel(
            generation, dtype, self.dim, self.window is not None, self.softcap is not None
        )


class PagedBatch(NamedTuple):
    """A step as FlashInfer takes it. All int32: kv_indices on the device, the others pinned."""

    qo_indptr: Tensor  # [requests + 1], the rows of each request
    kv_indptr: Tensor  # [requests + 1], its KV indices
    kv_indices: Tensor  # slots, as pages of one token
    last_page_len: Tensor  # [requests], ones
    gathered: bool  # whether KV is copied together first, except for layers with a window

    @classmethod
    def of(cls, batch: Batch, device: torch.device, most: int) -> PagedBatch:
        """most: KV tokens for a new token, at most, that are gathered."""
        spans = zip(batch.requests, batch.ends.tolist(), strict=True)
        slots = np.concatenate([request.slots[:end] for request, end in spans])
        zero = np.zeros(1, np.int32)
        qo_indptr = np.concatenate([zero, batch.lengths.cumsum()]).astype(np.int32)
        kv_indptr = np.concatenate([zero, batch.ends.cumsum()]).astype(np.int32)
        return cls(
            pinned(qo_indptr, device),
            pinned(kv_indptr, device),
            pinned(slots.astype(np.int32, copy=False), device).to(device, non_blocking=True),
            pinned(np.ones(len(batch), np.int32), device),
            gathered=len(slots) <= most * batch.num_tokens,
        )


class FlashInferAttention:
    """Serves where `flashinfer_kernels.refusal` has nothing against it. All work is on the current
    stream."""

    name = "flashinfer"

    def __init__(self, kv: KVCache) -> None:
        self._kv = kv
        self._dtype = next(iter(kv.keys.values())).dtype
        self._library = importlib.import_module("flashinfer")
        self._generation = extend_generation(kv.device)
        self._workspace = torch.empty(0, dtype=torch.uint8, device=kv.device)
        self._most_gathered = most_gathered(kv.device)
        self._wrappers: dict[tuple[LayerKind, bool], Any] = {}
        self._step: PagedBatch | None = None
        self._copied = torch.cuda.Event() if kv.device.type == "cuda" else None

    def plan(self, batch: Batch) -> None:
        """Prepare `attend` for a step, for every kind of layer met so far; a new one is planned
        when it is met. Does not wait for the device."""
        if self._copied is not None:
            # FlashInfer stages its plans in one pinned buffer a wrapper. The last step's copies
            # from it come before that step's kernels, so that they are over when the step before it
            # is: there is next to nothing to wait.
            self._copied.synchronize()
        self._step = step = PagedBatch.of(batch, self._kv.device, self._most_gathered)
        for (kind, gathered), wrapper in self._wrappers.items():
            if gathered == _gathers(kind, step):
                self._plan_kind(kind, wrapper, step)

    def attend(self, layer: int, q: Tensor, options: LayerOptions, out: Tensor) -> None:
        """Write the attention of q [T, heads, dim] to `out`, of the same shape and contiguous."""
        step = self._step
        if step is None:
            raise RuntimeError("attend: nothing was planned")
        keys, values = self._kv.keys[layer], self._kv.values[layer]
        kind = LayerKind.of(q, keys, options)
        wrapper = self._planned(kind, step)
        kv: tuple[Any, ...] = ((keys[:, None], values[:, None]),)
        if _gathers(kind, step):
            kv = keys.index_select(0, step.kv_indices), values.index_select(0, step.kv_indices)
        if options.sinks is None:
            wrapper.run(q, *kv, out=out)
            return
        # The kernels know no sinks. A score without a value only makes the sum of the weights
        # larger.
        _, lse = wrapper.run(q, *kv, out=out, return_lse=True)
        natural = lse * math.log(2)
        out.mul_(torch.sigmoid(natural - options.sinks.float())[..., None])

    def _planned(self, kind: LayerKind, step: PagedBatch) -> Any:
        """The wrapper for such layers in the step, for which `plan` had none if there were none
        before."""
        key = kind, _gathers(kind, step)
        if key not in self._wrappers:
            name = f"BatchPrefillWith{'Ragged' if key[1] else 'Paged'}KVCacheWrapper"
            wrapper = getattr(self._library, name)(
                self._float_workspace(kind), "NHD", backend=self._generation
            )
            self._plan_kind(kind, wrapper, step)
            self._wrappers[key] = wrapper
        return self._wrappers[key]

    def _plan_kind(self, kind: LayerKind, wrapper: Any, step: PagedBatch) -> None:
        gathers = _gathers(kind, step)
        pages = () if gathers else (step.kv_indices, step.last_page_len)
        page_size = () if gathers else (1,)
        wrapper.plan(
            step.qo_indptr,
            step.kv_indptr,
            *pages,
            kind.heads,
            kind.kv_heads,
            kind.dim,
            *page_size,
            causal=True,
            window_left=-1 if kind.window is None else kind.window - 1,
            logits_soft_cap=kind.softcap,
            sm_scale=kind.scaling,
            q_data_type=self._dtype,
            kv_data_type=self._dtype,
        )
        if self._copied is not None:
            self._copied.record()

    def _float_workspace(self, kind: LayerKind) -> Tensor:
        """Partial results of split KV: one buffer for all wrappers, which never run at once.

        Hopper's kernels do not split. The others have at most two blocks on each multiprocessor,
        shared by the KV heads, each with a float32 tile of outputs and their log-sum-exps for every
        query head (`PrefillPlan` in FlashInfer's attention/scheduler.cuh). The recommended 128 MB
        are too little for a few models.
        """
        size = LEAST_WORKSPACE
        if self._generation == "fa2" and self._kv.device.type == "cuda":
            processors = torch.cuda.get_device_properties(self._kv.device).multi_processor_count
            blocks, tile = max(1, 2 * processors // kind.kv_heads), 128
            size = max(size, kind.heads * blocks * tile * (kind.dim + 1) * 4 + 4096)
        if len(self._workspace) < size:
            self._workspace = torch.zeros(size, dtype=torch.uint8, device=self._kv.device)
        return self._workspace


def _gathers(kind: LayerKind, step: PagedBatch) -> bool:
    return step.gathered and kind.window is None
