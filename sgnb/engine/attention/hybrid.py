"""The attention of a GPU: Triton's kernels at once; for what extends FlashInfer's, as soon as they
are compiled.

Decides who serves which rows of a step; computes nothing itself. Where FlashInfer cannot be used,
or fails, Triton's kernels go on serving all and `without_flashinfer` says why.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..device.transfer import to_device
from ..request.request import SHORT, Chunk
from . import AttentionBackend, LayerOptions
from .background_compile import BackgroundCompile
from .flashinfer_backend import FlashInferAttention, LayerKind
from .flashinfer_check import verify
from .flashinfer_kernels import refusal

Switched = Callable[[str, str, float], None]
"""Told of (the kernels before, those from now on, seconds of compiling in the background)."""


class HybridAttention:
    """`tree` serves until FlashInfer is warm; from then on FlashInfer takes the chunks longer than
    `short`.

    Long chunks are bound by arithmetic, for which FlashInfer's kernels are made. Decodes and other
    short chunks are bound by the KV they read, of which the tree reads a shared prefix once. So
    steps that only decode, those of CUDA graphs, are the tree's as before. The first forward pass
    shows which kinds of layers there are; then their kernels are compiled in the background. The
    switch happens in `plan`, between two steps.

    Chunks up to `short` come before longer ones; those that do not are FlashInfer's too.
    without_flashinfer: why it does not serve and never will.
    """

    def __init__(
        self,
        tree: AttentionBackend,
        refused: str | None = None,
        *,
        short: int,
        on_switch: Switched | None = None,
    ) -> None:
        """short: tokens. refused: why FlashInfer is not to be used."""
        self.kv: KVCache = tree.kv
        self.name = tree.name
        self.new_slots: Tensor = tree.new_slots
        self.without_flashinfer: str | None = refused
        self._tree = tree
        self._short = short
        self._on_switch = on_switch
        self._kinds: dict[LayerKind, None] = {}
        self._background: BackgroundCompile | None = None
        self._flashinfer: FlashInferAttention | None = None
        self._step: tuple[list[Chunk], int | None] = [], None
        self._border: int | None = None  # the row from which FlashInfer serves the step

    @property
    def graph_key(self) -> Hashable:
        return self._tree.graph_key

    @property
    def compiling(self) -> bool:
        """Whether FlashInfer's kernels are being compiled, or will be after the first step."""
        return self.without_flashinfer is None and self._flashinfer is None

    def plan(self, chunks: list[Chunk], padded: int | None = None) -> None:
        if self.compiling and self._kinds:
            self._compile_in_background()
        self._step, self._border = (chunks, padded), None
        split = next(
            (i for i, chunk in enumerate(chunks) if chunk.length > self._short), len(chunks)
        )
        if self._flashinfer is not None and split < len(chunks):
            try:
                self._flashinfer.plan(chunks[split:])
            except Exception as error:
                self._give_up(error)
            else:
                self._plan_apart(chunks, split)
                return
        self._plan_tree()

    def _plan_apart(self, chunks: list[Chunk], split: int) -> None:
        """The tree's part of a step, of which FlashInfer serves the chunks from `split` on."""
        if split:
            self._tree.plan(chunks[:split])
        self._border = sum(chunk.length for chunk in chunks[:split])
        new = to_device(
            np.concatenate([c.request.slots[c.start : c.end] for c in chunks]), self.kv.device
        )
        self.new_slots = self._tree.new_slots = new  # the tree stores for both

    def _plan_tree(self) -> None:
        self._tree.plan(*self._step)
        self.new_slots = self._tree.new_slots

    def precompile(self, rows: int) -> None:
        self._border = None
        self._tree.precompile(rows)
        self.new_slots = self._tree.new_slots

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        self._tree.store(layer, k, v)

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        if self.compiling:
            self._kinds[LayerKind.of(q, self.kv.keys[layer], options)] = None
        border = self._border
        if self._flashinfer is None or border is None:
            return self._tree.attend(layer, q, options)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        try:
            self._flashinfer.attend(layer, q[border:], options, out[border:])
        except Exception as error:
            self._give_up(error)
            self._plan_tree()
            return self._tree.attend(layer, q, options)
        if border:
            out[:border] = self._tree.attend(layer, q[:border], options)
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
            self._tell(self._tree.name, 0.0)

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

    tree = TritonAttention(
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
    return HybridAttention(tree, refused, short=SHORT, on_switch=on_switch)
