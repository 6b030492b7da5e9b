"""The keys and values themselves: one tensor a layer, one row a slot."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; torch's own on a CPU."""


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
            rows, heads = slots + 1, shape.heads
            self.keys[layer] = zeros((rows, heads, shape.key_dim), dtype, device)
            self.values[layer] = zeros((rows, heads, shape.value_dim), dtype, device)

    @staticmethod
    def bytes_per_token(shapes: dict[int, LayerShape], dtype: torch.dtype) -> int:
        return sum(s.heads * (s.key_dim + s.value_dim) for s in shapes.values()) * dtype.itemsize


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """What no request has written yet is finite, for it is read where it is masked.

    On a CPU it takes memory once it is written: NumPy's zeros come from calloc, torch's are filled.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    buffer = torch.from_numpy(np.zeros(size + ALIGNMENT, np.uint8))
    begin = -buffer.data_ptr() % ALIGNMENT
    return buffer[begin : begin + size].view(dtype).view(shape)
