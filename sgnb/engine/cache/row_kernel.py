"""Copies between rows of many tensors and packed rows, in one kernel."""

from __future__ import annotations

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


def move_rows(tensors: Sequence[Tensor], ids: Tensor, packed: Tensor, restore: bool) -> None:
    """Copy the rows `ids` of each tensor to consecutive columns of `packed`, or back.

    Args:
        tensors: Contiguous, with rows of a multiple of `WORD` bytes.
        ids: int64[n], on the device of the tensors.
        packed: uint8[n, bytes], contiguous rows. Columns behind all rows stay unchanged.
        restore: Copy from `packed` to the tensors.
    """
    sizes = [tensor[0].numel() * tensor.element_size() // WORD for tensor in tensors]
    addresses = [tensor.data_ptr() for tensor in tensors]
    table = torch.tensor([*addresses, *accumulate(sizes, initial=0)])
    if packed.is_cuda:
        table = table.pin_memory().to(packed.device, non_blocking=True)
    kernel: Any = _move_rows_kernel
    kernel[len(ids), len(tensors)](
        table, ids, packed.view(torch.int32), packed.stride(0) // WORD,
        COUNT=len(tensors), RESTORE=restore, BLOCK=BLOCK_WORDS,
    )  # fmt: skip


@triton.jit
def _move_rows_kernel(
    table: tl.tensor, ids: tl.tensor, packed: tl.tensor, packed_words: tl.tensor,
    COUNT: tl.constexpr, RESTORE: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Copy a row of a tensor. table: addresses of the tensors, then their first columns and the
    end, in words."""
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
