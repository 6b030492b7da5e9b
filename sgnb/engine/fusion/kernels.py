"""Operations of `reference` as Triton kernels, one launch each. The import needs triton.

Sums run in float32, in an order independent of the number of rows: batch-invariant.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..cache.fp8_kernels import head_scale, store_heads, store_scales
from ..device.precompile import launch
from ..quantization.quantize import FP8_MAX
from .skinny_kernels import activated
from .types import Activation, Angles, AttentionPlan, Backend, GatedNorm, Heads, Norm, Rotary

GATE_BLOCK, GATE_WARPS = 1024, 4  # numbers of a program
HEADS_BLOCK, ROTATE_WARPS = 4, 2  # heads of a program
NORM_WARP = 512
"""Elements of a row per warp of the norm kernel."""


def norm(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """Return RMSNorm of x [..., n]; see `reference.norm`. Copies x with strided rows."""
    rows = _rows(x)
    count, size = rows.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    added = rows if residual is None else residual.reshape(-1, size)
    block = triton.next_power_of_2(size)
    if count:
        launch(
            _norm_kernel, (count,), rows, norm.factor, added, out, rows.stride(0),
            added.stride(0), norm.eps, SIZE=size, BLOCK=block, EARLY=norm.early,
            ADD=residual is not None, num_warps=min(16, max(1, block // NORM_WARP)),
        )  # fmt: skip
    return out


def add_norm(x: Tensor, y: Tensor, norm: Norm, scale: float) -> Tensor:
    """Add scale * y to a contiguous x [T, n] in place, and return RMSNorm of x; see
    `reference.add_norm`."""
    out, (rows, size) = torch.empty_like(x), x.shape
    block = triton.next_power_of_2(size)
    if rows:
        launch(
            _add_norm_kernel, (rows,), x, y, norm.factor, out, norm.eps, scale,
            SIZE=size, BLOCK=block, EARLY=norm.early,
            num_warps=min(16, max(1, block // NORM_WARP)),
        )  # fmt: skip
    return out


def quantize_rows(x: Tensor, norm: Norm | None = None) -> tuple[Tensor, Tensor]:
    """Return x [T, n], normed if asked, in FP8, and the scale of each row; see
    `reference.quantize_rows`."""
    rows = _rows(x)
    count, size = rows.shape
    out = torch.empty(count, size, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(count, 1, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(size)

    if count:
        factor, eps, early = norm or (rows, 0.0, False)
        launch(
            _quantize_kernel, (count,), rows, factor, out, scales, rows.stride(0), eps, SIZE=size,
            BLOCK=block, NORM=norm is not None, EARLY=early, LARGEST=FP8_MAX,
            num_warps=min(16, max(1, block // NORM_WARP)),
        )  # fmt: skip
    return out, scales


def gated_norm(x: Tensor, gate: Tensor, plan: GatedNorm) -> Tensor:
    """Return the gated RMSNorm of x [..., n]; see `reference.gated_norm`."""
    rows, gates = _rows(x), _rows(gate)
    count, size = rows.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(plan.group)
    if count:
        launch(
            _gated_norm_kernel, (count, size // plan.group), rows, gates, plan.norm.factor, out,
            rows.stride(0), gates.stride(0), size, plan.norm.eps, SIZE=plan.group, BLOCK=block,
            EARLY=plan.norm.early, GATE_FIRST=plan.gate_first,
            num_warps=min(16, max(1, block // NORM_WARP)),
        )  # fmt: skip
    return out


def _rows(x: Tensor) -> Tensor:
    """Return x [..., n] as [rows, n] with adjacent elements; a view if possible."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def gate(x: Tensor, activation: Activation) -> Tensor:
    """Return activation(gate) * up, [T, n], for a contiguous x [T, 2n]."""
    rows, size = len(x), x.shape[1] // 2
    out = torch.empty(rows, size, dtype=x.dtype, device=x.device)
    block = min(GATE_BLOCK, triton.next_power_of_2(size))
    if rows:
        launch(
            _gate_kernel, (rows, triton.cdiv(size, block)), x, out, x.stride(0),
            SIZE=size, BLOCK=block, ACTIVATION=activation, num_warps=GATE_WARPS,
        )  # fmt: skip
    return out


