"""Copies between the rows of many tensors and packed rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from .radix import Ints


class PackedRows:
    """Rows with the same number of several tensors, next to each other in a packed row.

    Args:
        tensors: Contiguous, on one device, at fixed addresses.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._sizes = [math.prod(each.shape[1:]) * each.element_size() for each in tensors]
        self._table: Tensor | None = None
        # Hundreds of launches take longer than the copies: one kernel moves the rows of all.
        on_gpu = bool(tensors) and tensors[0].is_cuda and find_spec("triton") is not None
        if on_gpu and all(size % 4 == 0 for size in self._sizes):
            from .row_kernel import row_table

            self._table = row_table(tensors)

    def copy(self, ids: Ints, packed: Tensor) -> None:
        """Copy the rows `ids` of each tensor to consecutive columns of `packed`, uint8[len(ids),
        bytes of the rows]."""
        rows, begin = _on_device(ids, packed), 0
        if self._moved(rows, packed, restore=False):
            return
        for tensor, size in zip(self._tensors, self._sizes, strict=True):
            selected = tensor.index_select(0, rows).flatten(1)
            columns = packed[:, begin : begin + size]
            if _fits(columns, tensor.dtype):
                columns.view(tensor.dtype).copy_(selected)
            else:
                columns.copy_(selected.view(torch.uint8))
            begin += size

    def restore(self, ids: Ints, packed: Tensor) -> None:
        """Undo `copy`: write consecutive columns of `packed` to the rows `ids` of each tensor."""
        rows, begin = _on_device(ids, packed), 0
        if self._moved(rows, packed, restore=True):
            return
        for tensor, size in zip(self._tensors, self._sizes, strict=True):
            columns = packed[:, begin : begin + size]
            if not _fits(columns, tensor.dtype):
                columns = columns.contiguous()
            values = columns.view(tensor.dtype).unflatten(1, tensor.shape[1:])
            tensor.index_copy_(0, rows, values)
            begin += size

    def _moved(self, rows: Tensor, packed: Tensor, restore: bool) -> bool:
        """Move the rows with the kernel, if possible. Returns False otherwise."""
        if self._table is None or packed.stride(0) % 4:
            return False
        from .row_kernel import move_rows

        move_rows(self._table, rows, packed, restore)
        return True


def _on_device(ids: Ints, packed: Tensor) -> Tensor:
    rows = torch.from_numpy(ids.astype(np.int64))
    return rows.pin_memory().to(packed.device, non_blocking=True) if packed.is_cuda else rows


def _fits(columns: Tensor, dtype: torch.dtype) -> bool:
    """Return whether bytes are aligned for values of a type."""
    parts = columns.storage_offset(), columns.stride(0), columns.data_ptr()
    return not any(part % dtype.itemsize for part in parts)
