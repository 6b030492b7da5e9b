"""FlashInfer attention for long chunks: a plan per kind of layer and step.

Keys and values are read in place as pages of one token, or gathered first; a shared prefix is read
once per request. Knows nothing about CUDA graphs or storing. FlashInfer compiles a kernel for about
a minute at first use, unless `flashinfer_kernels` has compiled the kernel before.
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
from ..step_input import AttentionInput
from .flashinfer_kernels import AttentionKernel, extend_generation
from .protocol import LayerOptions

LEAST_WORKSPACE = 64 << 20

MOST_GATHERED = 4
"""Gather keys and values up to this number of KV tokens per new token. Hopper kernels read
contiguous KV faster: by 2 to 3 % for a whole prompt of 8,192 tokens (`benchmarks.gpu.serving`,
prefill). Short continuations of long prefixes lose more by the copy than the kernels gain."""


def most_gathered(device: torch.device) -> int:
    return MOST_GATHERED if extend_generation(device) == "fa3" else 0


class LayerKind(NamedTuple):
    """Properties of a layer that select a plan: layers with equal properties share a plan."""

    heads: int
    kv_heads: int
    dim: int
    scaling: float
    window: int | None
    softcap: float | None

    @classmethod
    def of(cls, q: Tensor, keys: Tensor, options: LayerOptions) -> LayerKind:
        """Kind of a layer with q [T, heads, dim] and keys [slots, kv heads, dim]."""
        return cls(
            q.shape[1], keys.shape[1], q.shape[2], options.scaling, options.window, options.softcap
        )

    def kernel(self, dtype: torch.dtype, device: torch.device) -> AttentionKernel:
        """Return the kernel to compile for these layers."""
        generation = extend_generation(device)
        return AttentionKernel(
            generation, dtype, self.dim, self.window is not None, self.softcap is not None
        )


class PagedBatch(NamedTuple):
    """A step in FlashInfer's format: int32, `kv_indices` on the device, others pinned."""

    qo_indptr: Tensor  # [requests + 1], the rows of each request
    kv_indptr: Tensor  # [requests + 1], the KV indices of each request
    kv_indices: Tensor  # slots, as pages of one token
    last_page_len: Tensor  # [requests], ones
    gathered: bool  # True if KV is gathered first, except dense KV of layers with a window

    @classmethod
    def of(cls, step: AttentionInput, device: torch.device, gathered: bool) -> PagedBatch:
        slots = np.concatenate(step.kv_indices)
        return cls(
            pinned(step.qo_indptr, device),
            pinned(step.kv_indptr, device),
            pinned(slots.astype(np.int32, copy=False), device).to(device, non_blocking=True),
            pinned(np.ones(len(step), np.int32), device),
            gathered,
        )


class FlashInferAttention:
    """FlashInfer attention for models accepted by `flashinfer_kernels.refusal`. All work runs on
    the current stream."""

    name = "flashinfer"

    def __init__(self, kv: KVCache) -> None:
        self._kv = kv
        self._dtype = kv.dtype
        self._library = importlib.import_module("flashinfer")
        self._generation = extend_generation(kv.device)
        self._workspace = torch.empty(0, dtype=torch.uint8, device=kv.device)
        self._most_gathered = most_gathered(kv.device)
        self._wrappers: dict[tuple[LayerKind, bool], Any] = {}
        self._step: PagedBatch | None = None
        self._copied = torch.cuda.Event() if kv.device.type == "cuda" else None

    def serves(self, step: AttentionInput) -> bool:
        """True if the kernels can read the keys of the step: keys and values in FP8 have scales,
        and are gathered in the dtype of the model."""
        return self._kv.kv_dtype == "auto" or self._gathers_step(step)

    def _gathers_step(self, step: AttentionInput) -> bool:
        return int(step.ends.sum()) <= self._most_gathered * step.num_tokens

    def _gathers(self, kind: LayerKind, step: PagedBatch) -> bool:
        return step.gathered and (kind.window is None or self._kv.kv_dtype != "auto")

    def plan(self, step: AttentionInput) -> None:
        """Prepare `attend` for a step and all known kinds of layers; a new kind is planned on first
        use. Does not wait for the device."""
        if self._copied is not None:
            # FlashInfer stages plans in one pinned buffer per wrapper. The copies of the last step
            # precede the kernels of the last step, so the copies end with the step before. The wait
            # is short.
            self._copied.synchronize()
        self._step = paged = PagedBatch.of(step, self._kv.device, self._gathers_step(step))
        for (kind, gathered), wrapper in self._wrappers.items():
            if gathered == self._gathers(kind, paged):
                self._plan_kind(kind, wrapper, paged)

    def attend(self, layer: int, q: Tensor, options: LayerOptions, out: Tensor) -> None:
        """Write the attention of q [T, heads, dim] to `out`, contiguous and of the same shape."""
        step = self._step
        if step is None:
            raise RuntimeError("attend: nothing was planned")
        keys, values = self._kv.rows(layer)

        kind = LayerKind.of(q, keys.numbers, options)
        wrapper = self._planned(kind, step)
        kv: tuple[Any, ...] = ((keys.numbers[:, None], values.numbers[:, None]),)

        if self._gathers(kind, step):
            kv = keys.read(step.kv_indices), values.read(step.kv_indices)
        if options.sinks is None:
            wrapper.run(q, *kv, out=out)
            return

        # The kernels do not support sinks. A sink has no value and only increases the softmax
        # denominator.
        _, lse = wrapper.run(q, *kv, out=out, return_lse=True)
        natural = lse * math.log(2)
        out.mul_(torch.sigmoid(natural - options.sinks.float())[..., None])

    def _planned(self, kind: LayerKind, step: PagedBatch) -> Any:
        """Return the wrapper for a kind of layers. The first layer of a kind plans the step."""
        key = kind, self._gathers(kind, step)
        if key not in self._wrappers:
            name = f"BatchPrefillWith{'Ragged' if key[1] else 'Paged'}KVCacheWrapper"
            wrapper = getattr(self._library, name)(
                self._float_workspace(kind), "NHD", backend=self._generation
            )
            self._plan_kind(kind, wrapper, step)
            self._wrappers[key] = wrapper
        return self._wrappers[key]

    def _plan_kind(self, kind: LayerKind, wrapper: Any, step: PagedBatch) -> None:
        gathers = self._gathers(kind, step)

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
        """Buffer for partial results of split KV, shared by all wrappers, because wrappers never
        run concurrently.

        Hopper kernels do not split. Other kernels run at most two blocks per multiprocessor, shared
        by the KV heads. Each block has a float32 tile of outputs and log-sum-exps per query head
        (`PrefillPlan` in FlashInfer's attention/scheduler.cuh). The recommended 128 MB are too
        small for a few models.
        """
        size = LEAST_WORKSPACE
        if self._generation == "fa2" and self._kv.device.type == "cuda":
            processors = torch.cuda.get_device_properties(self._kv.device).multi_processor_count
            blocks, tile = max(1, 2 * processors // kind.kv_heads), 128
            size = max(size, kind.heads * blocks * tile * (kind.dim + 1) * 4 + 4096)
        if len(self._workspace) < size:
            self._workspace = torch.zeros(size, dtype=torch.uint8, device=self._kv.device)
        return self._workspace