def rotate(x: Tensor, angles: Angles, rotary: Rotary) -> Tensor:
    """Return x [T, heads, dim] rotated; see `reference.rotate`. Copies x with heads or elements
    apart in memory."""
    count, heads, dim = x.shape
    if x.stride()[1:] != (dim, 1):
        x = x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    cos, sin = angles
    constants = _constants(Heads(heads, 0, dim), rotary, cos.shape[1], None, None)
    names = "DIM", "HEADS", "PAIRS", "PAIRS_BLOCK", "TAIL", "TAIL_BLOCK", "INTERLEAVED", "STEP"
    if count:
        launch(
            _rotate_kernel, (count, triton.cdiv(heads, HEADS_BLOCK)), x, cos, sin, out,
            x.stride(0), cos.stride(0), sin.stride(0), COUNT=heads,
            **{name: constants[name] for name in names}, num_warps=ROTATE_WARPS,
        )  # fmt: skip
    return out


def rotate_and_store(
    qkv: Tensor, plan: AttentionPlan, angles: Angles | None, backend: Backend
) -> Tensor:
    """Norm and rotate the heads of qkv, and store k and v at `backend.new_slots`."""
    query, kv, dim = plan.heads
    q = torch.empty(len(qkv), query, dim, dtype=qkv.dtype, device=qkv.device)
    if not len(qkv):
        return q

    cos, sin = angles or (qkv, qkv)
    q_factor, q_eps, q_early = plan.q_norm or (qkv, 0.0, None)
    k_factor, k_eps, k_early = plan.k_norm or (qkv, 0.0, None)
    keys = backend.kv.keys[plan.layer]
    rotary, width = (None, 0) if angles is None else (plan.rotary, cos.shape[1])
    blocks = triton.cdiv(query, HEADS_BLOCK) + 2 * triton.cdiv(kv, HEADS_BLOCK)
    launch(
        _rotate_and_store_kernel, (len(qkv), blocks), qkv, cos, sin, backend.new_slots, q,
        keys, backend.kv.values[plan.layer], backend.kv.scales.get(plan.layer, keys), q_factor,
        k_factor, qkv.stride(0), cos.stride(0), sin.stride(0), q_eps, k_eps,
        **_constants(plan.heads, rotary, width, q_early, k_early), num_warps=ROTATE_WARPS,
    )  # fmt: skip
    return q


@cache
def _constants(
    heads: Heads, rotary: Rotary | None, angles: int, q_early: bool | None, k_early: bool | None
) -> dict[str, Any]:
    """Return the compile-time constants; cached for short launches. early: None without a norm."""
    query, kv, dim = heads
    pairs = dim // 2 if rotary is None else rotary.pairs(angles)
    tail = dim - 2 * pairs
    power = triton.next_power_of_2

    return {
        "QUERY": query, "KV": kv, "DIM": dim, "HEADS": HEADS_BLOCK, "DIM_BLOCK": power(dim),
        "PAIRS": pairs, "PAIRS_BLOCK": power(pairs),
        "TAIL": tail, "TAIL_BLOCK": power(max(1, tail)),
        "ROTATES": rotary is not None, "INTERLEAVED": rotary is not None and rotary.interleaved,
        "STEP": 1 if rotary is None else rotary.step,
        "Q_NORM": q_early is not None, "K_NORM": k_early is not None,
        "Q_EARLY": bool(q_early), "K_EARLY": bool(k_early),
    }  # fmt: skip


