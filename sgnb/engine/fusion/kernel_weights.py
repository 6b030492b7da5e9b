"""Weights as arguments of the GEMM kernels, and the packed layouts that the kernels can read."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..quantization.packed import Kind, PackedWeight

SUM_CODES = 8
"""Codes of four bits that `packed_kernels` reads at once."""

DOT_CODES: dict[Kind, int] = {"fp8": 1, "int4": 8, "mxfp4": 4}
"""Codes that `packed_dots` reads at once."""

DOT_BLOCKS = (128, 64)
"""Columns per iteration of `packed_dots`."""

PLACE_COLUMNS = 16
"""Minimum columns of a block for each place of a word, for tensor cores."""


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
        dot: For `packed_dots`; its words have `DOT_CODES` codes, otherwise `SUM_CODES`.
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
        codes = DOT_CODES[kind] if dot else SUM_CODES
        values = values.view(torch.int32 if codes == 8 else torch.int16)
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
    return _dot_block(DOT_CODES[weight.kind], weight.shape[-1], weight.block[1])


@cache
def _dot_block(codes: int, size: int, wide: int) -> int:
    whole = wide >= size
    if size % codes or (wide % codes and not whole):
        return 0
    fitting = [each for each in DOT_BLOCKS if each >= codes * PLACE_COLUMNS]
    blocks = [each for each in fitting if whole or wide % each == 0 or each % wide == 0]
    return next((each for each in blocks if size % each == 0), blocks[0] if blocks else 0)
