"""Triton functions of `skinny_kernels` for packed weights: sums of products with numbers that are
decoded in registers. `quantization/packed.py` documents the layout.

Codes of four bits are read as words of eight codes, and become floats without a conversion:

- int4: 0x4300 is 128 in bfloat16, and the last bit of the mantissa counts 1. Thus 0x4300 | code is
  OFFSET + code. A shift, an `&` and an `|` of a word give two such numbers, one in each half. A
  bfloat16 is the upper half of a float32: a shift and a mask give both floats. A sum of
  x * (OFFSET + code) is too large by OFFSET times the sum of x. This product is subtracted once per
  word, together with the product of the zero point.
- MXFP4: a code has a sign, two bits of exponent and one bit of mantissa (E2M1), which are set into
  the places of float32. The biases of the exponents differ by 126: the number is too small by
  2**126. Powers of two in inputs and sums correct the product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .kernel_weights import SUM_CODES

CODES = tl.constexpr(SUM_CODES)
"""Codes of four bits in a word."""
SIGN = tl.constexpr(-(2**31))
"""Bit of the sign of a float, as int32."""
PAIR = tl.constexpr(0x43004300)
"""Bits of OFFSET in bfloat16, twice."""
OFFSET = tl.constexpr(128.0)


@triton.jit
def packed_sums(
    x: tl.tensor, row: tl.tensor, other: tl.tensor, values: tl.tensor, scales: tl.tensor,
    zeros: tl.tensor, order: tl.tensor, factor: tl.tensor, eps: tl.tensor, hidden_zero: tl.tensor,
    KIND: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, ZEROS: tl.constexpr,
    ORDER: tl.constexpr, SIZE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, STAGES: tl.constexpr, UNROLL: tl.constexpr, NORM: tl.constexpr,
    TWO: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Multiply the rows at x [BLOCK_T, 1], normed if asked, by the rows `row` [BLOCK_N] of the
    matrix and, with TWO, by the rows `other`. Returns [BLOCK_T, BLOCK_N] each. HIGH, WIDE: rows and
    columns that share a scale. hidden_zero: 0, which the compiler does not know: `&` and `|` with
    two known constants do not become one instruction."""
    per: tl.constexpr = 1 if KIND == "fp8" else CODES
    whole: tl.constexpr = WIDE >= SIZE  # one scale per row
    width: tl.constexpr = BLOCK_K if whole else WIDE
    groups: tl.constexpr = BLOCK_K // width
    shape: tl.constexpr = [BLOCK_T, BLOCK_N, groups, width // per]
    product = tl.zeros(shape, tl.float32)
    other_product = tl.zeros(shape, tl.float32)
    squares = tl.zeros([BLOCK_T, BLOCK_K], tl.float32)
    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES, loop_unroll_factor=UNROLL):
        numbers, squares = _inputs(x, order, factor, start, squares, ORDER, SIZE, BLOCK_K, NORM)
        product += _products(
            numbers, row, values, scales, zeros, start, hidden_zero, KIND, HIGH, WIDE, ZEROS, SIZE,
            BLOCK_T, BLOCK_K, whole, groups,
        )  # fmt: skip
        if TWO:
            other_product += _products(
                numbers, other, values, scales, zeros, start, hidden_zero, KIND, HIGH, WIDE, ZEROS,
                SIZE, BLOCK_T, BLOCK_K, whole, groups,
            )  # fmt: skip

    first, second = tl.sum(tl.sum(product, 3), 2), tl.sum(tl.sum(other_product, 3), 2)
    if whole:
        first *= load_scales(scales, row // HIGH, KIND, row >= 0)[None, :]
        if TWO:
            second *= load_scales(scales, other // HIGH, KIND, other >= 0)[None, :]
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, 1) / SIZE + eps)[:, None]
        first *= scale
        second *= scale
    return first, second


