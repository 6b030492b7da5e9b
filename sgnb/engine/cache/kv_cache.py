"""Tensors of keys and values: one pair per layer, one row per slot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .radix import Ints

ALIGNMENT = 64
"""Bytes; torch's own on a CPU."""


class LayerShape(NamedTuple):
    """Shape of one layer's keys and values for one token."""

    heads: int
    key_dim: int  # per head
    value_dim: int  # per head


class KVCache:
    """Keys and values of all layers. Shapes may differ between layers.

    The last row is scratch: padding rows of a batch write there.

    Attributes:
        keys: Layer -> [slots + 1, heads, key_dim].
        values: Layer -> [slots + 1, heads, value_dim].
        unit_bytes: Bytes of a slot, all layers together.
    """

    def __init__(
        self, shapes: dict[int, LayerShape], slots: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.slots, self.shapes = slots, shapes
        self.device = device
        self.unit_bytes = self.bytes_per_token(shapes, dtype)
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        for layer, shape in shapes.items():
            rows, heads = slots + 1, shape.heads
            self.keys[layer] = zeros((rows, heads, shape.key_dim), dtype, device)
            self.values[layer] = zeros((rows, heads, shape.value_dim), dtype, device)

    @staticmethod
    def bytes_per_token(shapes: dict[int, LayerShape], dtype: torch.dtype) -> int:
        """Return the bytes of one token, all layers together."""
        return sum(s.heads * (s.key_dim + s.value_dim) for s in shapes.values()) * dtype.itemsize

    def copy(self, ids: Ints, destination: Tensor) -> None:
        """Copy slots to `destination`, uint8[len(ids), unit_bytes]: all keys, then all values."""
        copy_rows(self._tensors(), ids, destination)

    def restore(self, ids: Ints, source: Tensor) -> None:
        """Write the content of slots, uint8[len(ids), unit_bytes] as written by `copy`."""
        restore_rows(self._tensors(), ids, source)

    def _tensors(self) -> list[Tensor]:
        return [*self.keys.values(), *self.values.values()]


def copy_rows(tensors: Iterable[Tensor], ids: Ints, destination: Tensor) -> None:
    """Copy the rows `ids` of each tensor to consecutive columns of `destination`, uint8[len(ids),
    bytes of the rows]."""
    tensors, begin, rows = list(tensors), 0, _on_device(ids, destination)
    if _kernel_takes(tensors, destination):
        from .row_kernel import move_rows

        move_rows(tensors, rows, destination, restore=False)
        return
    for tensor in tensors:
        selected = tensor.index_select(0, rows).flatten(1)
        size = selected.shape[1] * selected.element_size()
        columns = destination[:, begin : begin + size]
        if _fits(columns, tensor.dtype):
            columns.view(tensor.dtype).copy_(selected)
        else:
            columns.copy_(selected.view(torch.uint8))
        begin += size


def restore_rows(tensors: Iterable[Tensor], ids: Ints, source: Tensor) -> None:
    """Undo `copy_rows`: write consecutive columns of `source` to the rows `ids` of each tensor."""
    tensors, begin, rows = list(tensors), 0, _on_device(ids, source)
    if _kernel_takes(tensors, source):
        from .row_kernel import move_rows

        move_rows(tensors, rows, source, restore=True)
        return
    for tensor in tensors:
        size = tensor[0].numel() * tensor.element_size()
        columns = source[:, begin : begin + size]
        if not _fits(columns, tensor.dtype):
            columns = columns.contiguous()
        values = columns.view(tensor.dtype).unflatten(1, tensor.shape[1:])
        tensor.index_copy_(0, rows, values)
        begin += size


def _on_device(ids: Ints, packed: Tensor) -> Tensor:
    rows = torch.from_numpy(ids.astype(np.int64))
    return rows.pin_memory().to(packed.device, non_blocking=True) if packed.is_cuda else rows


def _kernel_takes(tensors: list[Tensor], packed: Tensor) -> bool:
    """Return whether one kernel can move the rows of all tensors: hundreds of launches take longer
    than the copies."""
    return (
        packed.is_cuda
        and find_spec("triton") is not None
        and packed.stride(0) % 4 == 0
        and all(tensor[0].nbytes % 4 == 0 for tensor in tensors)
    )


def _fits(columns: Tensor, dtype: torch.dtype) -> bool:
    """Return whether bytes are aligned for values of a type."""
    parts = columns.storage_offset(), columns.stride(0), columns.data_ptr()
    return not any(part % dtype.itemsize for part in parts)


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