@triton.jit
def _norm_kernel(
    x: tl.tensor, factor: tl.tensor, residual: tl.tensor, out: tl.tensor,
    x_stride: tl.tensor, residual_stride: tl.tensor, eps: tl.tensor,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr, ADD: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    dtype = out.dtype.element_ty
    numbers = tl.load(x + row * x_stride + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(numbers * numbers, 0) / SIZE + eps)
    numbers = _scaled(numbers, scale, tl.load(factor + at, mask=inside, other=0.0), dtype, EARLY)
    if ADD:
        added = tl.load(residual + row * residual_stride + at, mask=inside, other=0.0)
        numbers += added.to(tl.float32)
    tl.store(out + row * SIZE + at, numbers.to(dtype), mask=inside)


@triton.jit
def _add_norm_kernel(
    x: tl.tensor, y: tl.tensor, factor: tl.tensor, out: tl.tensor, eps: tl.tensor,
    scale: tl.tensor, SIZE: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
) -> None:  # fmt: skip
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    row = tl.program_id(0).to(tl.int64) * SIZE + at
    dtype = out.dtype.element_ty
    added = tl.load(y + row, mask=inside, other=0.0).to(tl.float32) * scale
    numbers = (tl.load(x + row, mask=inside, other=0.0).to(tl.float32) + added).to(dtype)
    tl.store(x + row, numbers, mask=inside)
    numbers = numbers.to(tl.float32)
    length = tl.rsqrt(tl.sum(numbers * numbers, 0) / SIZE + eps)
    numbers = _scaled(numbers, length, tl.load(factor + at, mask=inside, other=0.0), dtype, EARLY)
    tl.store(out + row, numbers.to(dtype), mask=inside)


@triton.jit
def _quantize_kernel(
    x: tl.tensor, factor: tl.tensor, out: tl.tensor, scales: tl.tensor, x_stride: tl.tensor,
    eps: tl.tensor, SIZE: tl.constexpr, BLOCK: tl.constexpr, NORM: tl.constexpr,
    EARLY: tl.constexpr, LARGEST: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    numbers = tl.load(x + row * x_stride + at, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.rsqrt(tl.sum(numbers * numbers, 0) / SIZE + eps)
        factors = tl.load(factor + at, mask=inside, other=0.0)
        numbers = _scaled(numbers, scale, factors, x.dtype.element_ty, EARLY)

    largest = tl.max(tl.abs(numbers), 0)
    largest = tl.where(largest == 0, LARGEST, largest)
    tl.store(scales + row, largest / LARGEST)
    numbers *= LARGEST / largest
    tl.store(out + row * SIZE + at, numbers.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gated_norm_kernel(
    x: tl.tensor, gate: tl.tensor, factor: tl.tensor, out: tl.tensor,
    x_stride: tl.tensor, gate_stride: tl.tensor, out_stride: tl.tensor, eps: tl.tensor,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr, GATE_FIRST: tl.constexpr,
) -> None:  # fmt: skip
    """Program (row, group)."""
    row = tl.program_id(0).to(tl.int64)
    element = tl.arange(0, BLOCK)
    inside = element < SIZE
    at = tl.program_id(1) * SIZE + element
    dtype = out.dtype.element_ty
    numbers = tl.load(x + row * x_stride + at, mask=inside, other=0.0).to(tl.float32)
    opened = tl.load(gate + row * gate_stride + at, mask=inside, other=0.0).to(tl.float32)
    opened = activated(opened, "silu")
    if GATE_FIRST:
        numbers = numbers * opened
    scale = tl.rsqrt(tl.sum(numbers * numbers, 0) / SIZE + eps)
    numbers = _scaled(numbers, scale, tl.load(factor + at, mask=inside, other=0.0), dtype, EARLY)
    if not GATE_FIRST:
        numbers = numbers * opened
    tl.store(out + row * out_stride + at, numbers.to(dtype), mask=inside)


@triton.jit
def _scaled(
    numbers: tl.tensor, scale: tl.tensor, factor: tl.tensor, dtype: tl.constexpr,
    EARLY: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return scaled numbers in float32, rounded like transformers."""
    numbers = numbers * scale
    if EARLY:
        numbers = numbers.to(dtype).to(tl.float32)
    return (numbers * factor).to(dtype).to(tl.float32)


@triton.jit
def _gate_kernel(
    x: tl.tensor, out: tl.tensor, x_stride: tl.tensor,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    gate = tl.load(x + row * x_stride + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * x_stride + SIZE + at, mask=inside, other=0.0).to(tl.float32)
    product = activated(gate, ACTIVATION) * up
    tl.store(out + row * SIZE + at, product.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rotate_kernel(
    x: tl.tensor, cos: tl.tensor, sin: tl.tensor, out: tl.tensor, x_stride: tl.tensor,
    cos_stride: tl.tensor, sin_stride: tl.tensor,
    COUNT: tl.constexpr, DIM: tl.constexpr, HEADS: tl.constexpr, PAIRS: tl.constexpr,
    PAIRS_BLOCK: tl.constexpr, TAIL: tl.constexpr, TAIL_BLOCK: tl.constexpr,
    INTERLEAVED: tl.constexpr, STEP: tl.constexpr,
) -> None:  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    _rotate_heads(
        x + token * x_stride, out + token * (COUNT * DIM), x, token, cos + token * cos_stride,
        sin + token * sin_stride, x, 0.0, tl.program_id(1) * HEADS, COUNT, DIM, HEADS, PAIRS,
        PAIRS_BLOCK, TAIL, TAIL_BLOCK, True, INTERLEAVED, STEP, False, False,
    )  # fmt: skip


@triton.jit
def _rotate_and_store_kernel(
    qkv: tl.tensor, cos: tl.tensor, sin: tl.tensor, slots: tl.tensor, q: tl.tensor,
    keys: tl.tensor, values: tl.tensor, scales: tl.tensor, q_factor: tl.tensor, k_factor: tl.tensor,
    qkv_stride: tl.tensor, cos_stride: tl.tensor, sin_stride: tl.tensor, q_eps: tl.tensor,
    k_eps: tl.tensor,
    QUERY: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, HEADS: tl.constexpr,
    PAIRS: tl.constexpr, PAIRS_BLOCK: tl.constexpr, TAIL: tl.constexpr, TAIL_BLOCK: tl.constexpr,
    DIM_BLOCK: tl.constexpr, ROTATES: tl.constexpr, INTERLEAVED: tl.constexpr, STEP: tl.constexpr,
    Q_NORM: tl.constexpr, K_NORM: tl.constexpr, Q_EARLY: tl.constexpr, K_EARLY: tl.constexpr,
) -> None:  # fmt: skip
    """Program (token, block of heads). Blocks of q come first, then k, then v."""
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    source = qkv + token * qkv_stride
    row_cos, row_sin = cos + token * cos_stride, sin + token * sin_stride

    q_blocks: tl.constexpr = (QUERY + HEADS - 1) // HEADS
    k_blocks: tl.constexpr = (KV + HEADS - 1) // HEADS
    if block < q_blocks:
        _rotate_heads(
            source, q + token * (QUERY * DIM), scales, token, row_cos, row_sin, q_factor, q_eps,
            block * HEADS, QUERY, DIM, HEADS, PAIRS, PAIRS_BLOCK, TAIL, TAIL_BLOCK, ROTATES,
            INTERLEAVED, STEP, Q_NORM, Q_EARLY,
        )  # fmt: skip
    else:
        slot = tl.load(slots + token).to(tl.int64)
        if block < q_blocks + k_blocks:
            _rotate_heads(
                source + QUERY * DIM, keys + slot * (KV * DIM), scales, slot, row_cos, row_sin,
                k_factor, k_eps, (block - q_blocks) * HEADS, KV, DIM, HEADS, PAIRS, PAIRS_BLOCK,
                TAIL, TAIL_BLOCK, ROTATES, INTERLEAVED, STEP, K_NORM, K_EARLY,
            )  # fmt: skip
        else:
            head = (block - q_blocks - k_blocks) * HEADS + tl.arange(0, HEADS)
            at = tl.arange(0, DIM_BLOCK)
            inside = (head < KV)[:, None] & (at < DIM)[None, :]
            at = head[:, None] * DIM + at[None, :]
            numbers = tl.load(source + (QUERY + KV) * DIM + at, mask=inside, other=0.0)
            target = values + slot * (KV * DIM) + at
            store_heads(numbers, target, scales, slot, head, KV, 1, inside)


@triton.jit
def _rotate_heads(
    source: tl.tensor, target: tl.tensor, scales: tl.tensor, slot: tl.tensor, cos: tl.tensor,
    sin: tl.tensor, factor: tl.tensor, eps: tl.tensor, first: tl.tensor,
    COUNT: tl.constexpr, DIM: tl.constexpr, HEADS: tl.constexpr,
    PAIRS: tl.constexpr, PAIRS_BLOCK: tl.constexpr, TAIL: tl.constexpr, TAIL_BLOCK: tl.constexpr,
    ROTATES: tl.constexpr, INTERLEAVED: tl.constexpr,
    STEP: tl.constexpr, NORM: tl.constexpr, EARLY: tl.constexpr,
) -> None:  # fmt: skip
    """Norm and rotate heads first .. first + HEADS - 1 of COUNT, from source to target. Heads are
    DIM elements apart. scales, slot: of keys in FP8."""
    head = first + tl.arange(0, HEADS)
    pair = tl.arange(0, PAIRS_BLOCK)
    inside = (head < COUNT)[:, None] & (pair < PAIRS)[None, :]
    at_a = pair * 2 if INTERLEAVED else pair
    at_b = at_a + 1 if INTERLEAVED else at_a + PAIRS
    heads_a, heads_b = head[:, None] * DIM + at_a[None, :], head[:, None] * DIM + at_b[None, :]
    a = tl.load(source + heads_a, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(source + heads_b, mask=inside, other=0.0).to(tl.float32)
    if TAIL > 0:
        at_tail = 2 * PAIRS + tl.arange(0, TAIL_BLOCK)
        inside_tail = (head < COUNT)[:, None] & (at_tail < DIM)[None, :]
        heads_tail = head[:, None] * DIM + at_tail[None, :]
        tail = tl.load(source + heads_tail, mask=inside_tail, other=0.0).to(tl.float32)

    if NORM:
        dtype = source.dtype.element_ty
        squares = tl.sum(a * a + b * b, 1)
        if TAIL > 0:
            squares += tl.sum(tail * tail, 1)
        scale = tl.rsqrt(squares / DIM + eps)[:, None]
        of_a = tl.load(factor + at_a, mask=pair < PAIRS, other=0.0)[None, :]
        of_b = tl.load(factor + at_b, mask=pair < PAIRS, other=0.0)[None, :]
        a = _scaled(a, scale, of_a, dtype, EARLY)
        b = _scaled(b, scale, of_b, dtype, EARLY)
        if TAIL > 0:
            of_tail = tl.load(factor + at_tail, mask=at_tail < DIM, other=0.0)[None, :]
            tail = _scaled(tail, scale, of_tail, dtype, EARLY)

    if ROTATES:
        c = tl.load(cos + pair * STEP, mask=pair < PAIRS, other=0.0).to(tl.float32)[None, :]
        s = tl.load(sin + pair * STEP, mask=pair < PAIRS, other=0.0).to(tl.float32)[None, :]
        rotated = a * c - b * s
        b = b * c + a * s
        a = rotated
    if target.dtype.element_ty == tl.float8e4nv:
        largest = tl.maximum(tl.max(tl.abs(a), 1), tl.max(tl.abs(b), 1))
        if TAIL > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(tail), 1))
        scale = head_scale(largest)
        store_scales(scale, scales, slot, head, COUNT, 0)
        scale = scale.to(tl.float32)[:, None]
        a, b = a / scale, b / scale
        if TAIL > 0:
            tail = tail / scale
    tl.store(target + heads_a, a.to(target.dtype.element_ty), mask=inside)
    tl.store(target + heads_b, b.to(target.dtype.element_ty), mask=inside)
    if TAIL > 0:
        tl.store(target + heads_tail, tail.to(target.dtype.element_ty), mask=inside_tail)
