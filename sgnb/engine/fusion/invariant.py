"""A linear layer whose rows do not feel each other: a row gives the same bits alone, and among any
others.

Libraries choose another order of summation for another number of rows; see "Defeating
Nondeterminism in LLM Inference" (Thinking Machines Lab, 2025). Here every output is one sum over K
from front to back, however the rows are tiled. On a GPU that is a Triton kernel; elsewhere, or
without triton, the rows are multiplied one by one.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Tiling(NamedTuple):
    """A program computes block_m rows of block_n outputs, block_k terms at a time. The bits do not
    depend on it."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


FULL_PRECISION = Tiling(32, 32, 32, 4, 2)
"""For float32, which is multiplied without tensor cores."""

TILINGS = ((64, Tiling(64, 32, 128, 4, 4)), (512, Tiling(128, 64, 64, 4, 4)))
"""Up to so many rows, so tiled: where reading the weights takes most of the time, programs are many
and narrow."""

LARGE = Tiling(128, 256, 64, 8, 3)


def invariant_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, tiling: Tiling | None = None
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
        out = _tiled(rows, weight, bias, tiling or pick_tiling(len(rows), x.dtype))
    else:
        out = torch.empty(len(rows), len(weight), dtype=x.dtype, device=x.device)
        for i in range(len(rows)):
            out[i : i + 1] = F.linear(rows[i : i + 1].contiguous(), weight, bias)
    return out.view(*x.shape[:-1], len(weight))


def pick_tiling(rows: int, dtype: torch.dtype) -> Tiling:
    if dtype == torch.float32:
        return FULL_PRECISION
    return next((tiling for most, tiling in TILINGS if rows <= most), LARGE)


@cache
def _has_kernel(device: torch.device) -> bool:
    return device.type == "cuda" and find_spec("triton") is not None


def _tiled(x: Tensor, weight: Tensor, bias: Tensor | None, tiling: Tiling) -> Tensor:
    from .invariant_kernel import multiply

    return multiply(x if x.stride(-1) == 1 else x.contiguous(), weight, bias, tiling)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or weight.shape[1] == 0:
        raise ValueError(
            f"x is {tuple(x.shape)} and weight {tuple(weight.shape)}: not [..., K] and [N, K]"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias is {tuple(bias.shape)}, not ({len(weight)},)")
    if (
        x.dtype not in DTYPES
        or weight.dtype != x.dtype
        or (bias is not None and bias.dtype != x.dtype)
    ):
        raise ValueError(
            f"x is {x.dtype} and weight {weight.dtype}: not one of {DTYPES} for all, bias included"
        )
    if weight.stride(1) != 1 and weight.shape[1] > 1:
        raise ValueError("weight's rows must be contiguous")
