"""The Triton kernels of `skinny`: a program makes some columns of the result, for all rows, from their weights.

Each reads its weights once, front to back, in one order whatever the number of rows. `sum_kernel` keeps a partial sum
for each place of a block and adds these up at the end; `dot_kernel` has the tensor cores add.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sum_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, residual: tl.tensor, factor: tl.tensor, out: tl.tensor,
    x_stride: tl.tensor, weight_stride: tl.tensor, residual_stride: tl.tensor, eps: tl.tensor, offset: tl.tensor,
    rows: tl.tensor, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    BIAS: tl.constexpr, NORM: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
    UNROLL: tl.constexpr,
) -> None:  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.minimum(n, COLUMNS - 1).to(tl.int64)
    weights = weight + column * weight_stride
    ups = weight + (column + COLUMNS) * weight_stride
    t = tl.arange(0, BLOCK_T)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_T, BLOCK_N, BLOCK_K], tl.float32)
    acc_up = tl.zeros([BLOCK_T, BLOCK_N, BLOCK_K], tl.float32)
    squares = tl.zeros([BLOCK_T, 1, BLOCK_K], tl.float32)
    places = x + tl.minimum(t, rows - 1)[:, None, None] * x_stride  # again the last row, where there are no more
    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES, loop_unroll_factor=UNROLL):
        at = (start + k)[None, None, :]
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)  # all true where the compiler can see it: loads without masks
        w = tl.load(weights[None, :, None] + at, mask=inside, other=0.0, eviction_policy="evict_first")
        if GATE != "":
            up = tl.load(ups[None, :, None] + at, mask=inside, other=0.0, eviction_policy="evict_first")
        numbers = tl.load(places + at, mask=inside, other=0.0)
        numbers = numbers.to(tl.float32)
        if NORM:
            squares += numbers * numbers
            numbers *= tl.load(factor + at, mask=inside, other=0.0).to(tl.float32) + offset
        acc += w.to(tl.float32) * numbers
        if GATE != "":
            acc_up += up.to(tl.float32) * numbers
    _finish(
        tl.sum(acc, 2), tl.sum(acc_up, 2), tl.sum(tl.sum(squares, 2), 1), t, n, bias, residual, out, residual_stride,
        eps, rows, COLUMNS, SIZE, BIAS, NORM, ADD, GATE,
    )  # fmt: skip


@triton.jit
def dot_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, residual: tl.tensor, factor: tl.tensor, out: tl.tensor,
    x_stride: tl.tensor, weight_stride: tl.tensor, residual_stride: tl.tensor, eps: tl.tensor, offset: tl.tensor,
    rows: tl.tensor, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    BIAS: tl.constexpr, NORM: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
    UNROLL: tl.constexpr,
) -> None:  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.minimum(n, COLUMNS - 1).to(tl.int64)
    weights = weight + column * weight_stride
    ups = weight + (column + COLUMNS) * weight_stride
    t = tl.arange(0, BLOCK_T)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_N, BLOCK_T], tl.float32)
    acc_up = tl.zeros([BLOCK_N, BLOCK_T], tl.float32)
    squares = tl.zeros([BLOCK_T], tl.float32)
    places = x + tl.minimum(t, rows - 1)[:, None] * x_stride
    for start in tl.range(0, SIZE, BLOCK_K, num_stages=STAGES, loop_unroll_factor=UNROLL):
        at = (start + k)[None, :]
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        w = tl.load(weights[:, None] + at, mask=inside, other=0.0, eviction_policy="evict_first")
        numbers = tl.load(places + at, mask=inside, other=0.0)
        if NORM:
            exact = numbers.to(tl.float32)
            squares += tl.sum(exact * exact, 1)
            factors = tl.load(factor + at, mask=inside, other=0.0).to(tl.float32)
            numbers = (exact * (factors + offset)).to(numbers.dtype)
        numbers = tl.trans(numbers)
        acc = tl.dot(w, numbers, acc, input_precision="ieee")
        if GATE != "":
            up = tl.load(ups[:, None] + at, mask=inside, other=0.0, eviction_policy="evict_first")
            acc_up = tl.dot(up, numbers, acc_up, input_precision="ieee")
    _finish(
        tl.trans(acc), tl.trans(acc_up), squares, t, n, bias, residual, out, residual_stride,
        eps, rows, COLUMNS, SIZE, BIAS, NORM, ADD, GATE,
    )  # fmt: skip


@triton.jit
def _finish(
    product: tl.tensor, up: tl.tensor, squares: tl.tensor, t: tl.tensor, n: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, out: tl.tensor, residual_stride: tl.tensor, eps: tl.tensor,
    rows: tl.tensor, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
    BIAS: tl.constexpr, NORM: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
) -> None:  # fmt: skip
    """product and up: [BLOCK_T, BLOCK_N], without the scale of the norm."""
    live = n < COLUMNS
    inside = (t < rows)[:, None] & live[None, :]
    if NORM:
        scale = tl.rsqrt(squares / SIZE + eps)[:, None]
        product *= scale
        up *= scale
    if BIAS:
        product += tl.load(bias + n, mask=live, other=0.0).to(tl.float32)[None, :]
    if GATE != "":
        if BIAS:
            up += tl.load(bias + COLUMNS + n, mask=live, other=0.0).to(tl.float32)[None, :]
        product = activated(product, GATE) * up
    if ADD:
        product += tl.load(residual + t[:, None] * residual_stride + n[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + t[:, None] * COLUMNS + n[None, :], product.to(out.dtype.element_ty), mask=inside)


@triton.jit
def activated(gate: tl.tensor, ACTIVATION: tl.constexpr) -> tl.tensor:
    """gate: float32."""
    if ACTIVATION == "silu":
        return gate * tl.sigmoid(gate)
    elif ACTIVATION == "gelu":
        return 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    else:
        tl.static_assert(ACTIVATION == "gelu_tanh")
        return gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
