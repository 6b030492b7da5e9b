"""Keys and values in FP8 (e4m3): one scale per token and KV head.

The scale depends only on one head of one token, so the values of a cached prefix are independent of
the batch. The scale is bfloat16: numbers are divided by the rounded scale, so the rounding of the
scale adds no error, and bfloat16 has the range of float32. Float32 scales would take 3.1 % instead
of 1.6 % of the memory of a head of 128.
"""

from __future__ import annotations

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn
SCALE = torch.bfloat16

STEP = (1 + 2**-8) / 448
"""Scale of a head with a largest number of 1. 448 is the largest e4m3 number; the excess of 2**-8
covers the rounding of the scale, so no number is ever above 448."""

LEAST = 1e-30
"""Smallest scale, of heads without numbers above 4e-28."""


def quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows [..., dim] as e4m3 numbers [..., dim] and bfloat16 scales [...]. NaN and
    infinite numbers become NaN."""
    numbers = rows.float()
    scales = (numbers.abs().amax(-1) * STEP).clamp(min=LEAST).to(SCALE)
    return (numbers / scales.float()[..., None]).to(FP8), scales


def dequantize(rows: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Return e4m3 rows [..., dim] times scales [...], rounded to `dtype`."""
    if dtype == torch.bfloat16:  # both factors are exact, and the product is rounded once
        return rows.to(dtype).mul_(scales[..., None])
    return (rows.float() * scales.float()[..., None]).to(dtype)
