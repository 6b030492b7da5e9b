"""Triton kernel of `invariant`: tiles of x times the transpose of weight, summed over K from front
to back.

Each output is a single chain of tensor-core additions, 16 terms of K at a time, for every tile
size. Splitting K over programs would change the bits, and tile sizes without warp-group
instructions (64 rows) would too. With TRITON_INTERPRET=1 set before triton is imported, the kernel
runs on the CPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..device.precompile import launch
from .types import GemmTiling

GROUP_M = 8
"""Tiles of rows per group. A group reads equal weights, which stay in the L2 cache."""

MASKED_ROWS = 64
"""Maximum tile height with masked rows. Larger tiles repeat the last row, which is cheaper."""


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None, tiling: GemmTiling) -> Tensor:
    """Return x [T, K] times weight [N, K], plus bias [N], as a new tensor; contiguous rows."""
    (rows, size), columns = x.shape, len(weight)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(rows, tiling.block_m) * triton.cdiv(columns, tiling.block_n)
    if tiles:
        launch(
            _multiply_kernel, (tiles,), x, weight, x if bias is None else bias, out, rows,
            x.stride(0), weight.stride(0), COLUMNS=columns, SIZE=size, BLOCK_M=tiling.block_m,
            BLOCK_N=tiling.block_n, BLOCK_K=tiling.block_k, GROUP_M=GROUP_M,
            MASK=tiling.block_m <= MASKED_ROWS, BIAS=bias is not None, num_warps=tiling.warps,
            num_stages=tiling.stages,
        )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _multiply_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, out: tl.tensor, rows: tl.tensor,
    x_stride: tl.tensor, weight_stride: tl.tensor, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    MASK: tl.constexpr, BIAS: tl.constexpr,
) -> None:  # fmt: skip
    down = tl.cdiv(rows, BLOCK_M)
    across = tl.cdiv(COLUMNS, BLOCK_N)
    group = tl.program_id(0) // (GROUP_M * across)
    within = tl.program_id(0) % (GROUP_M * across)
    height = tl.minimum(down - group * GROUP_M, GROUP_M)
    m = (group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_rows = x + tl.minimum(m, rows - 1).to(tl.int64)[:, None] * x_stride
    weight_rows = weight + tl.minimum(n, COLUMNS - 1).to(tl.int64)[:, None] * weight_stride

    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, SIZE, BLOCK_K):
        at = (start + k)[None, :]
        # True at compile time if BLOCK_K divides SIZE: the loads then have no masks.
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        live = inside & (m < rows)[:, None] if MASK else inside
        a = tl.load(x_rows + at, mask=live, other=0.0)
        b = tl.load(weight_rows + at, mask=inside, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee")
    if BIAS:
        acc += tl.load(bias + n, mask=n < COLUMNS, other=0.0).to(tl.float32)[None, :]
    inside_out = (m < rows)[:, None] & (n < COLUMNS)[None, :]
    places = out + m.to(tl.int64)[:, None] * COLUMNS + n[None, :]
    tl.store(places, acc.to(out.dtype.element_ty), mask=inside_out)