@triton.jit
def _inputs(
    x: tl.tensor, order: tl.tensor, factor: tl.tensor, start: tl.tensor, squares: tl.tensor,
    ORDER: tl.constexpr, SIZE: tl.constexpr, BLOCK_K: tl.constexpr, NORM: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Return the inputs of a block [BLOCK_T, BLOCK_K], in the order of the columns and times the
    factor of the norm, and the sums of squares."""
    at = start + tl.arange(0, BLOCK_K)
    inside = ((at < SIZE) | (SIZE % BLOCK_K == 0))[None, :]
    at = at[None, :]
    if ORDER:
        at = tl.load(order + at, mask=inside, other=0)
    numbers = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        squares += numbers * numbers
        numbers *= tl.load(factor + at, mask=inside, other=0.0).to(tl.float32)
    return numbers, squares


@triton.jit
def _products(
    numbers: tl.tensor, row: tl.tensor, values: tl.tensor, scales: tl.tensor, zeros: tl.tensor,
    start: tl.tensor, hidden_zero: tl.tensor, KIND: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr, ZEROS: tl.constexpr, SIZE: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_K: tl.constexpr, WHOLE: tl.constexpr, GROUPS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return products of inputs and scaled weights, [BLOCK_T, BLOCK_N, groups, elements], summed
    per word of codes. A single scale per row is left to the caller."""
    per: tl.constexpr = 1 if KIND == "fp8" else CODES
    width: tl.constexpr = BLOCK_K // GROUPS // per
    group = tl.arange(0, GROUPS)
    at = start // per + group[:, None] * width + tl.arange(0, width)[None, :]
    inside = ((at < SIZE // per) | (SIZE % BLOCK_K == 0))[None, :, :]
    pointers = values + row.to(tl.int64)[:, None, None] * (SIZE // per) + at[None, :, :]

    wide: tl.constexpr = (SIZE + WIDE - 1) // WIDE  # columns of scales
    group = (start // WIDE + group)[None, :]
    scale_at, real = (row // HIGH).to(tl.int64)[:, None] * wide + group, group < wide
    if KIND == "fp8":
        weights = tl.load(pointers, mask=inside, other=0.0, eviction_policy="evict_first")
        inputs = numbers.reshape(BLOCK_T, 1, GROUPS, width)
        products = weights.to(tl.float32)[None, :, :, :] * inputs
    else:
        # One word per thread, as for the inputs: reshaped pointers are not known to be contiguous.
        flat: tl.constexpr = pointers.shape[0] * GROUPS * width
        present = tl.broadcast_to(inside, pointers.shape).reshape(flat)
        words = tl.load(
            pointers.reshape(flat), mask=present, other=0, eviction_policy="evict_first"
        ).reshape(pointers.shape)
        products, inputs = _word_products(words, numbers, hidden_zero, KIND, BLOCK_T, GROUPS, width)
        if ZEROS:
            zero = tl.load(zeros + scale_at, mask=real, other=0).to(tl.float32)
            products -= (zero + OFFSET)[None, :, :, None] * inputs
        elif KIND == "int4":
            products -= (8.0 + OFFSET) * inputs
    if not WHOLE:
        products *= load_scales(scales, scale_at, KIND, real)[None, :, :, None]
    return products


@triton.jit
def load_scales(
    scales: tl.tensor, at: tl.tensor, KIND: tl.constexpr, mask: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Load scales as float32."""
    scale = tl.load(scales + at, mask=mask, other=0)
    if KIND == "mxfp4":  # exponents: 0 is the subnormal number 2**-127
        exponent = scale.to(tl.int32)
        return tl.where(exponent == 0, 1 << 22, exponent << 23).to(tl.float32, bitcast=True)
    else:
        return scale.to(tl.float32)


@triton.jit
def _word_products(
    words: tl.tensor, numbers: tl.tensor, hidden_zero: tl.tensor, KIND: tl.constexpr,
    BLOCK_T: tl.constexpr, GROUPS: tl.constexpr, WIDTH: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Return the sum of the eight products of each word, for int4 with OFFSET in each code, and the
    sum of the eight inputs: words [BLOCK_N, groups, width], inputs [BLOCK_T, columns]."""
    if KIND == "mxfp4":
        numbers *= 2.0**64
    # The last axis of a split is the lowest bit of a column's place in a word.
    even, odd = tl.split(numbers.reshape(BLOCK_T, 1, GROUPS, WIDTH, 2, 2, 2))
    x04, x26 = tl.split(even)
    x15, x37 = tl.split(odd)
    x0, x4 = tl.split(x04)
    x2, x6 = tl.split(x26)
    x1, x5 = tl.split(x15)
    x3, x7 = tl.split(x37)

    sums = _add_products(tl.zeros_like(x0), words, x0, x4, hidden_zero, 0, KIND)
    sums = _add_products(sums, words, x1, x5, hidden_zero, 1, KIND)
    sums = _add_products(sums, words, x2, x6, hidden_zero, 2, KIND)
    sums = _add_products(sums, words, x3, x7, hidden_zero, 3, KIND)
    if KIND == "mxfp4":
        sums *= 2.0**62
    return sums, x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7


@triton.jit
def _add_products(
    sums: tl.tensor, words: tl.tensor, x: tl.tensor, x_upper: tl.tensor, hidden_zero: tl.tensor,
    PLACE: tl.constexpr, KIND: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add the products of x and the codes at PLACE, and of x_upper and the codes at PLACE + 4."""
    if KIND == "int4":
        pair = ((words >> (4 * PLACE)) & 0x000F000F) | (hidden_zero | PAIR)
        first, second = pair << 16, pair & -65536
    else:
        first, second = e2m1_bits(words, PLACE), e2m1_bits(words, PLACE + 4)
    sums += first.to(tl.float32, bitcast=True)[None, :, :, :] * x
    return sums + second.to(tl.float32, bitcast=True)[None, :, :, :] * x_upper


@triton.jit
def e2m1_bits(words: tl.tensor, PLACE: tl.constexpr) -> tl.tensor:
    """Return the bits of float32 of the codes of MXFP4 at PLACE of each word, times 2**-126."""
    return ((words << (28 - 4 * PLACE)) & SIGN) | (((words >> (4 * PLACE)) & 7) << 22)
