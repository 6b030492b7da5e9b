"""Triton functions common to the attention kernels: KV blocks, online softmax, sinks.

All kernels are flash attention (Dao et al., arXiv 2205.14135) over KV gathered by slot. A program
holds a tile of rows and goes through a list of KV indices, block by block. For each row the program
keeps the running maximum, the running sum and the accumulator. GQA: the query heads of a KV head
are rows of the same matrix; row m of the matrix is query head m % GROUPS of tile row m // GROUPS.

Scores and log-sum-exps are in units of log 2. Accumulation is in float32; float32 inputs are
multiplied in full precision. WINDOW and SOFTCAP are 0 for none. KEY_DIM and VALUE_DIM are a head's
dimensions, BLOCK_K and BLOCK_V the powers of two above them. With TRITON_INTERPRET=1 set before
triton is imported, the kernels run on the CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
NEG_INF = tl.constexpr(float("-inf"))


@triton.jit
def capped(score: tl.tensor, scaling: tl.tensor, SOFTCAP: tl.constexpr) -> tl.tensor:
    """Logit softcapping. Without SOFTCAP, return the scores unchanged and unscaled."""
    if SOFTCAP > 0:
        # tanh(x) = 1 - 2 / (1 + exp(2 x)), which is right at both infinities.
        return SOFTCAP - (2 * SOFTCAP) / (1 + tl.exp2(score * (scaling * (2 * LOG2E / SOFTCAP))))
    else:
        return score


@triton.jit
def online_softmax(
    score: tl.tensor,
    scaling: tl.tensor,
    v: tl.tensor,
    v_scale: tl.tensor,
    row_max: tl.tensor,
    row_sum: tl.tensor,
    acc: tl.tensor,
    SOFTCAP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Add a block of KV tokens to the running maximum, running sum and accumulator of each row.

    score: scaled only when capped; -inf when hidden. scaling: positive. v_scale: factor of each row
    of v, [1, BLOCK_N], or 1.0.
    """
    factor = LOG2E if SOFTCAP > 0 else scaling * LOG2E
    new_max = tl.maximum(row_max, tl.max(score, 1) * factor)
    pivot = tl.where(new_max == NEG_INF, 0.0, new_max)  # a row that saw nothing yet
    weight = tl.exp2(score * factor - pivot[:, None])
    rescale = tl.exp2(row_max - pivot)
    row_sum = row_sum * rescale + tl.sum(weight, 1)
    acc = acc * rescale[:, None]
    acc = tl.dot((weight * v_scale).to(v.dtype), v, acc, input_precision="ieee")
    return new_max, row_sum, acc


@triton.jit
def scores(
    query: tl.tensor,
    keys: tl.tensor,
    scales: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    inside: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """Products of query rows and keys, [BLOCK_M, BLOCK_N].

    Products past the end of the list are of arbitrary slots, and the caller masks the products. FP8
    scales multiply the products, because a block has fewer products than key elements. e4m3 numbers
    are exact in the dtype of the query.
    """
    k = _load_keys(keys, slot, kv_head, KV_HEADS, KEY_DIM, BLOCK_K).to(query.dtype)
    product = tl.dot(query, tl.trans(k), input_precision="ieee")
    if keys.dtype.element_ty == tl.float8e4nv:
        product *= load_scales(scales, slot, kv_head, inside, KV_HEADS)[None, :]
    return product


@triton.jit
def _load_keys(
    keys: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """Load keys as stored, [BLOCK_N, BLOCK_K]."""
    i = tl.arange(0, BLOCK_K)
    pointers = (
        keys
        + (slot.to(tl.int64) * (KV_HEADS * KEY_DIM))[:, None]
        + (kv_head * KEY_DIM + i)[None, :]
    )
    if KEY_DIM == BLOCK_K:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=(i < KEY_DIM)[None, :], other=0.0)


@triton.jit
def load_values(
    values: tl.tensor,
    scales: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    inside: tl.tensor,
    WHOLE: tl.constexpr,
    DTYPE: tl.constexpr,
    KV_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Values [BLOCK_N, BLOCK_V] in DTYPE with the factor of each row, as in `online_softmax`.

    The factor multiplies the softmax weights, because a block has fewer weights than value
    elements. Float16 has too few exponents for weights with a factor, so the values are multiplied.
    """
    v = _load_values(values, slot, kv_head, inside, WHOLE, KV_HEADS, VALUE_DIM, BLOCK_V)
    if values.dtype.element_ty != tl.float8e4nv:
        return v, 1.0
    else:
        factor = load_scales(scales, slot, KV_HEADS + kv_head, inside, KV_HEADS)
        if tl.float16 == DTYPE:
            return (v.to(tl.float32) * factor[:, None]).to(DTYPE), 1.0
        else:
            return v.to(DTYPE), factor[None, :]


@triton.jit
def _load_values(
    values: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    inside: tl.tensor,
    WHOLE: tl.constexpr,
    KV_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
) -> tl.tensor:
    """Load values as stored, [BLOCK_N, BLOCK_V]. Rows past the end of the list are zeros, because a
    weight of 0 times inf is NaN.

    WHOLE: all rows lie inside the list.
    """
    j = tl.arange(0, BLOCK_V)
    pointers = (
        values
        + (slot.to(tl.int64) * (KV_HEADS * VALUE_DIM))[:, None]
        + (kv_head * VALUE_DIM + j)[None, :]
    )
    if WHOLE:
        if VALUE_DIM == BLOCK_V:
            return tl.load(pointers)
        else:
            return tl.load(pointers, mask=(j < VALUE_DIM)[None, :], other=0.0)
    else:
        return tl.load(pointers, mask=inside[:, None] & (j < VALUE_DIM)[None, :], other=0.0)


@triton.jit
def load_scales(
    scales: tl.tensor,
    slot: tl.tensor,
    head: tl.tensor,
    inside: tl.tensor,
    KV_HEADS: tl.constexpr,
) -> tl.tensor:
    """Scales [BLOCK_N] of a head, float32. Heads of keys come first, then heads of values; zeros
    past the end of the list, as in `load_values`."""
    pointers = scales + slot.to(tl.int64) * (2 * KV_HEADS) + head
    return tl.load(pointers, mask=inside, other=0).to(tl.float32)


@triton.jit
def sink_factor(lse: tl.tensor, sinks: tl.tensor, head: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Factor of an output when the sink takes part in the softmax."""
    sink = tl.load(sinks + head, mask=mask, other=0).to(tl.float32) * LOG2E
    return 1 / (1 + tl.exp2(sink - lse))
