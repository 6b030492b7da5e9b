"""Batch-invariant GEMM: the bits of a row do not depend on the other rows.

Libraries change the order of summation with the number of rows; see "Defeating Nondeterminism in
LLM Inference" (Thinking Machines Lab, 2025). Here every output is a single sum over K from front to
back, never split-K, for any row tiling. On a GPU, a Triton kernel computes the sums; otherwise, or
without triton, the rows are multiplied one by one.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from .types import DTYPES, GemmTiling

FULL_PRECISION = GemmTiling(32, 32, 32, 4, 2)
"""For float32, which is multiplied without tensor cores."""

TILINGS = ((64, GemmTiling(64, 32, 128, 4, 4)), (512, GemmTiling(128, 64, 64, 4, 4)))
"""Tilings by maximum number of rows. For few rows, reading the weights dominates, so programs are
many and narrow. The bits do not depend on the tiling."""

LARGE = GemmTiling(128, 256, 64, 8, 3)


def invariant_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, tiling: GemmTiling | None = None
) -> Tensor:
    """x [..., K] times weight [N, K], plus bias [N]: [..., N]. The bits of a row depend on x's row
    and weights only.

    bfloat16, float16 or float32, one dtype for all; weight's rows are contiguous. Sums run in
    float32 (float32 inputs at full precision) and are rounded once. tiling: instead of the one
    chosen by the number of rows; heeded by the kernel only. ValueError for other shapes or dtypes.
    """
    _check(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    if _has_kernel(x.device):
        from .invariant_kernel import multiply

        tiling = tiling or pick_tiling(len(rows), x.dtype)
        rows = rows if rows.stride(-1) == 1 else rows.contiguous()
        out = multiply(rows, weight, bias, tiling)
    else:
        out = torch.empty(len(rows), len(weight), dtype=x.dtype, device=x.device)
        for i in range(len(rows)):
            out[i : i + 1] = F.linear(rows[i : i + 1].contiguous(), weight, bias)
    return out.view(*x.shape[:-1], len(weight))


def pick_tiling(rows: int, dtype: torch.dtype) -> GemmTiling:
    if dtype == torch.float32:
        return FULL_PRECISION
    return next((tiling for max_rows, tiling in TILINGS if rows <= max_rows), LARGE)


@cache
def _has_kernel(device: torch.device) -> bool:
    return device.type == "cuda" and find_spec("triton") is not None


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    shapes = f"x is {tuple(x.shape)} and weight {tuple(weight.shape)}"
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or weight.shape[1] == 0:
        raise ValueError(f"{shapes}: not [..., K] and [N, K]")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias is {tuple(bias.shape)}, not ({len(weight)},)")
    dtypes = [tensor.dtype for tensor in (x, weight, bias) if tensor is not None]
    if x.dtype not in DTYPES or {*dtypes} != {x.dtype}:
        raise ValueError(f"dtypes are {dtypes}, not one of {DTYPES} for all")
    if weight.stride(1) != 1 and weight.shape[1] > 1:
        raise ValueError("weight's rows must be contiguous")
