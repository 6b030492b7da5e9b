"""Skinny GEMMs: a few rows times a weight matrix, in one kernel with the epilogue (residual, gate,
or rotary embedding and the KV pool). For one row also with RMSNorm before, for two with that of q,
k and v.

With so few rows the time is that of reading the weights once, so everything else hides behind that.
Needs triton; with TRITON_INTERPRET=1 set before triton is imported, it runs on the CPU. Knows
nothing of models.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from ..device.precompile import launch
from . import kernels
from .reference import ACTIVATIONS
from .skinny_kernels import linear_kernel, project_kernel
from .types import DTYPES, Activation, Angles, AttentionPlan, Backend, Norm

SUMMED_ROWS = 2  # from here on down every GEMM is skinny, and q, k and v's is so only here
ROWS = 16  # the most of a skinny GEMM, from 3 on with tensor cores

NARROW = 24
"""Columns for each SM: a GEMM with no more is narrow. Sums of it want small blocks, and tensor
cores make too few programs."""

SMALLEST = 16
"""The fewest columns, and numbers of a row, that tensor cores take."""

PAIRS = 4
"""The most pairs of a head that a program of `skinny_project` makes."""


class SkinnyTiling(NamedTuple):
    """A program's part of a skinny GEMM, for all rows."""

    dot: bool  # on tensor cores, else by sums of products
    block_n: int  # output columns, of gate and up each
    block_k: int  # numbers of a row read at a time
    warps: int
    stages: int  # of software pipelining, 1 for no loads in advance
    unroll: int = 1  # of the loop: later loads need not wait for the first sums


def serves(x: Tensor, weight: Tensor, gated: bool) -> bool:
    """Whether `skinny_linear` is the choice for x [T, K] and weight [N, K], and not cuBLAS. Rows
    must be contiguous.

    Up to `SUMMED_ROWS` it is; above, where columns make enough programs: else cuBLAS is better,
    which also splits K.
    """
    if x.stride(1) != 1 or weight.stride(1) != 1:
        return False
    columns = len(weight) // 2 if gated else len(weight)
    return len(x) <= (SUMMED_ROWS if columns <= NARROW * _sm_count(x.device) else ROWS)


def skinny_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    residual: Tensor | None = None,
    gated: Activation | None = None,
    tiling: SkinnyTiling | None = None,
) -> Tensor:
    """x [T, K] times weight [N, K], plus bias [N], plus residual [T, N]: a new tensor [T, N].

    norm: of x, before. In the same kernel, with nothing rounded between, where `tiling` has no
    `dot`. gated: the first half of weight's rows (and of bias) are the gate, the others what it
    gates, and the product is activation(gate) * up, [T, N / 2]. Sums run in float32 and are rounded
    once, at the end.

    x, weight and residual have one dtype, bfloat16, float16 or float32, and contiguous rows.
    tiling: instead of the one chosen by shape. ValueError for other shapes or dtypes.
    """
    _check(x, weight, bias, norm, residual, gated)
    rows, size = x.shape
    columns = len(weight) // 2 if gated else len(weight)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    if rows == 0 or columns == 0:
        return out

    tiling = tiling or pick_tiling(rows, columns, size, gated is not None, _sm_count(x.device))
    if norm is not None and tiling.dot:
        x, norm = kernels.norm(x, norm), None
    launch(
        linear_kernel, (triton.cdiv(columns, tiling.block_n),), x, weight,
        x if bias is None else bias, x if residual is None else residual,
        x if norm is None else norm.factor, out, x.stride(0), weight.stride(0),
        0 if residual is None else residual.stride(0), 0.0 if norm is None else norm.eps, rows,
        COLUMNS=columns, SIZE=size, BIAS=bias is not None, NORM=norm is not None,
        ADD=residual is not None, GATE=gated or "", DOT=tiling.dot, **_constants(tiling, rows),
    )  # fmt: skip
    return out


def can_project(plan: AttentionPlan, angles: Angles | None) -> bool:
    """Whether `skinny_project` serves. A program has a few of a head's pairs of numbers: a norm of
    heads needs the whole head, and a rotation of a part leaves numbers without a partner."""
    rotary, dim = plan.rotary, plan.heads.dim
    whole = rotary is None or angles is None or 2 * rotary.pairs(angles[0].shape[1]) == dim
    return whole and plan.q_norm is None and plan.k_norm is None and dim % (2 * PAIRS) == 0


