"""Triton kernels of `skinny`: a program computes a block of columns for all rows.

A program reads its weights once, front to back, in an order independent of the number of rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .packed_dots import packed_dots
from .packed_kernels import packed_sums


@triton.jit(do_not_specialize=["rows"])
def linear_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, residual: tl.tensor, factor: tl.tensor,
    out: tl.tensor, x_stride: tl.tensor, weight_stride: tl.tensor, residual_stride: tl.tensor,
    eps: tl.tensor, rows: tl.tensor, scales: tl.tensor, zeros: tl.tensor, order: tl.tensor,
    KIND: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, ZEROS: tl.constexpr,
    ORDER: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    UNROLL: tl.constexpr, DOT: tl.constexpr, BIAS: tl.constexpr, NORM: tl.constexpr,
    ADD: tl.constexpr, GATE: tl.constexpr,
) -> None:  # fmt: skip
    """KIND: of packed weights, see `packed_kernels`; "" for dense weights."""
    block = tl.program_id(0)
    t = tl.arange(0, BLOCK_T)
    if KIND != "" and DOT:  # tiles of rows: neighbours read equal weights
        tiles = tl.cdiv(rows, BLOCK_T)
        t += block % tiles * BLOCK_T
        block = block // tiles
    n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    live = n < COLUMNS
    column = tl.minimum(n, COLUMNS - 1).to(tl.int64)
    x += tl.minimum(t, rows - 1)[:, None] * x_stride  # repeats the last row
    weights, others = weight + column * weight_stride, weight + (column + COLUMNS) * weight_stride
    if KIND != "" and DOT:
        tl.static_assert(not NORM)
        product, up = packed_dots(
            x, t < rows, column, column + COLUMNS, weight, scales, zeros, order, KIND, HIGH, WIDE,
            ZEROS, ORDER, SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, GATE != "",
        )  # fmt: skip
        product, up = tl.trans(product), tl.trans(up)
    elif KIND != "":
        product, up = packed_sums(
            x, column, column + COLUMNS, weight, scales, zeros, order, factor, eps, rows >> 31,
            KIND, HIGH, WIDE, ZEROS, ORDER, SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, UNROLL, NORM,
            GATE != "",
        )  # fmt: skip
    elif DOT:
        tl.static_assert(not NORM)
        product, up = _dots(
            x, weights, others, SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, UNROLL, GATE != "",
        )  # fmt: skip
    else:
        product, up = _sums(
            x, weights, others, factor, eps, SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, UNROLL,
            NORM, GATE != "",
        )  # fmt: skip

    if BIAS:
        product += tl.load(bias + n, mask=live, other=0.0).to(tl.float32)[None, :]
    if GATE != "":
        if BIAS:
            up += tl.load(bias + COLUMNS + n, mask=live, other=0.0).to(tl.float32)[None, :]
        product = activated(product, GATE) * up
    inside = (t < rows)[:, None] & live[None, :]
    if ADD:
        added = residual + t[:, None] * residual_stride + n[None, :]
        product += tl.load(added, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + t[:, None] * COLUMNS + n[None, :], product.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def project_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, factor: tl.tensor, cos: tl.tensor,
    sin: tl.tensor, slots: tl.tensor, q: tl.tensor, keys: tl.tensor, values: tl.tensor,
    x_stride: tl.tensor, weight_stride: tl.tensor, cos_stride: tl.tensor, sin_stride: tl.tensor,
    eps: tl.tensor, rows: tl.tensor, scales: tl.tensor, zeros: tl.tensor, order: tl.tensor,
    KIND: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, ZEROS: tl.constexpr,
    ORDER: tl.constexpr, QUERY: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr,
    SIZE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, UNROLL: tl.constexpr, BIAS: tl.constexpr, NORM: tl.constexpr,
    ROTATES: tl.constexpr, INTERLEAVED: tl.constexpr, STEP: tl.constexpr,
) -> None:  # fmt: skip
    """Compute BLOCK_N pairs (a, b) of a head per program; an angle rotates a pair."""
    blocks: tl.constexpr = DIM // 2 // BLOCK_N
    head = tl.program_id(0) // blocks
    pair = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    t = tl.arange(0, BLOCK_T)
    inside = (t < rows)[:, None]
    at_a = pair * 2 if INTERLEAVED else pair
    at_b = at_a + 1 if INTERLEAVED else at_a + DIM // 2
    column_a, column_b = (head * DIM + at_a).to(tl.int64), (head * DIM + at_b).to(tl.int64)
    x += tl.minimum(t, rows - 1)[:, None] * x_stride  # repeats the last row
    if KIND != "":
        a, b = packed_sums(
            x, column_a, column_b, weight, scales, zeros, order, factor, eps, rows >> 31, KIND,
            HIGH, WIDE, ZEROS, ORDER, SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, UNROLL, NORM, True,
        )  # fmt: skip
    else:
        a, b = _sums(
            x, weight + column_a * weight_stride, weight + column_b * weight_stride, factor, eps,
            SIZE, BLOCK_T, BLOCK_N, BLOCK_K, STAGES, UNROLL, NORM, True,
        )  # fmt: skip

    if BIAS:
        a += tl.load(bias + column_a).to(tl.float32)[None, :]
        b += tl.load(bias + column_b).to(tl.float32)[None, :]
    if ROTATES and head < QUERY + KV:
        angle = pair[None, :] * STEP
        c = tl.load(cos + t[:, None] * cos_stride + angle, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(sin + t[:, None] * sin_stride + angle, mask=inside, other=0.0).to(tl.float32)
        turned = a * c - b * s
        b = b * c + a * s
        a = turned

    if head < QUERY:
        _store(q + (t[:, None] * QUERY + head) * DIM, a, b, at_a, at_b, inside)
    else:
        slot = tl.load(slots + t, mask=t < rows, other=0).to(tl.int64)[:, None] * KV
        if head < QUERY + KV:
            _store(keys + (slot + head - QUERY) * DIM, a, b, at_a, at_b, inside)
        else:
            _store(values + (slot + head - QUERY - KV) * DIM, a, b, at_a, at_b, inside)


@triton.jit
def _store(
    target: tl.tensor, a: tl.tensor, b: tl.tensor, at_a: tl.tensor, at_b: tl.tensor,
    inside: tl.tensor,
) -> None:  # fmt: skip
    """Store pairs; target [BLOCK_T, 1] points to the head of each row."""
    tl.store(target + at_a[None, :], a.to(target.dtype.element_ty), mask=inside)
    tl.store(target + at_b[None, :], b.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _sums(
    x: tl.tensor, weights: tl.tensor, others: tl.tensor, factor: tl.tensor, eps: tl.tensor,
    SIZE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, UNROLL: tl.constexpr, NORM: tl.constexpr, TWO: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Multiply the rows at x [BLOCK_T, 1], normed if asked, by the rows at `weights` and, with TWO,
    at `others`. Returns [BLOCK_T, BLOCK_N] each. Without tensor cores: partial sums per element of
    a block, added at the end."""
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros([BLOCK_T, BLOCK_N, BLOCK_K], tl.float32)
    other_product = tl.zeros([BLOCK_T, BLOCK_N, BLOCK_K], tl.float32)
    squares = tl.zeros([BLOCK_T, 1, BLOCK_K], tl.float32)
    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES, loop_unroll_factor=UNROLL):
        at = (start + k)[None, None, :]
        # True at compile time if BLOCK_K divides SIZE: the loads then have no masks.
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        w = weights[None, :, None] + at
        w = tl.load(w, mask=inside, other=0.0, eviction_policy="evict_first")
        if TWO:
            other_w = others[None, :, None] + at
            other_w = tl.load(other_w, mask=inside, other=0.0, eviction_policy="evict_first")
        numbers = tl.load(x[:, :, None] + at, mask=inside, other=0.0).to(tl.float32)
        if NORM:
            squares += numbers * numbers
            numbers *= tl.load(factor + at, mask=inside, other=0.0).to(tl.float32)
        product += w.to(tl.float32) * numbers
        if TWO:
            other_product += other_w.to(tl.float32) * numbers

    first, second = tl.sum(product, 2), tl.sum(other_product, 2)
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, 2) / SIZE + eps)
        first *= scale
        second *= scale
    return first, second


