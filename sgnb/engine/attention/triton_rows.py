"""The kernels that go row by row: storing new keys and values in the pool, and adding the partial
results of a row.

A partial result is the attention of a row to some of the slots that it sees, with the log-sum-exp
of their scores. Each has the weight that its scores have among all.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_softmax import NONE, sink_factor

MERGED = tl.constexpr(8)
"""So many parts are added at a time."""


@triton.jit
def store_rows(
    k: tl.tensor,
    v: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
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
    """One program writes the keys and values of one row to its slot."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(new_slots + row)
    head = tl.arange(0, BLOCK_H)[:, None]
    i = tl.arange(0, BLOCK_K)[None, :]
    j = tl.arange(0, BLOCK_V)[None, :]
    in_k = (head < KV_HEADS) & (i < KEY_DIM)
    in_v = (head < KV_HEADS) & (j < VALUE_DIM)
    new_k = tl.load(k + row * k_row + head * k_head + i, mask=in_k)
    new_v = tl.load(v + row * v_row + head * v_head + j, mask=in_v)
    tl.store(keys + (slot * KV_HEADS + head) * KEY_DIM + i, new_k, mask=in_k)
    tl.store(values + (slot * KV_HEADS + head) * VALUE_DIM + j, new_v, mask=in_v)


@triton.jit
def merge_parts(
    parts: tl.tensor,
    lses: tl.tensor,
    first_parts: tl.tensor,
    out: tl.tensor,
    sinks: tl.tensor,
    HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    """Program (head, row) adds the parts of a row, weighted by log-sum-exp. Rows without parts
    stay."""
    head = tl.program_id(0)
    row = tl.program_id(1)
    first = tl.load(first_parts + row)
    last = tl.load(first_parts + row + 1)
    if first < last:
        j = tl.arange(0, BLOCK_V)
        top = tl.full([1], NONE, tl.float32)
        total = tl.zeros([1], tl.float32)
        acc = tl.zeros([BLOCK_V], tl.float32)
        for start in range(first, last, MERGED):
            part = start + tl.arange(0, MERGED)
            place = part.to(tl.int64) * HEADS + head
            lse = tl.load(lses + place, mask=part < last, other=NONE)
            higher = tl.maximum(top, tl.max(lse, 0))
            pivot = tl.where(higher == NONE, 0.0, higher)
            weight = tl.exp2(lse - pivot)
            seen = (lse != NONE)[:, None] & (j < VALUE_DIM)[None, :]
            value = tl.load(parts + place[:, None] * VALUE_DIM + j[None, :], mask=seen, other=0).to(
                tl.float32
            )
            fade = tl.exp2(top - pivot)
            acc = acc * fade + tl.sum(value * weight[:, None], 0)
            total = total * fade + tl.sum(weight, 0)
            top = higher
        result = acc / total
        if SINKS:
            lse = top + tl.log2(total)
            result = result * sink_factor(lse, sinks, head + tl.zeros([1], tl.int32), lse == lse)
        place = (row.to(tl.int64) * HEADS + head) * VALUE_DIM
        tl.store(out + place + j, result.to(out.dtype.element_ty), mask=j < VALUE_DIM)
