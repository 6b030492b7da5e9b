"""The attention of a GPU: Triton's kernels at once; for what extends FlashInfer's, as soon as they
are compiled.

Decides who serves which rows of a step; computes nothing itself. Where FlashInfer cannot be used,
or fails, Triton's kernels go on serving all and `without_flashinfer` says why.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..device.transfer import to_device
from ..request.batch import Batch
from . import AttentionBackend, LayerOptions
from .background_compile import BackgroundCompile
from .flashinfer_backend import FlashInferAttention, LayerKind
from .flashinfer_check import verify
from .flashinfer_kernels import refusal

Switched = Callable[[str, str, float], None]
"""Told of (the kernels before, those from now on, seconds of compiling in the background)."""


class HybridAttention:
    """`triton` serves until FlashInfer is compiled; from then on FlashInfer takes long chunks.

    Long chunks are bound by arithmetic, for which FlashInfer's kernels are made. Decodes and other
    short chunks are bound by the KV they read, of which Triton's read a shared prefix once. So
    steps that only decode, those of CUDA graphs, are Triton's as before. The first forward pass
    shows which kinds of layers there are; then their kernels are compiled in the background. The
    switch happens in `plan`, between two steps.
    """

    def __init__(
        self,
        triton: AttentionBackend,
        refused: str | None = None,
        *,
        on_switch: Switched | None = None,
    ) -> None:
        """refused: why FlashInfer is not to be used."""
        self.kv: KVCache = triton.kv
        self.name = triton.name
        self.new_slots: Tensor = triton.new_slots
        self.without_flashinfer = refused  # why it does not serve and never will
        self._triton = triton
        self._on_switch = on_switch
        self._kinds: dict[LayerKind, None] = {}
        self._background: BackgroundCompile | None = None
        self._flashinfer: FlashInferAttention | None = None
        self._split: Batch | None = None  # the step, when FlashInfer serves some of it
        self._border = 0  # the row from which it does

    @property
    def graph_key(self) -> Hashable:
        return self._triton.graph_key

    @property
    def compiling(self) -> bool:
        """Whether FlashInfer's kernels are being compiled, or will be after the first step."""
        return self.without_flashinfer is None and self._flashinfer is None

    def plan(self, batch: Batch, padded: int | None = None) -> None:
        if self.compiling and self._kinds:
            self._compile_in_background()
        self._split = None
        if self._flashinfer is not None and batch.num_short < len(batch):
            try:
                self._flashinfer.plan(batch.part(batch.num_short, len(batch)))
            except Exception as error:
                self._give_up(error)
            else:
                self._plan_split(batch)
                return
        self._triton.plan(batch, padded)
        self.new_slots = self._triton.new_slots

    def _plan_split(self, batch: Batch) -> None:
        """Triton's part of a step of which FlashInfer serves the long chunks."""
        short = batch.part(0, batch.num_short)
        if len(short):
            self._triton.plan(short)
            batch.has_cascade = short.has_cascade
        self._split, self._border = batch, short.num_tokens
        # Triton stores for both.
        self.new_slots = self._triton.new_slots = to_device(batch.new_slots(), self.kv.device)

    def precompile(self, rows: int) -> None:
        self._split = None
        self._triton.precompile(rows)
        self.new_slots = self._triton.new_slots

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        self._triton.store(layer, k, v)

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        if self.compiling:
            self._kinds[LayerKind.of(q, self.kv.keys[layer], options)] = None
        split, border = self._split, self._border
        if self._flashinfer is None or split is None:
            return self._triton.attend(layer, q, options)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        try:
            self._flashinfer.attend(layer, q[border:], options, out[border:])
        except Exception as error:
            self._give_up(error)
            self.plan(split)
            return self._triton.attend(layer, q, options)
        if border:
            out[:border] = self._triton.attend(layer, q[:border], options)
        return out

    def _compile_in_background(self) -> None:
        """Start compiling; or when that is over, switch."""
        dtype, device = next(iter(self.kv.keys.values())).dtype, self.kv.device
        if self._background is None:
            kernels = {kind.kernel(dtype, device) for kind in self._kinds}
            self._background = BackgroundCompile(
                [kernel.job() for kernel in sorted(kernels, key=str)]
            ).start()
            weakref.finalize(self, self._background.stop)
        elif self._background.failure is not None:
            self.without_flashinfer = self._background.failure
        elif self._background.done:
            try:
                verify(self._kinds, dtype, device)
                self._flashinfer = FlashInferAttention(self.kv)
            except Exception as error:
                self._give_up(error)
                return
            self._tell(self._flashinfer.name, self._background.seconds)

    def _give_up(self, error: Exception) -> None:
        """Go on without FlashInfer. Want of memory is no reason to: that is for the engine to deal
        with."""
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        self.without_flashinfer = f"{type(error).__name__}: {error}"
        if self._flashinfer is not None:
            self._flashinfer = None
            self._tell(self._triton.name, 0.0)

    def _tell(self, name: str, seconds: float) -> None:
        before, self.name = self.name, name
        if self._on_switch is not None:
            self._on_switch(before, name, seconds)


def make_gpu_attention(
    kv: KVCache,
    heads: Mapping[int, int],
    *,
    fork_attention: bool,
    batch_invariant: bool = False,
    on_switch: Switched | None = None,
) -> HybridAttention:
    """heads: query heads of each layer. batch_invariant: Triton's kernels only, since FlashInfer
    divides a request's work by what else is in the step."""
    from .triton_backend import TritonAttention

    triton = TritonAttention(
        kv, heads, fork_attention=fork_attention, batch_invariant=batch_invariant
    )
    dtype = next(iter(kv.keys.values())).dtype
    shapes = [
        LayerShape(k.shape[1], k.shape[2], kv.values[layer].shape[2])
        for layer, k in kv.keys.items()
    ]
    refused = (
        "FlashInfer is not batch-invariant"
        if batch_invariant
        else refusal(shapes, dtype, kv.device)
    )
    return HybridAttention(triton, refused, on_switch=on_switch)
