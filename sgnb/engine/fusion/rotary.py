"""Rotary embeddings: cos and sin, or other functions of the position, from a table filled by the
original module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .module_patterns import ROTARY_SUFFIX, ROTARY_TYPES

MAX_POSITIONS = 1 << 18
"""A table has two numbers for each position and dimension: at most 128 MiB with 128 dimensions of
bfloat16."""


class FusedRotary:
    """A lazily created table for each layer type of the rotary module."""

    def __init__(self, forward: Callable[..., Any], positions: int) -> None:
        self._forward, self._positions = forward, positions
        self._tables: dict[tuple[object, ...], Tensor] = {}

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        """Return cos and sin, or a complex tensor (DeepSeek V2).

        Positions with axes that differ (M-RoPE with images) go through the original module.
        """
        kind = () if layer_type is None else (layer_type,)
        key = x.dtype, x.device, layer_type
        if key not in self._tables:
            every = torch.arange(self._positions, device=x.device)
            every = every.expand(*position_ids.shape[:-2], 1, -1)
            table = self._forward(x, every, *kind)
            self._tables[key] = (table if isinstance(table, Tensor) else torch.cat(table, -1))[0]

        if position_ids.dim() == 3:  # [axes, 1, tokens]; an expanded axis has stride 0
            if position_ids.stride(0) and len(position_ids) > 1:
                return self._forward(x, position_ids, *kind)
            position_ids = position_ids[0]
        rows = self._tables[key][position_ids]
        return rows if rows.is_complex() else rows.chunk(2, -1)


def match_rotary(module: nn.Module) -> FusedRotary | None:
    """Return a fused rotary embedding if the frequencies are constant and the table is small
    enough."""
    kinds = getattr(module, "rope_type", None)
    positions = getattr(module, "max_seq_len_cached", 0)
    if not type(module).__name__.endswith(ROTARY_SUFFIX) or not 0 < positions <= MAX_POSITIONS:
        return None
    if not set(kinds.values() if isinstance(kinds, dict) else [kinds]) <= ROTARY_TYPES:
        return None
    return FusedRotary(module.forward, positions)
