"""Kernels with one program for each row: writing new keys and values to the pool, and merging the
partial states of split KV.

A state is attention over a part of the KV that a row sees, with the log-sum-exp of its scores.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..cache.fp8_kernels import store_heads
from .triton_softmax import NEG_INF, sink_factor

MERGE_BLOCK = tl.constexpr(8)
"""States merged per iteration."""


@triton.jit
def store_rows(
    k: tl.tensor,
    v: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    new_slots: tl.tensor,
    k_row: tl.tensor,
    k_head: tl.tensor,
    v_row: tl.tensor,
    v_head: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
) -> None:
    """Each program writes the keys and values of a row to the row's slot."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(new_slots + row)
    heads = tl.arange(0, BLOCK_H)
    head = heads[:, None]
    i = tl.arange(0, BLOCK_K)[None, :]
    j = tl.arange(0, BLOCK_V)[None, :]
    in_k = (head < KV_HEADS) & (i < KEY_DIM)
    in_v = (head < KV_HEADS) & (j < VALUE_DIM)
    new_k = tl.load(k + row * k_row + head * k_head + i, mask=in_k, other=0)
    new_v = tl.load(v + row * v_row + head * v_head + j, mask=in_v, other=0)
    place = keys + (slot * KV_HEADS + head) * KEY_DIM + i
    store_heads(new_k, place, scales, slot, heads, KV_HEADS, 0, in_k)
    place = values + (slot * KV_HEADS + head) * VALUE_DIM + j
    store_heads(new_v, place, scales, slot, heads, KV_HEADS, 1, in_v)


@triton.jit
def merge_states(
    partials: tl.tensor,
    lses: tl.tensor,
    partials_indptr: tl.tensor,
    out: tl.tensor,
    sinks: tl.tensor,
    HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    """Program (head, row) merges the states partials_indptr[row] .. [row + 1] into the row's
    output.

    Rows without states are unchanged.
    """
    head = tl.program_id(0)
    row = tl.program_id(1)
    first = tl.load(partials_indptr + row)
    last = tl.load(partials_indptr + row + 1)

    if first < last:
        j = tl.arange(0, BLOCK_V)
        row_max = tl.full([1], NEG_INF, tl.float32)
        row_sum = tl.zeros([1], tl.float32)
        acc = tl.zeros([BLOCK_V], tl.float32)
        for start in range(first, last, MERGE_BLOCK):
            part = start + tl.arange(0, MERGE_BLOCK)
            place = part.to(tl.int64) * HEADS + head
            lse = tl.load(lses + place, mask=part < last, other=NEG_INF)
            new_max = tl.maximum(row_max, tl.max(lse, 0))
            pivot = tl.where(new_max == NEG_INF, 0.0, new_max)
            weight = tl.exp2(lse - pivot)
            valid = (lse != NEG_INF)[:, None] & (j < VALUE_DIM)[None, :]
            value = tl.load(
                partials + place[:, None] * VALUE_DIM + j[None, :], mask=valid, other=0
            ).to(tl.float32)
            rescale = tl.exp2(row_max - pivot)
            acc = acc * rescale + tl.sum(value * weight[:, None], 0)
            row_sum = row_sum * rescale + tl.sum(weight, 0)
            row_max = new_max
        result = acc / row_sum
        if SINKS:
            lse = row_max + tl.log2(row_sum)
            result = result * sink_factor(lse, sinks, head + tl.zeros([1], tl.int32), lse == lse)
        place = (row.to(tl.int64) * HEADS + head) * VALUE_DIM
        tl.store(out + place + j, result.to(out.dtype.element_ty), mask=j < VALUE_DIM)
