"""Key and value tensors: a pair per layer, a row per slot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .fp8 import FP8, SCALE, dequantize, quantize
from .kv_dtype import KVDtype
from .packed_rows import PackedRows
from .radix import Ints

ALIGNMENT = 64
"""Bytes; torch's own on a CPU."""


class LayerShape(NamedTuple):
    """Shape of the keys and values of a layer, per token."""

    heads: int
    key_dim: int  # per head
    value_dim: int  # per head


Place = tuple[int, int] | Tensor
"""Slots: (first, length) of consecutive slots, or int64[n]."""


class KVRows(NamedTuple):
    """Keys or values of one layer, read and written in the dtype of the model."""

    numbers: Tensor  # [slots + 1, heads, dim]
    scales: Tensor | None  # [slots + 1, heads]; None if the numbers need no scales
    dtype: torch.dtype

    def read(self, place: Place) -> Tensor:
        """Return the rows of slots, [n, heads, dim]; a view if the slots are consecutive and the
        numbers have no scales."""
        if self.scales is None:
            return _select(self.numbers, place)
        numbers = _select(self.numbers.view(torch.uint8), place).view(FP8)
        return dequantize(numbers, _select(self.scales, place), self.dtype)

    def write(self, place: Place, new: Tensor) -> None:
        """Write the rows of slots."""
        if self.scales is None:
            _write(self.numbers, place, new)
            return
        numbers, scales = quantize(new)
        _write(self.numbers.view(torch.uint8), place, numbers.view(torch.uint8))
        _write(self.scales, place, scales)


class KVCache:
    """Keys and values of all layers. Shapes may differ between layers.

    The last row is scratch: padding rows of a batch write there.

    Attributes:
        keys: Layer -> [slots + 1, heads, key_dim].
        values: Layer -> [slots + 1, heads, value_dim].
        scales: Layer -> [slots + 1, 2, heads], of keys and of values; empty without scales.
        dtype: Dtype of the model's keys and values.
        kv_dtype: Storage format.
        unit_bytes: Bytes of a slot, all layers together.
    """

    def __init__(
        self,
        shapes: dict[int, LayerShape],
        slots: int,
        dtype: torch.dtype,
        device: torch.device,
        kv_dtype: KVDtype = "auto",
    ) -> None:
        self.slots, self.shapes = slots, shapes
        self.device, self.dtype, self.kv_dtype = device, dtype, kv_dtype
        self.unit_bytes = self.bytes_per_token(shapes, dtype, kv_dtype)
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.scales: dict[int, Tensor] = {}
        stored = FP8 if kv_dtype == "fp8" else dtype
        for layer, shape in shapes.items():
            rows, heads = slots + 1, shape.heads
            self.keys[layer] = zeros((rows, heads, shape.key_dim), stored, device)
            self.values[layer] = zeros((rows, heads, shape.value_dim), stored, device)
            if kv_dtype == "fp8":
                self.scales[layer] = zeros((rows, 2, heads), SCALE, device)

        tensors = [*self.keys.values(), *self.values.values(), *self.scales.values()]
        self._packed = PackedRows(tensors)

    @staticmethod
    def bytes_per_token(
        shapes: dict[int, LayerShape], dtype: torch.dtype, kv_dtype: KVDtype = "auto"
    ) -> int:
        """Return the bytes per token, summed over all layers."""
        numbers = sum(s.heads * (s.key_dim + s.value_dim) for s in shapes.values())
        if kv_dtype == "auto":
            return numbers * dtype.itemsize
        scales = sum(2 * s.heads for s in shapes.values())
        return numbers * FP8.itemsize + scales * SCALE.itemsize

    @property
    def facts(self) -> list[object]:
        """Format of keys and values, for the fingerprint of stored copies."""
        return [self.shapes, self.dtype] + ([] if self.kv_dtype == "auto" else [self.kv_dtype])

    @property
    def columns(self) -> list[tuple[int, torch.dtype]]:
        """Bytes and dtypes of the parts of a slot, as written by `copy`."""
        numbers = [*self.keys.values(), *self.values.values()]
        sizes = [sum(x[0].nbytes for x in part) for part in (numbers, self.scales.values())]
        stored = FP8 if self.scales else self.dtype
        return list(zip(sizes, (stored, SCALE), strict=True))

    def rows(self, layer: int) -> tuple[KVRows, KVRows]:
        """Return the keys and the values of a layer."""
        scales = self.scales.get(layer)
        of_keys, of_values = (None, None) if scales is None else scales.unbind(1)
        return (
            KVRows(self.keys[layer], of_keys, self.dtype),
            KVRows(self.values[layer], of_values, self.dtype),
        )

    def copy(self, ids: Ints, destination: Tensor) -> None:
        """Copy slots to `destination`, uint8[len(ids), unit_bytes]: all keys, all values, all
        scales."""
        self._packed.copy(ids, destination)

    def take(self, ids: Ints) -> Callable[[Tensor], None]:
        """See `PackedRows.take`."""
        return self._packed.take(ids)

    def restore(self, ids: Ints, source: Tensor) -> None:
        """Write the content of slots, uint8[len(ids), unit_bytes] as written by `copy`."""
        self._packed.restore(ids, source)


def _select(pool: Tensor, place: Place) -> Tensor:
    if isinstance(place, tuple):
        return pool.narrow(0, *place)
    return pool.index_select(0, place)


def _write(pool: Tensor, place: Place, new: Tensor) -> None:
    if isinstance(place, tuple):
        pool.narrow(0, *place).copy_(new)
    else:
        pool.index_copy_(0, place, new)


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros: masked rows are read before the first write and must be finite.

    On a CPU the memory is taken at the first write: NumPy's zeros come from calloc, torch's are
    filled.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    buffer = torch.from_numpy(np.zeros(size + ALIGNMENT, np.uint8))
    begin = -buffer.data_ptr() % ALIGNMENT
    return buffer[begin : begin + size].view(dtype).view(shape)