def skinny_project(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    plan: AttentionPlan,
    angles: Angles | None,
    backend: Backend,
    *,
    norm: Norm | None = None,
    tiling: SkinnyTiling | None = None,
) -> Tensor:
    """The QKV projection: x [T, K] times weight [sum of widths, K], plus bias, the heads rotated:
    q [T, heads, dim].

    k and v go to the pool, at `backend.new_slots`. norm: of x, in the same kernel. Sums and
    rotations are in float32. Only where `can_project`; angles: None when the plan has no rotary
    embedding. tiling: without `dot`.
    """
    _check(x, weight, bias, norm)
    query, kv, dim = plan.heads
    if len(weight) != sum(plan.heads.widths):
        raise ValueError(f"weight has {len(weight)} rows, not those of {plan.heads}")
    rows, size = x.shape
    q = torch.empty(rows, query, dim, dtype=x.dtype, device=x.device)
    if rows == 0:
        return q

    tiling = tiling or pick_projection(rows, size)
    if tiling.dot or dim // 2 % tiling.block_n:
        raise ValueError(f"{tiling} has tensor cores, or does not divide {dim // 2} pairs")
    rotary = None if angles is None else plan.rotary
    cos, sin = angles or (x, x)
    launch(
        project_kernel, ((query + 2 * kv) * dim // 2 // tiling.block_n,), x, weight,
        x if bias is None else bias, x if norm is None else norm.factor, cos, sin,
        backend.new_slots, q, backend.kv.keys[plan.layer], backend.kv.values[plan.layer],
        x.stride(0), weight.stride(0), cos.stride(0), sin.stride(0),
        0.0 if norm is None else norm.eps, rows, QUERY=query, KV=kv, DIM=dim, SIZE=size,
        BIAS=bias is not None, NORM=norm is not None, ROTATES=rotary is not None,
        INTERLEAVED=rotary is not None and rotary.interleaved,
        STEP=1 if rotary is None else rotary.step, **_constants(tiling, rows),
    )  # fmt: skip
    return q


@cache
def pick_tiling(rows: int, columns: int, size: int, gated: bool, sms: int) -> SkinnyTiling:
    """For a GEMM of `rows` and `columns`, summed over `size`, on a GPU with `sms` SMs.

    The best, or nearly, of those tried on an H200 for models of 0.5B to 14B. Few columns want small
    blocks, for enough programs; many want large ones, so that x is not read more often than need
    be.
    """

    def block(most: int) -> int:
        return max(SMALLEST, min(most, triton.next_power_of_2(size)))

    if gated and rows == 1:
        if size > 3072 and size % 2048:
            return SkinnyTiling(False, 2, 512, 2, 1)
        return _one_pair(size)
    if gated and (rows > SUMMED_ROWS or columns > NARROW * sms):
        # More programs than two an SM want room for a third.
        return SkinnyTiling(True, 64, block(64), 4, 4 if columns <= 128 * sms else 3)
    if rows == 1 and columns <= NARROW * sms:
        return SkinnyTiling(False, 1, block(2048), 4, 1, unroll=2)
    if rows == 1 and columns <= 32 * sms:
        return SkinnyTiling(False, 2, block(1024), 4, 1, unroll=4 if size > 8192 else 1)
    if rows <= SUMMED_ROWS and columns <= 64 * sms:
        return SkinnyTiling(False, 4 if columns <= NARROW * sms else 8, block(256), 4, 4)
    if columns <= 32 * sms:
        return SkinnyTiling(True, 16, block(256), 1, 6)
    if columns <= 64 * sms:
        return SkinnyTiling(True, 32, block(128), 2, 6)
    return SkinnyTiling(True, 64, block(128), 4, 4)


@cache
def pick_projection(rows: int, size: int) -> SkinnyTiling:
    """For `skinny_project`; block_n counts pairs. Found as those above."""
    if rows == 1 and size < 3072:
        return _one_pair(size)
    return SkinnyTiling(False, PAIRS, min(256, triton.next_power_of_2(size)), 4, 3)


def _one_pair(size: int) -> SkinnyTiling:
    """Two columns a program, and many loads at a time: blocks of 256 to 2,048 numbers of each
    column, which divide `size` where a power of two does, unrolled as far as leaves no turn over,
    up to 8,192 numbers."""
    block = min(max(size & -size, 256), triton.next_power_of_2(size), 2048)
    turns = triton.cdiv(size, block)
    unroll = max(n for n in range(1, 8192 // block + 1) if turns % n == 0)
    return SkinnyTiling(False, 1, block, max(1, block // 512), 1, unroll)


@cache
def _constants(tiling: SkinnyTiling, rows: int) -> dict[str, Any]:
    return {
        "BLOCK_T": max(8 if tiling.dot else 1, triton.next_power_of_2(rows)),
        "BLOCK_N": tiling.block_n, "BLOCK_K": tiling.block_k, "STAGES": tiling.stages,
        "UNROLL": tiling.unroll, "num_warps": tiling.warps,
    }  # fmt: skip


@cache
def _sm_count(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def _check(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Norm | None,
    residual: Tensor | None = None,
    gated: Activation | None = None,
) -> None:
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or x.shape[1] == 0:
        shapes = f"x is {tuple(x.shape)} and weight {tuple(weight.shape)}"
        raise ValueError(f"{shapes}: not [T, K] and [N, K]")
    if gated is not None and (gated not in ACTIVATIONS or len(weight) % 2):
        known = f"one of {tuple(ACTIVATIONS)}, with an even number of weight's rows"
        raise ValueError(f"gated is {gated!r}, with {len(weight)} rows: not {known}")
    columns = len(weight) // 2 if gated else len(weight)
    shaped = {"bias": (bias, (len(weight),)), "residual": (residual, (len(x), columns))}
    if norm is not None:
        shaped["norm"] = norm.factor, (x.shape[1],)
    for name, (tensor, shape) in shaped.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, not {tuple(shape)}")
    matrices = [x, weight] if residual is None else [x, weight, residual]
    dtypes = [matrix.dtype for matrix in matrices]
    if x.dtype not in DTYPES or {*dtypes} != {x.dtype}:
        raise ValueError(f"dtypes are {dtypes}, not one of {DTYPES} for all")
    vectors = [vector for vector in (bias, norm and norm.factor) if vector is not None]
    if any(tensor.stride(-1) != 1 for tensor in (*matrices, *vectors) if tensor.shape[-1] > 1):
        raise ValueError("rows must be contiguous")
