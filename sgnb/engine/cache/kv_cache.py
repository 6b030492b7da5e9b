"""The keys and values themselves: one tensor a layer, one row a slot."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LayerShape(NamedTuple):
    """One layer's KV for one token."""

    heads: int
    key_dim: int  # numbers of a head's key
    value_dim: int  # and of its value


class KVCache:
    """keys[layer]: [slots + 1, heads, key_dim]; values[layer]: the same with value_dim. Layers may
    differ in shape.

    The last slot is scratch: rows that only pad a batch write there.
    """

    def __init__(
        self, shapes: dict[int, LayerShape], slots: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.slots = slots
        self.device = device
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        for layer, shape in shapes.items():
            self.keys[layer] = torch.zeros(
                slots + 1, shape.heads, shape.key_dim, dtype=dtype, device=device
            )
            self.values[layer] = torch.zeros(
                slots + 1, shape.heads, shape.value_dim, dtype=dtype, device=device
            )

    @staticmethod
    def bytes_per_token(shapes: dict[int, LayerShape], dtype: torch.dtype) -> int:
        return sum(s.heads * (s.key_dim + s.value_dim) for s in shapes.values()) * dtype.itemsize
