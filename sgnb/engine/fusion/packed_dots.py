"""Triton function of GEMMs that read packed weights: a tile is decoded in registers for the tensor
cores. `quantization/packed.py` documents the layout.

The product is transposed, weights times inputs: Hopper's tensor cores read only the left operand
from registers. Codes of four bits are read as words. Each place of a word is a separate operand
with the inputs of this place, so that decoded codes need no rearrangement.

Codes of int4 become numbers of 16 bits without arithmetic, as in `packed_kernels`: 128 + code in
bfloat16, (16 + code) / 16 in float16. With an offset of 128 or 16 and x in a group of columns,

    sum(x * (code - zero)) = sum(x * (offset + code)) - (offset + zero) * sum(x)

The tensor cores compute both sums; sum(x) is a product with ones.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_weights import DOT_CODES
from .packed_kernels import e2m1_bits, load_scales

INT4_CODES = tl.constexpr(DOT_CODES["int4"])
MXFP4_CODES = tl.constexpr(DOT_CODES["mxfp4"])


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
    per: tl.constexpr = 1 if KIND == "fp8" else INT4_CODES if KIND == "int4" else MXFP4_CODES
    whole: tl.constexpr = WIDE >= SIZE
    groups: tl.constexpr = 1 if whole else (BLOCK_K + WIDE - 1) // WIDE
    word = tl.arange(0, BLOCK_K // per)
    at = word + start // per
    inside = ((at < SIZE // per) | (SIZE % BLOCK_K == 0))[None, :]
    rows = values + row.to(tl.int64)[:, None] * (SIZE // per)
    apart: tl.constexpr = groups == 1 and (KIND == "int4" or not whole)
    total = tl.zeros_like(sums) if apart else sums
    part: tl.constexpr = 1 if KIND == "fp8" else 4  # columns with a number of equal position
    place = row // HIGH, start // WIDE, (tl.arange(0, BLOCK_K // part) * part // WIDE)[None, :]
    scale = 1.0 if whole else _of_group(scales, *place, KIND, SIZE, WIDE, groups)
    factor = 1.0 if groups == 1 else scale

    if KIND == "fp8":
        weights = tl.load(rows + at[None, :], mask=inside, other=0.0)
        weights = (weights.to(tl.float32) * factor).to(numbers.dtype)
        total = tl.dot(weights, tl.trans(numbers), total, input_precision="ieee")
    else:
        words = tl.load(rows + at[None, :], mask=inside, other=0)
        # The last axis of a split is the lowest bit of a column's place in half a word of int4, or
        # in a word of MXFP4.
        even, odd = tl.split(numbers.reshape(BLOCK_M, BLOCK_K // 4, 2, 2))
        x0, x2 = tl.split(even)
        x1, x3 = tl.split(odd)
        if KIND == "int4":
            offset: tl.constexpr = 16.0 if numbers.dtype == tl.float16 else 128.0
            unit: tl.constexpr = 16.0 if numbers.dtype == tl.float16 else 1.0
            point = _of_group(zeros, *place, KIND, SIZE, WIDE, groups) if ZEROS else 8.0
            zero, factor = (offset + point) / unit, factor * unit
            later: tl.constexpr = groups == 1 and numbers.dtype != tl.float32
            x_sums = tl.zeros_like(sums)
            total, x_sums = _add_codes(total, x_sums, words, x0, zero, factor, 0, later)
            total, x_sums = _add_codes(total, x_sums, words, x1, zero, factor, 1, later)
            total, x_sums = _add_codes(total, x_sums, words, x2, zero, factor, 2, later)
            total, x_sums = _add_codes(total, x_sums, words, x3, zero, factor, 3, later)
            if later:
                total = (total - zero * x_sums) * unit
        else:
            words = words.to(tl.int32)
            total = _add_dot(total, words, x0, factor, 0)
            total = _add_dot(total, words, x1, factor, 1)
            total = _add_dot(total, words, x2, factor, 2)
            total = _add_dot(total, words, x3, factor, 3)

    if apart:
        return sums + total * scale
    else:
        return total


@triton.jit
def _of_group(
    numbers: tl.tensor, row: tl.tensor, first: tl.tensor, group: tl.tensor, KIND: tl.constexpr,
    SIZE: tl.constexpr, WIDE: tl.constexpr, GROUPS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the scale or zero point of each row [BLOCK_N, 1], or of each word if a block has
    several groups. first: first group of the block; group: of each number, in the block.

    A number is selected, instead of loaded: then the layout of the words remains.
    """
    wide: tl.constexpr = (SIZE + WIDE - 1) // WIDE  # columns of scales
    at = (row.to(tl.int64) * wide + first)[:, None]
    number = load_scales(numbers, at, KIND, at >= 0)

    for i in tl.static_range(1, GROUPS):
        present = (at >= 0) & (first + i < wide)
        number = tl.where(group >= i, load_scales(numbers, at + i, KIND, present), number)
    return number


@triton.jit
def _add_codes(
    total: tl.tensor, x_sums: tl.tensor, words: tl.tensor, x: tl.tensor, zero: tl.tensor,
    scale: tl.tensor, PLACE: tl.constexpr, LATER: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Add the product of x and the codes of int4 at PLACE of each half of a word. zero: the number
    of a code equal to the zero point. In float16 a code is set into the first bits of the mantissa
    of 1, thus the numbers are a sixteenth: with an offset of 1,024, sums of large inputs would lose
    digits.

    With LATER, the caller subtracts the product of `zero` and the sum of x, which is added to
    `x_sums`, and the tensor cores read codes without arithmetic. Not for float32: the difference of
    large sums would lose digits.
    """
    x = tl.trans(x)
    half: tl.constexpr = tl.float16 if x.dtype == tl.float16 else tl.bfloat16
    if half == tl.float16:
        pair = (((words >> (4 * PLACE)) << 6) & 0x03C003C0) | 0x3C003C00
    else:
        pair = ((words >> (4 * PLACE)) & 0x000F000F) | 0x43004300
    bits = tl.join(pair.to(tl.int16), (pair >> 16).to(tl.int16))
    numbers = bits.reshape(words.shape[0], 2 * words.shape[1]).to(half, bitcast=True)
    if LATER:
        ones = tl.full(numbers.shape, 1.0, x.dtype)
        x_sums = tl.dot(ones, x, x_sums, input_precision="ieee")
    else:
        numbers = (numbers.to(tl.float32) - zero) * scale
    return tl.dot(numbers.to(x.dtype), x, total, input_precision="ieee"), x_sums


@triton.jit
def _add_dot(
    total: tl.tensor, words: tl.tensor, x: tl.tensor, scale: tl.tensor, PLACE: tl.constexpr
) -> tl.tensor:
    """Add the product of x and the codes of MXFP4 at PLACE of each word."""
    bits = e2m1_bits(words, PLACE)
    # The product of 2**126 and a scale from 4 on would be infinite.
    weights = (bits.to(tl.float32, bitcast=True) * 2.0**126 * scale).to(x.dtype)
    return tl.dot(weights, tl.trans(x), total, input_precision="ieee")
