"""Copies between the rows of many tensors and packed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from .radix import Ints


class PackedRows:
    """Rows of several tensors in packed form: a packed row is the concatenation of the tensors'
    rows at an index.

    Args:
        tensors: Contiguous, on one device, at fixed addresses.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._rows = [each.flatten(1).view(torch.uint8) for each in tensors]
        self._table: Tensor | None = None
        # Hundreds of launches take longer than the copies, so a single kernel moves the rows of all
        # tensors.
        on_gpu = bool(tensors) and tensors[0].is_cuda and find_spec("triton") is not None
        if on_gpu and all(rows.shape[1] % 4 == 0 for rows in self._rows):
            from .row_kernel import row_table

            self._table = row_table(tensors)

    def copy(self, ids: Ints, packed: Tensor) -> None:
        """Copy the rows `ids` of each tensor to consecutive columns of `packed`, uint8[len(ids),
        bytes of the rows]."""
        if packed.is_cuda:
            self._move_on_gpu(ids, packed, restore=False)
        else:
            self.take(ids)(packed)

    def take(self, ids: Ints) -> Callable[[Tensor], None]:
        """Take the present rows `ids` of each tensor, in host memory. Returns a function that
        writes the rows to consecutive columns, as `copy` does, on any thread."""
        places = ids.astype(np.intp)
        parts = [rows.numpy().take(places, 0) for rows in self._rows]

        def write(packed: Tensor) -> None:
            for part, (_, columns) in zip(parts, self._pairs(packed), strict=True):
                columns.numpy()[:] = part

        return write

    def restore(self, ids: Ints, packed: Tensor) -> None:
        """Undo `copy`: write consecutive columns of `packed` to the rows `ids` of each tensor."""
        if packed.is_cuda:
            self._move_on_gpu(ids, packed, restore=True)
            return
        for rows, columns in self._pairs(packed):
            rows.numpy()[ids] = columns.numpy()  # index_copy_ takes 10 times as long

    def _pairs(self, packed: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows of each tensor, and the columns of `packed`."""
        begin = 0
        for rows in self._rows:
            end = begin + rows.shape[1]
            yield rows, packed[:, begin:end]
            begin = end

    def _move_on_gpu(self, ids: Ints, packed: Tensor, restore: bool) -> None:
        indices = torch.from_numpy(ids.astype(np.int64)).pin_memory()
        indices = indices.to(packed.device, non_blocking=True)
        if self._table is not None and packed.stride(0) % 4 == 0:
            from .row_kernel import move_rows

            move_rows(self._table, indices, packed, restore)
            return
        for rows, columns in self._pairs(packed):
            if restore:
                rows.index_copy_(0, indices, columns)
            else:
                columns.copy_(rows.index_select(0, indices))