@triton.jit
def _dots(
    x: tl.tensor, weights: tl.tensor, others: tl.tensor, SIZE: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr, UNROLL: tl.constexpr,
    TWO: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Compute `_sums` on tensor cores, without a norm."""
    k = tl.arange(0, BLOCK_K)
    product = tl.zeros([BLOCK_N, BLOCK_T], tl.float32)
    other_product = tl.zeros([BLOCK_N, BLOCK_T], tl.float32)
    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES, loop_unroll_factor=UNROLL):
        at = (start + k)[None, :]
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        w = tl.load(weights[:, None] + at, mask=inside, other=0.0, eviction_policy="evict_first")
        numbers = tl.trans(tl.load(x + at, mask=inside, other=0.0))
        product = tl.dot(w, numbers, product, input_precision="ieee")
        if TWO:
            other_w = others[:, None] + at
            other_w = tl.load(other_w, mask=inside, other=0.0, eviction_policy="evict_first")
            other_product = tl.dot(other_w, numbers, other_product, input_precision="ieee")

    return tl.trans(product), tl.trans(other_product)


@triton.jit
def activated(gate: tl.tensor, ACTIVATION: tl.constexpr) -> tl.tensor:
    """Apply the activation to a float32 gate."""
    if ACTIVATION == "silu":
        return gate * tl.sigmoid(gate)
    elif ACTIVATION == "gelu":
        return 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    else:
        tl.static_assert(ACTIVATION == "gelu_tanh")
        return gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
