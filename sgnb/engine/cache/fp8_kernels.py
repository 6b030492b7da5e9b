"""`fp8.py` as functions of Triton kernels. The import needs triton."""

from __future__ import annotations

import triton
import triton.language as tl

from . import fp8

STEP, LEAST = tl.constexpr(fp8.STEP), tl.constexpr(fp8.LEAST)


@triton.jit
def head_scale(largest: tl.tensor) -> tl.tensor:
    """Return the bfloat16 scales of heads with these largest absolute numbers."""
    return tl.maximum(largest * STEP, LEAST).to(tl.bfloat16)


@triton.jit
def store_scales(
    scale: tl.tensor, scales: tl.tensor, slot: tl.tensor, head: tl.tensor, KV_HEADS: tl.constexpr,
    SIDE: tl.constexpr,
) -> None:  # fmt: skip
    """Store the scales of heads of a slot. SIDE: 0 for keys, 1 for values."""
    tl.store(scales + (slot * 2 + SIDE) * KV_HEADS + head, scale, mask=head < KV_HEADS)


@triton.jit
def store_heads(
    numbers: tl.tensor, target: tl.tensor, scales: tl.tensor, slot: tl.tensor, head: tl.tensor,
    KV_HEADS: tl.constexpr, SIDE: tl.constexpr, inside: tl.tensor,
) -> None:  # fmt: skip
    """Store heads [HEADS, dim] of a slot at `target`, with scales if the pool is FP8. Numbers
    outside `inside` are 0."""
    if target.dtype.element_ty == tl.float8e4nv:
        numbers = numbers.to(tl.float32)
        scale = head_scale(tl.max(tl.abs(numbers), 1))
        store_scales(scale, scales, slot, head, KV_HEADS, SIDE)
        # A plain division is approximate on a GPU: numbers next to a tie would round otherwise
        # than in `fp8.quantize`.
        numbers = tl.div_rn(numbers, tl.broadcast_to(scale.to(tl.float32)[:, None], numbers.shape))
    tl.store(target, numbers.to(target.dtype.element_ty), mask=inside)
