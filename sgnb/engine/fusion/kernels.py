"""The operations of `plain` as Triton kernels, one launch each. Import only where triton is; see
`plain` for the words.

Sums run in float32 and in an order that does not depend on the number of rows, so a row never feels
its neighbours.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..device.precompile import launch
from .types import Angles, AttentionPlan, Backend, Heads, Norm, Rotary

GATE_BLOCK = 1024
"""Numbers that one program gates."""

HEADS_BLOCK = 4
"""Heads that one program rotates."""

ROTATE_WARPS = 2
GATE_WARPS = 4

NORM_WARP = 512
"""Numbers of a row that one warp norms."""


def norm(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """x [..., n], its rows contiguous numbers at any stride if x has two dimensions; else it is
    copied where needed."""
    size = x.shape[-1]
    rows = x if x.dim() == 2 and x.stride(1) == 1 else x.reshape(-1, size)
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    added = out if residual is None else residual.reshape(-1, size)
    block = triton.next_power_of_2(size)
    if len(rows):
        launch(
            _norm_kernel,
            (len(rows),),
            rows,
            norm.factor,
            added,
            out,
            rows.stride(0),
            added.stride(0),
            norm.eps,
            SIZE=size,
            BLOCK=block,
            EARLY=norm.early,
            ADD=residual is not None,
            num_warps=min(16, max(1, block // NORM_WARP)),
        )
    return out.view(x.shape)


def gate(x: Tensor, activation: str) -> Tensor:
    """x [T, 2n], contiguous."""
    rows, size = len(x), x.shape[1] // 2
    out = torch.empty(rows, size, dtype=x.dtype, device=x.device)
    block = min(GATE_BLOCK, triton.next_power_of_2(size))
    if rows:
        launch(
            _gate_kernel, (rows, triton.cdiv(size, block)), x, out, x.stride(0),
            SIZE=size, BLOCK=block, ACTIVATION=activation, num_warps=GATE_WARPS,
        )  # fmt: skip
    return out


def rotate_and_store(
    qkv: Tensor, plan: AttentionPlan, angles: Angles | None, backend: Backend
) -> Tensor:
    """Writes k and v to the pool at `backend.new_slots` itself."""
    query, kv, dim = plan.heads
    cos, sin = angles or (qkv, qkv)
    keys, values, slots = (
        backend.kv.keys[plan.layer],
        backend.kv.values[plan.layer],
        backend.new_slots,
    )
    q = torch.empty(len(qkv), query, dim, dtype=qkv.dtype, device=qkv.device)
    if len(qkv):
        blocks = triton.cdiv(query, HEADS_BLOCK) + 2 * triton.cdiv(kv, HEADS_BLOCK)
        launch(
            _rotate_and_store_kernel,
            (len(qkv), blocks),
            qkv,
            cos,
            sin,
            slots,
            q,
            keys,
            values,
            qkv if plan.q_norm is None else plan.q_norm.factor,
            qkv if plan.k_norm is None else plan.k_norm.factor,
            qkv.stride(0),
            cos.stride(0),
            sin.stride(0),
            0.0 if plan.q_norm is None else plan.q_norm.eps,
            0.0 if plan.k_norm is None else plan.k_norm.eps,
            **_constants(
                plan.heads,
                None if angles is None else plan.rotary,
                0 if angles is None else cos.shape[1],
                None if plan.q_norm is None else plan.q_norm.early,
                None if plan.k_norm is None else plan.k_norm.early,
                HEADS_BLOCK,
            ),
            num_warps=ROTATE_WARPS,
        )
    return q


@cache
def _constants(
    heads: Heads,
    rotary: Rotary | None,
    angles: int,
    q_early: bool | None,
    k_early: bool | None,
    block: int,
) -> dict[str, Any]:
    """early: that of the norm, None for no norm. Made once a shape, because a launch from Python
    has to be quick."""
    pairs = heads.dim // 2 if rotary is None else rotary.pairs(angles)
    rest = heads.dim - 2 * pairs
    return {
        "QUERY": heads.query,
        "KV": heads.kv,
        "DIM": heads.dim,
        "HEADS": block,
        "PAIRS": pairs,
        "PAIRS_BLOCK": triton.next_power_of_2(pairs),
        "REST": rest,
        "REST_BLOCK": triton.next_power_of_2(max(1, rest)),
        "DIM_BLOCK": triton.next_power_of_2(heads.dim),
        "ROTATES": rotary is not None,
        "INTERLEAVED": rotary is not None and rotary.interleaved,
        "STEP": 1 if rotary is None else rotary.step,
        "Q_NORM": q_early is not None,
        "K_NORM": k_early is not None,
        "Q_EARLY": bool(q_early),
        "K_EARLY": bool(k_early),
    }


@triton.jit
def _norm_kernel(
    x: tl.tensor, factor: tl.tensor, residual: tl.tensor, out: tl.tensor,
    x_stride: tl.tensor, residual_stride: tl.tensor, eps: tl.tensor,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr, ADD: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    kind = out.dtype.element_ty
    numbers = tl.load(x + row * x_stride + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(numbers * numbers, 0) / SIZE + eps)
    numbers = _scaled(numbers, scale, tl.load(factor + at, mask=inside, other=0.0), kind, EARLY)
    if ADD:
        numbers += tl.load(residual + row * residual_stride + at, mask=inside, other=0.0).to(
            tl.float32
        )
    tl.store(out + row * SIZE + at, numbers.to(kind), mask=inside)


@triton.jit
def _scaled(
    numbers: tl.tensor, scale: tl.tensor, factor: tl.tensor, kind: tl.constexpr, EARLY: tl.constexpr
) -> tl.tensor:
    """In float32, rounded as transformers rounds."""
    numbers = numbers * scale
    if EARLY:
        numbers = numbers.to(kind).to(tl.float32)
    return (numbers * factor).to(kind).to(tl.float32)


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
    if ACTIVATION == "silu":
        gate = gate * tl.sigmoid(gate)
    elif ACTIVATION == "gelu":
        gate = 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    else:
        tl.static_assert(ACTIVATION == "gelu_tanh")
        gate = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    tl.store(out + row * SIZE + at, (gate * up).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rotate_and_store_kernel(
    qkv: tl.tensor, cos: tl.tensor, sin: tl.tensor, slots: tl.tensor, q: tl.tensor, keys: tl.tensor, values: tl.tensor,
    q_factor: tl.tensor, k_factor: tl.tensor,
    qkv_stride: tl.tensor, cos_stride: tl.tensor, sin_stride: tl.tensor, q_eps: tl.tensor, k_eps: tl.tensor,
    QUERY: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, HEADS: tl.constexpr,
    PAIRS: tl.constexpr, PAIRS_BLOCK: tl.constexpr, REST: tl.constexpr, REST_BLOCK: tl.constexpr,
    DIM_BLOCK: tl.constexpr, ROTATES: tl.constexpr, INTERLEAVED: tl.constexpr, STEP: tl.constexpr,
    Q_NORM: tl.constexpr, K_NORM: tl.constexpr, Q_EARLY: tl.constexpr, K_EARLY: tl.constexpr,
) -> None:  # fmt: skip
    """Program (token, block of heads); blocks are those of q, then of k, then of v."""
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    source = qkv + token * qkv_stride
    row_cos, row_sin = cos + token * cos_stride, sin + token * sin_stride
    q_blocks: tl.constexpr = (QUERY + HEADS - 1) // HEADS
    k_blocks: tl.constexpr = (KV + HEADS - 1) // HEADS
    if block < q_blocks:
        _rotate_heads(
            source, q + token * (QUERY * DIM), row_cos, row_sin, q_factor, q_eps, block * HEADS, QUERY,
            DIM, HEADS, PAIRS, PAIRS_BLOCK, REST, REST_BLOCK, ROTATES, INTERLEAVED, STEP, Q_NORM, Q_EARLY,
        )  # fmt: skip
    else:
        place = tl.load(slots + token).to(tl.int64) * (KV * DIM)
        if block < q_blocks + k_blocks:
            _rotate_heads(
                source + QUERY * DIM, keys + place, row_cos, row_sin, k_factor, k_eps, (block - q_blocks) * HEADS, KV,
                DIM, HEADS, PAIRS, PAIRS_BLOCK, REST, REST_BLOCK, ROTATES, INTERLEAVED, STEP, K_NORM, K_EARLY,
            )  # fmt: skip
        else:
            head = (block - q_blocks - k_blocks) * HEADS + tl.arange(0, HEADS)
            at = tl.arange(0, DIM_BLOCK)
            inside = (head < KV)[:, None] & (at < DIM)[None, :]
            at = head[:, None] * DIM + at[None, :]
            numbers = tl.load(source + (QUERY + KV) * DIM + at, mask=inside)
            tl.store(values + place + at, numbers.to(values.dtype.element_ty), mask=inside)


@triton.jit
def _rotate_heads(
    source: tl.tensor, target: tl.tensor, cos: tl.tensor, sin: tl.tensor, factor: tl.tensor, eps: tl.tensor,
    first: tl.tensor, COUNT: tl.constexpr,
    DIM: tl.constexpr, HEADS: tl.constexpr, PAIRS: tl.constexpr, PAIRS_BLOCK: tl.constexpr,
    REST: tl.constexpr, REST_BLOCK: tl.constexpr, ROTATES: tl.constexpr, INTERLEAVED: tl.constexpr,
    STEP: tl.constexpr, NORM: tl.constexpr, EARLY: tl.constexpr,
) -> None:  # fmt: skip
    """Heads `first` .. first + HEADS - 1 of `COUNT`, from source to target, DIM apart in both."""
    head = first + tl.arange(0, HEADS)
    pair = tl.arange(0, PAIRS_BLOCK)
    inside = (head < COUNT)[:, None] & (pair < PAIRS)[None, :]
    at_a = pair * 2 if INTERLEAVED else pair
    at_b = at_a + 1 if INTERLEAVED else at_a + PAIRS
    heads_a, heads_b = head[:, None] * DIM + at_a[None, :], head[:, None] * DIM + at_b[None, :]
    a = tl.load(source + heads_a, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(source + heads_b, mask=inside, other=0.0).to(tl.float32)
    if REST > 0:
        at_rest = 2 * PAIRS + tl.arange(0, REST_BLOCK)
        inside_rest = (head < COUNT)[:, None] & (at_rest < DIM)[None, :]
        heads_rest = head[:, None] * DIM + at_rest[None, :]
        rest = tl.load(source + heads_rest, mask=inside_rest, other=0.0).to(tl.float32)
    kind = source.dtype.element_ty
    if NORM:
        squares = tl.sum(a * a + b * b, 1)
        if REST > 0:
            squares += tl.sum(rest * rest, 1)
        scale = tl.rsqrt(squares / DIM + eps)[:, None]
        a = _scaled(
            a, scale, tl.load(factor + at_a, mask=pair < PAIRS, other=0.0)[None, :], kind, EARLY
        )
        b = _scaled(
            b, scale, tl.load(factor + at_b, mask=pair < PAIRS, other=0.0)[None, :], kind, EARLY
        )
        if REST > 0:
            rest = _scaled(
                rest,
                scale,
                tl.load(factor + at_rest, mask=at_rest < DIM, other=0.0)[None, :],
                kind,
                EARLY,
            )
    if ROTATES:
        c = tl.load(cos + pair * STEP, mask=pair < PAIRS, other=0.0).to(tl.float32)[None, :]
        s = tl.load(sin + pair * STEP, mask=pair < PAIRS, other=0.0).to(tl.float32)[None, :]
        rotated = a * c - b * s
        b = b * c + a * s
        a = rotated
    tl.store(target + heads_a, a.to(target.dtype.element_ty), mask=inside)
    tl.store(target + heads_b, b.to(target.dtype.element_ty), mask=inside)
    if REST > 0:
        tl.store(target + heads_rest, rest.to(target.dtype.element_ty), mask=inside_rest)
