"""Attention backend of models without KV: all layers are recurrent."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..step_input import AttentionInput
from .protocol import LayerOptions


class NoAttention:
    """Empty backend: no layer calls `attend`."""

    name = "none"
    graph_key: Hashable = None
    has_cascade = False

    def __init__(self, kv: KVCache) -> None:
        self.kv = kv
        self.new_slots = torch.empty(0, dtype=torch.long)

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        pass

    def precompile(self, rows: int) -> None:
        pass

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        raise NotImplementedError(f"layer {layer} has attention, but the model was loaded without")

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        raise NotImplementedError(f"layer {layer} has attention, but the model was loaded without")
