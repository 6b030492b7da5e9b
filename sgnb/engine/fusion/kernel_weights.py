"""Weights as arguments of the GEMM kernels, and the packed layouts that the kernels can read."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..quantization.packed import PackedWeight

SUM_CODES, DOT_CODES = 8, 4
"""Codes of four bits that a kernel reads at once: `packed_kernels`, `packed_dots`."""

DOT_BLOCKS = (128, 64)
"""Columns per iteration of `packed_dots`. Each of the four places of a word needs 16."""


class KernelWeight(NamedTuple):
    """Arguments of a kernel for a weight."""

    values: Tensor
    others: tuple[Tensor, Tensor, Tensor]  # scales, zero points, order of the columns
    constants: dict[str, Any]


DENSE = {"KIND": "", "HIGH": 1, "WIDE": 1, "ZEROS": False, "ORDER": False}
"""Constants of a dense weight."""


def kernel_weight(weight: Tensor | PackedWeight, x: Tensor, *, dot: bool = False) -> KernelWeight:
    """Return the arguments for a weight.

    Args:
        x: Stands for absent tensors.
        dot: For `packed_dots`, which reads words of 16 bits; otherwise words have 32 bits.
    """
    if isinstance(weight, Tensor):
        return KernelWeight(weight, (x, x, x), DENSE)

    kind, values, scales, zeros, order, (high, wide), _ = weight
    others = scales, x if zeros is None else zeros, x if order is None else order
    constants = {
        "KIND": kind, "HIGH": high, "WIDE": wide, "ZEROS": zeros is not None,
        "ORDER": order is not None,
    }  # fmt: skip

    if kind != "fp8":
        values = values.view(torch.int16 if dot else torch.int32)
    return KernelWeight(values, others, constants)


def can_sum(weight: PackedWeight) -> bool:
    """True if `packed_kernels` can read the layout: whole words of codes, and groups of columns
    that are a power of two, or one scale per row."""
    size, wide = weight.shape[-1], weight.block[1]
    codes = 1 if weight.kind == "fp8" else SUM_CODES
    whole = wide >= size
    return size % codes == 0 and (whole or (wide % max(codes, 2) == 0 and wide & (wide - 1) == 0))


def dot_block(weight: PackedWeight) -> int:
    """Return the columns per iteration of `packed_dots`; 0 if the function cannot read the layout.
    Independent of the number of rows, because the block decides the order of a sum."""
    return _dot_block(1 if weight.kind == "fp8" else DOT_CODES, weight.shape[-1], weight.block[1])


@cache
def _dot_block(codes: int, size: int, wide: int) -> int:
    whole = wide >= size
    if size % codes or (wide % codes and not whole):
        return 0
    blocks = [each for each in DOT_BLOCKS if whole or wide % each == 0 or each % wide == 0]
    return next((each for each in blocks if size % each == 0), blocks[0] if blocks else 0)
