"""Products of a few rows with a weight matrix, with what comes before and after, in one kernel: the norm; the residual,
the gate, or the rotation of heads and their way to the pool.

With so few rows the time is that of reading the weights once, so everything else hides behind that. Needs triton; with
TRITON_INTERPRET=1 set before triton is imported, it runs on the CPU. Knows nothing of models.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from ..rehearsal import launch
from .parts import Angles, AttentionPlan, Backend, Norm
from .skinny_kernels import linear_kernel, project_kernel

SKINNY_ROWS = 8
"""Up to so many rows the kernels here are meant for; they serve more, but then cuBLAS is the better choice."""

ACTIVATIONS = ("silu", "gelu", "gelu_tanh")
"""What `gated` may be: SiLU, GELU by the error function, GELU by tanh."""

DOT_COLUMNS = 16
"""The fewest columns that the tensor cores take."""

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Tiling(NamedTuple):
    """How the work is cut. dot: by tensor cores, else by sums of products. block_n: output columns of a program (of
    gate and up each). block_k: numbers of a row read at a time. stages: of the loads, 1 for none in advance.
    unroll: so many turns of the loop are one, so that loads of the later ones need not wait for the sums of the
    first."""

    dot: bool
    block_n: int
    block_k: int
    warps: int
    stages: int
    unroll: int = 1


def skinny_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    norm: Norm | None = None,
    residual: Tensor | None = None,
    gated: str | None = None,
    tiling: Tiling | None = None,
) -> Tensor:
    """x [T, K] times weight [N, K], plus bias [N], plus residual [T, N]: a new tensor [T, N].

    norm: x is first multiplied by rsqrt(mean(x²) + eps) * factor, in float32 whatever `norm.early` says.
    gated: one of `ACTIVATIONS`; the first half of weight's rows (and of bias) are the gate, the others what it gates,
    and the product is activation(gate) * up, [T, N / 2]. Sums run in float32 and are rounded once, at the end.

    x, weight and residual have one dtype, bfloat16, float16 or float32, and contiguous rows. In float16 with `norm`,
    x * factor must be a float16. tiling: instead of the one chosen by shape. ValueError for other shapes or dtypes.
    """
    _check(x, weight, bias, norm, residual, gated)
    rows, size = x.shape
    columns = len(weight) // 2 if gated else len(weight)
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    if rows == 0 or columns == 0:
        return out
    tiling = tiling or pick_tiling(rows, columns, size, gated is not None, _processors(x.device))
    launch(
        linear_kernel,
        (triton.cdiv(columns, tiling.block_n),),
        x,
        weight,
        x if bias is None else bias,
        x if residual is None else residual,
        x if norm is None else norm.factor,
        out,
        x.stride(0),
        weight.stride(0),
        0 if residual is None else residual.stride(0),
        0.0 if norm is None else norm.eps,
        rows,
        COLUMNS=columns,
        SIZE=size,
        BIAS=bias is not None,
        NORM=norm is not None,
        ADD=residual is not None,
        GATE=gated or "",
        **_constants(tiling, rows),
    )
    return out


def can_project(plan: AttentionPlan, angles: Angles | None) -> bool:
    """Whether `skinny_project` serves. A program has a few of a head's pairs of numbers: a norm of heads needs the
    whole head, a rotation of a part leaves numbers without a partner, and tensor cores take `DOT_COLUMNS` pairs."""
    rotary, dim = plan.rotary, plan.heads.dim
    whole = rotary is None or angles is None or 2 * rotary.pairs(angles[0].shape[1]) == dim
    return whole and plan.q_norm is None and plan.k_norm is None and dim % (2 * DOT_COLUMNS) == 0


def skinny_project(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    plan: AttentionPlan,
    angles: Angles | None,
    backend: Backend,
    *,
    norm: Norm | None = None,
    tiling: Tiling | None = None,
) -> Tensor:
    """x [T, K] times weight [sum of widths, K], plus bias, the heads rotated: q [T, heads, dim].

    k and v go to the pool, at `backend.new_slots`. norm: of x, as in `skinny_linear`. Sums and rotations are in
    float32. Only where `can_project`; angles: None when the plan has no rotation.
    """
    _check(x, weight, bias, norm)
    if len(weight) != sum(plan.heads.widths):
        raise ValueError(f"weight has {len(weight)} rows, not the {sum(plan.heads.widths)} of {plan.heads}")
    query, kv, dim = plan.heads
    rows, size = x.shape
    keys, values = backend.kv.keys[plan.layer], backend.kv.values[plan.layer]
    q = torch.empty(rows, query, dim, dtype=x.dtype, device=x.device)
    if rows == 0:
        return q
    tiling = tiling or pick_projection(rows, size)
    rotary = None if angles is None else plan.rotary
    cos, sin = angles or (x, x)
    launch(
        project_kernel,
        ((query + 2 * kv) * dim // 2 // tiling.block_n,),
        x,
        weight,
        x if bias is None else bias,
        x if norm is None else norm.factor,
        cos,
        sin,
        backend.new_slots,
        q,
        keys,
        values,
        x.stride(0),
        weight.stride(0),
        cos.stride(0),
        sin.stride(0),
        0.0 if norm is None else norm.eps,
        rows,
        QUERY=query,
        KV=kv,
        DIM=dim,
        SIZE=size,
        BIAS=bias is not None,
        NORM=norm is not None,
        ROTATES=rotary is not None,
        INTERLEAVED=rotary is not None and rotary.interleaved,
        STEP=1 if rotary is None else rotary.step,
        **_constants(tiling, rows),
    )
    return q


@cache
def pick_tiling(rows: int, columns: int, size: int, gated: bool, processors: int) -> Tiling:
    """For a product of so many rows and columns, summed over `size`, on so many processors.

    The best of those tried on an H200 for Llama-8B's products. Few columns want small blocks, for enough programs; many
    want large ones, so that x is not read more often than need be.
    """
    most = triton.next_power_of_2(size)
    few, some = columns <= 32 * processors, columns <= 64 * processors
    if rows == 1 and gated:
        return _one_pair(size, 2048)
    if rows == 1 and few:
        return Tiling(False, 2, min(1024, most), 4, 1, unroll=4 if size > 8192 else 1)
    if rows <= 2 and some and not gated:
        return Tiling(False, 8, min(256, most), 4, 4)
    if few and not gated:
        return Tiling(True, DOT_COLUMNS, max(16, min(256, most)), 1, 6)
    if some and not gated:
        return Tiling(True, 32, max(16, min(128, most)), 2, 6)
    return Tiling(True, 64, max(16, min(128, most)), 4, 3 if gated else 4)


@cache
def pick_projection(rows: int, size: int) -> Tiling:
    """For `skinny_project`; block_n counts pairs. Found as those above."""
    most = triton.next_power_of_2(size)
    if rows == 1:
        return _one_pair(size, 4096)
    if rows == 2:
        return Tiling(False, 4, min(256, most), 4, 3)
    return Tiling(True, DOT_COLUMNS, max(16, min(256, most)), 1, 3)


def _one_pair(size: int, longest: int) -> Tiling:
    """Two columns a program, and many loads at a time: 4,096 numbers of each column, up to `longest` of them in one
    block, which divides `size` where it can."""
    block = min(max(size & -size, 256), triton.next_power_of_2(size), longest)
    unroll = min(4096 // block, triton.cdiv(size, block))
    return Tiling(False, 1, block, max(1, block // 512), 1, unroll)


@cache
def _constants(tiling: Tiling, rows: int) -> dict[str, Any]:
    return {
        "BLOCK_T": max(8 if tiling.dot else 1, triton.next_power_of_2(rows)),
        "BLOCK_N": tiling.block_n,
        "BLOCK_K": tiling.block_k,
        "STAGES": tiling.stages,
        "UNROLL": tiling.unroll,
        "DOT": tiling.dot,
        "num_warps": tiling.warps,
    }


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _check(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Norm | None,
    residual: Tensor | None = None,
    gated: str | None = None,
) -> None:
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or x.shape[1] == 0:
        raise ValueError(f"x is {tuple(x.shape)} and weight {tuple(weight.shape)}: not [T, K] and [N, K]")
    if gated is not None and (gated not in ACTIVATIONS or len(weight) % 2):
        raise ValueError(f"gated is {gated!r} of {ACTIVATIONS}, with {len(weight)} rows of weights")
    columns = len(weight) // 2 if gated else len(weight)
    shapes = {"bias": (bias, (len(weight),)), "residual": (residual, (len(x), columns))}
    if norm is not None:
        shapes["norm"] = norm.factor, (x.shape[1],)
    for name, (tensor, shape) in shapes.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, not {tuple(shape)}")
    matrices = [x, weight] if residual is None else [x, weight, residual]
    if x.dtype not in DTYPES or any(matrix.dtype != x.dtype for matrix in matrices):
        raise ValueError(f"dtypes are {[matrix.dtype for matrix in matrices]}, not one of {DTYPES} for all")
    vectors = [vector for vector in (bias, norm and norm.factor) if vector is not None]
    if any(tensor.stride(-1) != 1 for tensor in (*matrices, *vectors) if tensor.shape[-1] > 1):
        raise ValueError("rows must be contiguous")
