"""Triton function of GEMMs that read packed weights: a tile is decoded in registers for the tensor
cores. `quantization/packed.py` documents the layout.

The product is transposed, weights times inputs: Hopper's tensor cores read only the left operand
from registers. Codes of four bits are read as words of four codes. Each place of a word is a
separate operand with a quarter of the inputs, so that decoded codes need no rearrangement.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_weights import DOT_CODES
from .packed_kernels import MANTISSA, SIGN, load_scales

CODES = tl.constexpr(DOT_CODES)
"""Codes of four bits in a word."""


@triton.jit
def packed_dots(
    x: tl.tensor, live: tl.tensor, row: tl.tensor, other: tl.tensor, values: tl.tensor,
    scales: tl.tensor, zeros: tl.tensor, order: tl.tensor, KIND: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr, ZEROS: tl.constexpr, ORDER: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    TWO: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Multiply the live rows at x [BLOCK_M, 1] by the rows `row` [BLOCK_N] of the matrix and, with
    TWO, by the rows `other`. Returns [BLOCK_N, BLOCK_M] each. HIGH, WIDE: rows and columns that
    share a scale. The order of a sum depends on BLOCK_K only."""
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    other_product = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)

    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES):
        at = start + k
        # True at compile time if BLOCK_K divides SIZE: the loads then have no masks.
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        if ORDER:
            at = tl.load(order + at, mask=inside, other=0)
        numbers = tl.load(x + at[None, :], mask=live[:, None] & inside[None, :], other=0.0)
        product = _add_dots(
            product, numbers, row, values, scales, zeros, start, KIND, HIGH, WIDE, ZEROS, SIZE,
            BLOCK_M, BLOCK_K,
        )  # fmt: skip
        if TWO:
            other_product = _add_dots(
                other_product, numbers, other, values, scales, zeros, start, KIND, HIGH, WIDE,
                ZEROS, SIZE, BLOCK_M, BLOCK_K,
            )  # fmt: skip

    if WIDE >= SIZE:
        product *= load_scales(scales, row // HIGH, KIND, row >= 0)[:, None]
        if TWO:
            other_product *= load_scales(scales, other // HIGH, KIND, other >= 0)[:, None]
    return product, other_product


@triton.jit
def _add_dots(
    sums: tl.tensor, numbers: tl.tensor, row: tl.tensor, values: tl.tensor, scales: tl.tensor,
    zeros: tl.tensor, start: tl.tensor, KIND: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    ZEROS: tl.constexpr, SIZE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add the product of a block of inputs [BLOCK_M, BLOCK_K] to the sums. A scale that the whole
    block shares multiplies the sum; a scale per row is left to the caller."""
    per: tl.constexpr = 1 if KIND == "fp8" else CODES
    whole: tl.constexpr = WIDE >= SIZE
    groups: tl.constexpr = 1 if whole else (BLOCK_K + WIDE - 1) // WIDE
    word = tl.arange(0, BLOCK_K // per)
    at = word + start // per
    inside = ((at < SIZE // per) | (SIZE % BLOCK_K == 0))[None, :]
    rows = values + row.to(tl.int64)[:, None] * (SIZE // per)
    total = tl.zeros_like(sums) if groups == 1 and not whole else sums
    place = row // HIGH, start // WIDE, (word * per // WIDE)[None, :]
    scale = 1.0 if whole else _of_group(scales, *place, KIND, SIZE, WIDE, groups)
    factor = 1.0 if groups == 1 else scale

    if KIND == "fp8":
        weights = tl.load(rows + at[None, :], mask=inside, other=0.0)
        weights = (weights.to(tl.float32) * factor).to(numbers.dtype)
        total = tl.dot(weights, tl.trans(numbers), total, input_precision="ieee")
    else:
        words = tl.load(rows + at[None, :], mask=inside, other=0).to(tl.int32)
        zero = _of_group(zeros, *place, KIND, SIZE, WIDE, groups) if ZEROS else 8.0
        # The last axis of a split is the lowest bit of a column's place in a word.
        even, odd = tl.split(numbers.reshape(BLOCK_M, BLOCK_K // per, 2, 2))
        x0, x2 = tl.split(even)
        x1, x3 = tl.split(odd)
        total = _add_dot(total, words, x0, zero, factor, 0, KIND)
        total = _add_dot(total, words, x1, zero, factor, 1, KIND)
        total = _add_dot(total, words, x2, zero, factor, 2, KIND)
        total = _add_dot(total, words, x3, zero, factor, 3, KIND)

    if groups == 1 and not whole:
        return sums + total * scale
    else:
        return total


@triton.jit
def _of_group(
    numbers: tl.tensor, row: tl.tensor, first: tl.tensor, group: tl.tensor, KIND: tl.constexpr,
    SIZE: tl.constexpr, WIDE: tl.constexpr, GROUPS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the scale or zero point of each row [BLOCK_N, 1], or of each word if a block has
    several groups. first: first group of the block; group: of a word, in the block.

    A number is selected for a word, instead of loaded: then the layout of the words remains.
    """
    wide: tl.constexpr = (SIZE + WIDE - 1) // WIDE  # columns of scales
    at = (row.to(tl.int64) * wide + first)[:, None]
    number = load_scales(numbers, at, KIND, at >= 0)

    for i in tl.static_range(1, GROUPS):
        present = (at >= 0) & (first + i < wide)
        number = tl.where(group >= i, load_scales(numbers, at + i, KIND, present), number)
    return number


@triton.jit
def _add_dot(
    total: tl.tensor, words: tl.tensor, x: tl.tensor, zero: tl.tensor, scale: tl.tensor,
    PLACE: tl.constexpr, KIND: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add the product of the codes at a place of each word."""
    if KIND == "int4":
        bits = ((words >> (4 * PLACE)) & 15) | MANTISSA
        number = bits.to(tl.float32, bitcast=True) - (8388608.0 + zero)
    else:
        # Sign, exponent and mantissa of E2M1 in the places of float32: too small by 2**126.
        bits = ((words << (28 - 4 * PLACE)) & SIGN) | (((words >> (4 * PLACE)) & 7) << 22)
        number = bits.to(tl.float32, bitcast=True) * 2.0**126
    weights = (number * scale).to(x.dtype)
    return tl.dot(weights, tl.trans(x), total, input_precision="ieee")
