"""Skinny GEMMs: a few rows times a weight matrix, with an epilogue (residual, gate, or rotary
embedding and KV pool) in the same kernel. One row also includes a preceding RMSNorm; two rows
include the norm of a QKV projection.

Weights are dense, or packed and decoded in registers (`packed_kernels`). Reading the weights
dominates the time of a few rows and hides the remaining work. Needs triton;
with TRITON_INTERPRET=1 set before triton is imported, the kernels run on the CPU. Knows no models.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..device.precompile import launch
from ..quantization.packed import Kind, PackedWeight
from . import kernels
from .kernel_weights import SUM_CODES, can_sum, dot_block, kernel_weight
from .reference import ACTIVATIONS
from .skinny_kernels import linear_kernel, project_kernel
from .types import DTYPES, SKINNY_ROWS, Activation, Angles, AttentionPlan, Backend, Norm

SUMMED_ROWS = 2
"""Maximum rows for every GEMM, and for QKV projections. Wide GEMMs have up to `SKINNY_ROWS`, on
tensor cores from 3 rows."""

PACKED_ROWS: dict[Kind, int] = {"fp8": 1, "int4": 4, "mxfp4": 4}
"""Maximum rows of packed weights for sums of products."""

PAIR_ROWS: dict[Kind, int] = {"fp8": 1, "int4": 2, "mxfp4": 2}
"""The same where two matrix rows belong to a column: QKV projections, gate and up. Tensor
cores multiply gate and up of FP8 at any number of rows."""

PACKED_DOT_ROWS: dict[Kind, int] = {"fp8": 128, "int4": 64, "mxfp4": 16}
"""Maximum rows of packed weights for tensor cores. Above, decoded weights are multiplied faster."""

NARROW = 24
"""Maximum columns per SM of a narrow GEMM. A narrow GEMM needs small blocks, because tensor-core
tiles give too few programs."""

SMALLEST = 16
"""Minimum columns, and elements of a row, for tensor cores."""

PAIRS = 4
"""Maximum pairs of a head per program of `skinny_project`."""


class SkinnyTiling(NamedTuple):
    """Tile of a program in a skinny GEMM, for all rows."""

    dot: bool  # on tensor cores; otherwise by sums of products
    block_n: int  # output columns, of gate and up each
    block_k: int  # elements of a row per iteration
    warps: int
    stages: int  # of software pipelining; 1 without prefetch
    unroll: int = 1  # of the loop: later loads do not wait for earlier sums
    block_t: int = 0  # rows; 0 for all


def serves(x: Tensor, weight: Tensor | PackedWeight, gated: bool) -> bool:
    """True if `skinny_linear` is faster than cuBLAS for x [T, K] and weight [N, K] with contiguous
    rows.

    Always up to `SUMMED_ROWS`; above, only if the columns give enough programs, because cuBLAS also
    splits K. Packed weights up to `PACKED_DOT_ROWS`, if the kernels can read the layout.
    """
    if isinstance(weight, PackedWeight):
        if projects(x, weight):
            return True
        limit = PACKED_DOT_ROWS[weight.kind]
        return len(x) <= limit and x.stride(1) == 1 and dot_block(weight) > 0
    if x.stride(1) != 1 or weight.stride(1) != 1:
        return False
    columns = len(weight) // 2 if gated else len(weight)
    return len(x) <= (SUMMED_ROWS if columns <= NARROW * _sm_count(x.device) else SKINNY_ROWS)


def projects(x: Tensor, weight: Tensor | PackedWeight) -> bool:
    """True if `skinny_project` is faster than a GEMM with a rotation for x [T, K]."""
    if isinstance(weight, PackedWeight):
        return len(x) <= PAIR_ROWS[weight.kind] and x.stride(1) == 1 and can_sum(weight)
    return len(x) <= SUMMED_ROWS


def skinny_linear(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    residual: Tensor | None = None,
    gated: Activation | None = None,
    tiling: SkinnyTiling | None = None,
) -> Tensor:
    """Return x [T, K] times weight [N, K], plus bias [N], plus residual [T, N], as a new tensor.

    x, a dense weight and residual have equal dtypes (bfloat16, float16 or float32) and contiguous
    rows. Sums run in float32 and are rounded once, at the end. A packed weight needs `can_sum` or
    `dot_block`.

    Args:
        norm: Norm of x; in the same kernel, without intermediate rounding, unless `tiling.dot`.
        gated: The first half of the rows of weight and bias is the gate, the second half is up. The
            product is activation(gate) * up, [T, N / 2].
        tiling: By default chosen by shape.

    Raises:
        ValueError: A shape or dtype is not supported.
    """
    _check(x, weight, bias, norm, residual, gated)
    rows, size = x.shape
    height = weight.shape[0]
    columns = height // 2 if gated else height
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    if rows == 0 or columns == 0:
        return out

    sms = _sm_count(x.device)
    if tiling is None and isinstance(weight, PackedWeight):
        tiling = pick_packed(weight, rows, columns, gated is not None, sms)
    tiling = tiling or pick_tiling(rows, columns, size, gated is not None, sms)
    packing = kernel_weight(weight, x, dot=tiling.dot)
    if norm is not None and tiling.dot:
        x, norm = kernels.norm(x, norm), None
    blocks = triton.cdiv(columns, tiling.block_n) * triton.cdiv(rows, tiling.block_t or rows)
    launch(
        linear_kernel, (blocks,), x, packing.values,
        x if bias is None else bias, x if residual is None else residual,
        x if norm is None else norm.factor, out, x.stride(0),
        packing.values.stride(0), 0 if residual is None else residual.stride(0),
        0.0 if norm is None else norm.eps, rows, *packing.others, **packing.constants,
        COLUMNS=columns, SIZE=size, BIAS=bias is not None, NORM=norm is not None,
        ADD=residual is not None, GATE=gated or "", DOT=tiling.dot, **_constants(tiling, rows),
    )  # fmt: skip
    return out


def can_project(plan: AttentionPlan, angles: Angles | None, kv: KVCache) -> bool:
    """True if `skinny_project` supports the plan. A program computes some pairs of a head: norms
    and scales of an FP8 pool need whole heads, and a partial rotation leaves elements without
    pairs."""
    if kv.kv_dtype != "auto":
        return False
    rotary, dim = plan.rotary, plan.heads.dim
    whole = rotary is None or angles is None or 2 * rotary.pairs(angles[0].shape[1]) == dim
    return whole and plan.q_norm is None and plan.k_norm is None and dim % (2 * PAIRS) == 0


def skinny_project(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None,
    plan: AttentionPlan,
    angles: Angles | None,
    backend: Backend,
    *,
    norm: Norm | None = None,
    tiling: SkinnyTiling | None = None,
) -> Tensor:
    """Project x [T, K] to q, k and v, rotate the heads, and store k and v at `backend.new_slots`.

    Requires `can_project`. Sums and rotations run in float32.

    Args:
        weight: [sum of widths, K].
        angles: None if the plan has no rotary embedding.
        norm: Norm of x, in the same kernel.
        tiling: By default chosen by shape; without `dot`.

    Returns:
        The rotated q, [T, heads, dim].

    Raises:
        ValueError: A shape, dtype or tiling is not supported.
    """
    _check(x, weight, bias, norm)
    query, kv, dim = plan.heads
    if weight.shape[0] != sum(plan.heads.widths):
        raise ValueError(f"weight has {weight.shape[0]} rows, not those of {plan.heads}")
    rows, size = x.shape
    q = torch.empty(rows, query, dim, dtype=x.dtype, device=x.device)
    if rows == 0:
        return q

    packing = kernel_weight(weight, x)
    if tiling is None and isinstance(weight, PackedWeight):
        tiling = pick_sums(weight.kind, weight.block[1], rows, size, pairs=True)
        tiling = tiling._replace(block_n=min(tiling.block_n, PAIRS))
    tiling = tiling or pick_projection(rows, size)
    if tiling.dot or dim // 2 % tiling.block_n:
        raise ValueError(f"{tiling} has tensor cores, or does not divide {dim // 2} pairs")
    rotary = None if angles is None else plan.rotary
    cos, sin = angles or (x, x)
    launch(
        project_kernel, ((query + 2 * kv) * dim // 2 // tiling.block_n,), x, packing.values,
        x if bias is None else bias, x if norm is None else norm.factor, cos, sin,
        backend.new_slots, q, backend.kv.keys[plan.layer], backend.kv.values[plan.layer],
        x.stride(0), packing.values.stride(0), cos.stride(0), sin.stride(0),
        0.0 if norm is None else norm.eps, rows, *packing.others,
        **packing.constants, QUERY=query, KV=kv, DIM=dim, SIZE=size, BIAS=bias is not None,
        NORM=norm is not None, ROTATES=rotary is not None,
        INTERLEAVED=rotary is not None and rotary.interleaved,
        STEP=1 if rotary is None else rotary.step, **_constants(tiling, rows),
    )  # fmt: skip
    return q


@cache
def pick_tiling(rows: int, columns: int, size: int, gated: bool, sms: int) -> SkinnyTiling:
    """Return the tiling of a GEMM of `rows` and `columns`, summed over `size`, with `sms` SMs.

    Tuned on an H200 for models of 0.5B to 14B. Few columns need small blocks, for enough programs;
    many columns need large blocks, for fewer reads of x.
    """

    def block(limit: int) -> int:
        return max(SMALLEST, min(limit, triton.next_power_of_2(size)))

    if gated and rows == 1:
        if size > 3072 and size % 2048:
            return SkinnyTiling(False, 2, 512, 2, 1)
        return _one_pair(size)
    if gated and (rows > SUMMED_ROWS or columns > NARROW * sms):
        # With more than two programs per SM, leave room for a third.
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
    """Return the tiling of `skinny_project`, tuned like `pick_tiling`; block_n counts pairs."""
    if rows == 1 and size < 3072:
        return _one_pair(size)
    return SkinnyTiling(False, PAIRS, min(256, triton.next_power_of_2(size)), 4, 3)


def _one_pair(size: int) -> SkinnyTiling:
    """Return a tiling with two columns per program and many loads in flight: blocks of 256 to 2,048
    elements that divide `size` if a power of two does, unrolled evenly up to 8,192 elements."""
    block = min(max(size & -size, 256), triton.next_power_of_2(size), 2048)
    turns = triton.cdiv(size, block)
    unroll = max(n for n in range(1, 8192 // block + 1) if turns % n == 0)
    return SkinnyTiling(False, 1, block, max(1, block // 512), 1, unroll)


def pick_packed(
    weight: PackedWeight, rows: int, columns: int, gated: bool, sms: int
) -> SkinnyTiling:
    """Return the tiling of a packed weight. Tuned for a model of 8B: FP8 and MXFP4 on an H200, int4
    on an H100."""
    block, max_rows = dot_block(weight), (PAIR_ROWS if gated else PACKED_ROWS)[weight.kind]
    sums = rows <= max_rows and not (gated and weight.kind == "fp8")
    if not block or (sums and can_sum(weight)):
        return pick_sums(weight.kind, weight.block[1], rows, weight.shape[-1], gated)
    return pick_dots(weight.kind, rows, columns, gated, sms)._replace(block_k=block)


@cache
def pick_dots(kind: Kind, rows: int, columns: int, gated: bool, sms: int) -> SkinnyTiling:
    """Return the tiling of a packed weight on tensor cores, without `block_k`.

    Three heights of tiles serve all rows, because each needs another kernel.
    """
    narrow = columns <= 32 * sms
    if rows <= 16 and kind == "int4":
        return SkinnyTiling(True, 64, 0, 4, 4, block_t=16)
    if rows <= 16:
        return SkinnyTiling(True, 32, 0, 4 if narrow else 2, 4, block_t=16)
    if rows <= 64 and columns <= 64 * sms:
        return SkinnyTiling(True, 64, 0, 4, 5, block_t=64)
    if rows <= 64:
        return SkinnyTiling(True, 128, 0, 8, 3, block_t=64)
    if gated or narrow:  # gate and up need twice the registers
        return SkinnyTiling(True, 64, 0, 4, 3, block_t=128)
    return SkinnyTiling(True, 128, 0, 8, 3, block_t=128)


@cache
def pick_sums(kind: Kind, wide: int, rows: int, size: int, pairs: bool) -> SkinnyTiling:
    """Return the tiling of a packed weight without tensor cores.

    A thread has eight elements of x, and a word of codes of each of its matrix rows: inputs and
    codes then have one layout, and nothing goes through shared memory.

    Args:
        wide: Columns that share a scale.
        pairs: Two matrix rows belong to a column: of gate and up, or of a head.
    """
    if kind == "fp8":
        block_n, block, warps = (2, 512, 1) if pairs else (4, 1024, 2)
    elif rows > 1:
        block_n, block, warps = 4 if pairs else 8, 512, 2
    else:
        block_n, block, warps = 8 if kind == "int4" else 4, 2048, 4
    block = max(min(block, triton.next_power_of_2(size)), wide if wide < size else SUM_CODES)
    return SkinnyTiling(False, block_n, block, min(warps, max(1, block // 256)), 1, 2)


@cache
def _constants(tiling: SkinnyTiling, rows: int) -> dict[str, Any]:
    return {
        "BLOCK_T": tiling.block_t or max(8 if tiling.dot else 1, triton.next_power_of_2(rows)),
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
    weight: Tensor | PackedWeight,
    bias: Tensor | None,
    norm: Norm | None,
    residual: Tensor | None = None,
    gated: Activation | None = None,
) -> None:
    if x.dim() != 2 or len(weight.shape) != 2 or x.shape[1] != weight.shape[1] or x.shape[1] == 0:
        shapes = f"x is {tuple(x.shape)} and weight {tuple(weight.shape)}"
        raise ValueError(f"{shapes}: not [T, K] and [N, K]")
    height = weight.shape[0]
    if gated is not None and (gated not in ACTIVATIONS or height % 2):
        allowed = f"one of {tuple(ACTIVATIONS)}, with an even number of weight's rows"
        raise ValueError(f"gated is {gated!r}, with {height} rows: not {allowed}")
    if isinstance(weight, PackedWeight) and not (can_sum(weight) or dot_block(weight)):
        raise ValueError(f"weight has {weight.shape[1]} columns in groups of {weight.block[1]}")

    columns = height // 2 if gated else height
    shaped = {"bias": (bias, (height,)), "residual": (residual, (len(x), columns))}
    if norm is not None:
        shaped["norm"] = norm.factor, (x.shape[1],)
    for name, (tensor, shape) in shaped.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, not {tuple(shape)}")

    dense = [x, weight] if isinstance(weight, Tensor) else [x]
    matrices = dense if residual is None else [*dense, residual]
    dtypes = [matrix.dtype for matrix in matrices]
    if x.dtype not in DTYPES or {*dtypes} != {x.dtype}:
        raise ValueError(f"dtypes are {dtypes}, not one of {DTYPES} for all")
    vectors = [vector for vector in (bias, norm and norm.factor) if vector is not None]
    if any(tensor.stride(-1) != 1 for tensor in (*matrices, *vectors) if tensor.shape[-1] > 1):
        raise ValueError("rows must be contiguous")
