"""Triton kernel that decodes packed matrices for a dense GEMM: the general path of a GPU, for row
counts without a GEMM that reads packed weights.

Reads the layout of `quantization.packed`. With TRITON_INTERPRET=1 set before triton is imported,
the kernel runs on the CPU. fp8 is decoded from its bits: no instruction of new GPUs is needed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..device.precompile import launch
from ..quantization.packed import SYMMETRIC_ZERO, PackedWeight
from .packed_kernels import e2m1_bits, load_scales

BLOCK_N, BLOCK_K = 16, 256


def decode(weight: PackedWeight, dtype: torch.dtype) -> Tensor:
    """Return the matrix [N, K], or matrices [E, N, K], in `dtype`: the numbers of `reference`."""
    rows, columns = weight.shape[-2:]
    experts = weight.shape[0] if len(weight.shape) == 3 else 1
    out = torch.empty(weight.shape, dtype=dtype, device=weight.values.device)
    values = weight.values.view(torch.uint8) if weight.kind == "fp8" else weight.values
    high, wide = weight.block
    launch(
        _decode_kernel, (triton.cdiv(rows, BLOCK_N), triton.cdiv(columns, BLOCK_K), experts),
        values, weight.scales, weight.scales if weight.zeros is None else weight.zeros,
        weight.scales if weight.order is None else weight.order, out, rows,
        KIND=weight.kind, COLUMNS=columns, HIGH=high, WIDE=wide, ZEROS=weight.zeros is not None,
        ORDER=weight.order is not None, MIDDLE=SYMMETRIC_ZERO, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _decode_kernel(
    values: tl.tensor, scales: tl.tensor, zeros: tl.tensor, order: tl.tensor, out: tl.tensor,
    rows: tl.tensor, KIND: tl.constexpr, COLUMNS: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr, ZEROS: tl.constexpr, ORDER: tl.constexpr, MIDDLE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
) -> None:  # fmt: skip
    """Decode a tile of one matrix."""
    expert = tl.program_id(2).to(tl.int64)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (n < rows)[:, None] & (k < COLUMNS)[None, :]
    row = expert * rows + n
    if KIND == "fp8":
        codes = tl.load(values + row[:, None] * COLUMNS + k[None, :], mask=inside, other=0)
        numbers = fp8_number(codes.to(tl.int32))
    else:
        pair = tl.program_id(1) * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)
        there = (n < rows)[:, None] & (pair < COLUMNS // 2)[None, :]
        place = row[:, None] * (COLUMNS // 2) + pair[None, :]
        pairs = tl.load(values + place, mask=there, other=0).to(tl.int32)
        codes = tl.interleave(pairs & 15, pairs >> 4)
        if KIND == "int4":  # 2**23 + code, which is faster than a conversion
            numbers = (codes | 0x4B000000).to(tl.float32, bitcast=True) - 8388608.0
        else:
            numbers = e2m1_bits(codes, 0).to(tl.float32, bitcast=True) * 2.0**126

    groups = (COLUMNS + WIDE - 1) // WIDE
    blocks = (rows + HIGH - 1) // HIGH
    block = (expert * blocks + n // HIGH)[:, None] * groups
    if WIDE >= COLUMNS or WIDE % BLOCK_K == 0 or BLOCK_K % WIDE == 0:
        # Columns of one group share a load.
        parts: tl.constexpr = 1 if min(COLUMNS, BLOCK_K) <= WIDE else BLOCK_K // WIDE
        first = 0 if WIDE >= COLUMNS else tl.program_id(1) * BLOCK_K // WIDE
        group = first + tl.arange(0, parts)[None, :]
        present = (n < rows)[:, None] & (group < groups)
        numbers = numbers.reshape(BLOCK_N, parts, BLOCK_K // parts)
        factors = _factors(block + group, scales, zeros, present, KIND, ZEROS, MIDDLE)
        numbers = (numbers - factors[1][:, :, None]) * factors[0][:, :, None]
        numbers = numbers.reshape(BLOCK_N, BLOCK_K)
    else:
        at = block + (k // WIDE)[None, :]
        factors = _factors(at, scales, zeros, inside, KIND, ZEROS, MIDDLE)
        numbers = (numbers - factors[1]) * factors[0]

    if ORDER:
        k = tl.load(order + expert * COLUMNS + k, mask=k < COLUMNS, other=0)
    tl.store(
        out + row[:, None] * COLUMNS + k[None, :], numbers.to(out.dtype.element_ty), mask=inside
    )


@triton.jit
def _factors(
    at: tl.tensor, scales: tl.tensor, zeros: tl.tensor, mask: tl.tensor, KIND: tl.constexpr,
    ZEROS: tl.constexpr, MIDDLE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Return scales and zero points; 0 for FP8 and MXFP4, which have no zero points."""
    scale = load_scales(scales, at, KIND, mask)
    if ZEROS:
        return scale, tl.load(zeros + at, mask=mask, other=0).to(tl.float32)
    else:
        return scale, tl.full(at.shape, MIDDLE if KIND == "int4" else 0.0, tl.float32)


@triton.jit
def fp8_number(codes: tl.tensor) -> tl.tensor:
    """Return the float32 numbers of the bits of float8_e4m3fn, int32."""
    magnitude = codes & 127
    # Sign, exponent and mantissa in the places of float32: too small by 2**120.
    bits = ((codes & 128) << 24) | (magnitude << 20)
    number = bits.to(tl.float32, bitcast=True) * 2.0**120
    return tl.where(magnitude == 127, float("nan"), number)
