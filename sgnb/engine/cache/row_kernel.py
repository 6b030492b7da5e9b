"""Kernel for copies between packed rows and the rows of many tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

WORD = 4
"""Bytes that the kernel copies at once: rows have a multiple of this size."""

BLOCK_WORDS = 1024


def row_table(tensors: Sequence[Tensor]) -> Tensor:
    """Return the places of rows for `move_rows`: the addresses of the tensors, then their first
    columns and the end, in words. Valid as long as the tensors.

    Args:
        tensors: Contiguous, with rows of a multiple of `WORD` bytes.
    """
    sizes = [math.prod(each.shape[1:]) * each.element_size() // WORD for each in tensors]
    addresses = [tensor.data_ptr() for tensor in tensors]
    table = [*addresses, *accumulate(sizes, initial=0)]
    return torch.tensor(table, device=tensors[0].device)


def move_rows(table: Tensor, ids: Tensor, packed: Tensor, restore: bool) -> None:
    """Copy the rows `ids` of each tensor to consecutive columns of `packed`, or back.

    Args:
        table: Result of `row_table`.
        ids: int64[n], on the device of the tensors.
        packed: uint8[n, bytes], contiguous rows. Columns behind all rows stay unchanged.
        restore: Copy from `packed` to the tensors.
    """
    kernel: Any = _move_rows_kernel
    count = len(table) // 2
    kernel[len(ids), count](
        table, ids, packed.view(torch.int32), packed.stride(0) // WORD,
        COUNT=count, RESTORE=restore, BLOCK=BLOCK_WORDS,
    )  # fmt: skip


@triton.jit
def _move_rows_kernel(
    table: tl.tensor, ids: tl.tensor, packed: tl.tensor, packed_words: tl.tensor,
    COUNT: tl.constexpr, RESTORE: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Copy a row of a tensor. table: see `row_table`."""
    row, number = tl.program_id(0), tl.program_id(1)
    tensor = tl.load(table + number).to(tl.pointer_type(tl.int32))
    begin = tl.load(table + COUNT + number)
    size = tl.load(table + COUNT + number + 1) - begin
    tensor += tl.load(ids + row) * size
    packed += row.to(tl.int64) * packed_words + begin
    for first in range(0, size, BLOCK):
        words = first + tl.arange(0, BLOCK)
        inside = words < size
        if RESTORE:
            tl.store(tensor + words, tl.load(packed + words, inside), inside)
        else:
            tl.store(packed + words, tl.load(tensor + words, inside), inside)
