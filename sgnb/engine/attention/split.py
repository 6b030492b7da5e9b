"""GPU attention: Triton kernels from the start, FlashInfer kernels for long chunks after
compilation.

Assigns the rows of a step to backends; computes nothing. If FlashInfer is unusable or fails, Triton
serves all rows and `without_flashinfer` contains the reason.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, LayerShape
from ..device.transfer import to_device
from ..step_input import AttentionInput
from .background_compile import BackgroundCompile
from .flashinfer_backend import FlashInferAttention, LayerKind, most_gathered
from .flashinfer_check import verify
from .flashinfer_kernels import refusal
from .protocol import AttentionBackend, LayerOptions

Switched = Callable[[str, str, float], None]
"""Callback with (previous kernels, new kernels, seconds of background compilation)."""


class SplitAttention:
    """Triton attention, with FlashInfer for long chunks after compilation.

    Long chunks are bound by arithmetic, the strength of FlashInfer. Decodes and short chunks are
    bound by KV reads, and Triton reads a shared prefix once. Pure decode steps, including CUDA
    graphs, therefore stay on Triton. The first forward pass determines the kinds of layers; their
    kernels are compiled in the background. `plan` switches backends between two steps.
    """

    def __init__(
        self,
        triton: AttentionBackend,
        refused: str | None = None,
        *,
        on_switch: Switched | None = None,
    ) -> None:
        """refused: reason for not using FlashInfer."""
        self.kv: KVCache = triton.kv
        self.name = triton.name
        self.new_slots: Tensor = triton.new_slots
        self.has_cascade = False
        self.without_flashinfer = refused  # reason why FlashInfer will never serve
        self._triton = triton
        self._on_switch = on_switch
        self._kinds: dict[LayerKind, None] = {}
        self._background: BackgroundCompile | None = None
        self._flashinfer: FlashInferAttention | None = None
        self._split: AttentionInput | None = None  # the step, if FlashInfer serves a part
        self._border = 0  # first row of FlashInfer's part

    @property
    def graph_key(self) -> Hashable:
        return self._triton.graph_key

    @property
    def compiling(self) -> bool:
        """True while FlashInfer's kernels are being compiled, or before the first step starts the
        compilation."""
        return self.without_flashinfer is None and self._flashinfer is None

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        if self.compiling and self._kinds:
            self._compile_in_background()

        self._split = None
        if (
            self._flashinfer is not None
            and padded is None  # a CUDA graph has fixed launches
            and step.num_short < len(step)
            and not any(step.whole)  # FlashInfer's chunks are causal
            and self._flashinfer.serves(long := step.part(step.num_short, len(step)))
        ):
            try:
                self._flashinfer.plan(long)
            except Exception as error:
                self._give_up(error)
            else:
                self._plan_split(step)
                return
        self._triton.plan(step, padded)
        self.new_slots, self.has_cascade = self._triton.new_slots, self._triton.has_cascade

    def _plan_split(self, step: AttentionInput) -> None:
        """Plan Triton's part of a step with long chunks on FlashInfer."""
        short = step.part(0, step.num_short)
        if len(short):
            self._triton.plan(short)
        self.has_cascade = len(short) > 0 and self._triton.has_cascade
        self._split, self._border = step, short.num_tokens
        # Triton stores the KV of both parts.
        self.new_slots = self._triton.new_slots = to_device(step.new_slots, self.kv.device)

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
        """Start the compilation, or switch after the compilation."""
        dtype, device = self.kv.dtype, self.kv.device
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
        """Continue without FlashInfer. Out-of-memory errors propagate to the engine."""
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        self.without_flashinfer = f"{type(error).__name__}: {error}"
        if self._flashinfer is not None:
            self._flashinfer = None
            self._tell(self._triton.name, 0.0)

    def _tell(self, name: str, seconds: float) -> None:
        previous, self.name = self.name, name
        if self._on_switch is not None:
            self._on_switch(previous, name, seconds)


def with_flashinfer(
    triton: AttentionBackend,
    kv: KVCache,
    *,
    batch_invariant: bool = False,
    on_switch: Switched | None = None,
) -> SplitAttention:
    """Return the attention of a GPU for `kv`: Triton, and FlashInfer for long chunks.

    Args:
        triton: Triton attention for `kv`.
        kv: The KV pool.
        batch_invariant: Use Triton only, because FlashInfer splits work depending on the other
            requests.
        on_switch: Called after the switch to FlashInfer.
    """
    dtype = kv.dtype
    shapes = [
        LayerShape(k.shape[1], k.shape[2], kv.values[layer].shape[2])
        for layer, k in kv.keys.items()
    ]
    refused = (
        "FlashInfer is not batch-invariant"
        if batch_invariant
        else refusal(shapes, dtype, kv.device)
    )
    if refused is None and kv.kv_dtype != "auto" and not most_gathered(kv.device):
        refused = "FlashInfer reads no keys with a scale per token on this GPU"
    return SplitAttention(triton, refused, on_switch=on_switch)
