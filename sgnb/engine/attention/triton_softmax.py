"""What the attention kernels have in common: blocks of keys and values, the online softmax, sinks.
Triton functions.

All kernels are flash attention (Dao et al., arXiv 2205.14135) with the keys and values gathered by
slot number: a program holds some rows, goes through a list of slots one block at a time, and keeps
for each row the largest score, the sum of weights and the weighted sum of values so far. The query
heads that share a KV head, of one row after the other, are the rows of a matrix: index m is head m
% GROUPS of row m // GROUPS.

Scores and log-sum-exps are in units of log 2. Sums are float32; float32 inputs are multiplied in
full precision. WINDOW and SOFTCAP are 0 for none. KEY_DIM and VALUE_DIM are a head's sizes, BLOCK_K
and BLOCK_V the powers of two above them. With TRITON_INTERPRET=1 set before triton is imported, all
of this runs on the CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
NONE = tl.constexpr(float("-inf"))


@triton.jit
def capped(score: tl.tensor, scaling: tl.tensor, SOFTCAP: tl.constexpr) -> tl.tensor:
    """Scores, when there is a cap scaled and capped."""
    if SOFTCAP > 0:
        # tanh(x) = 1 - 2 / (1 + exp(2 x)), which is right at both infinities.
        return SOFTCAP - (2 * SOFTCAP) / (1 + tl.exp2(score * (scaling * (2 * LOG2E / SOFTCAP))))
    else:
        return score


@triton.jit
def absorb(
    score: tl.tensor,
    scaling: tl.tensor,
    v: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    SOFTCAP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One step of the online softmax: the new largest scores, sums of weights, weighted sums of
    values.

    score: scaled only when capped; -inf when hidden. scaling: positive.
    """
    factor = LOG2E if SOFTCAP > 0 else scaling * LOG2E
    higher = tl.maximum(top, tl.max(score, 1) * factor)
    pivot = tl.where(higher == NONE, 0.0, higher)  # a row that has seen nothing yet
    weight = tl.exp2(score * factor - pivot[:, None])
    fade = tl.exp2(top - pivot)
    total = total * fade + tl.sum(weight, 1)
    acc = acc * fade[:, None]
    acc = tl.dot(weight.to(v.dtype), v, acc, input_precision="ieee")
    return higher, total, acc


@triton.jit
def load_keys(
    keys: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """[slots, BLOCK_K]. What lies past the end of a list is read like any slot: its scores are
    hidden."""
    i = tl.arange(0, BLOCK_K)
    pointers = (
        keys
        + (slot.to(tl.int64) * (KV_HEADS * KEY_DIM))[:, None]
        + (kv_head * KEY_DIM + i)[None, :]
    )
    if KEY_DIM == BLOCK_K:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=(i < KEY_DIM)[None, :], other=0)


@triton.jit
def load_values(
    values: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    inside: tl.tensor,
    WHOLE: tl.constexpr,
    KV_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
) -> tl.tensor:
    """[slots, BLOCK_V]; zeros for those that are not inside, for a weight of zero makes no number
    of an infinity.

    WHOLE: all are inside.
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
            return tl.load(pointers, mask=(j < VALUE_DIM)[None, :], other=0)
    else:
        return tl.load(pointers, mask=inside[:, None] & (j < VALUE_DIM)[None, :], other=0)


@triton.jit
def sink_factor(lse: tl.tensor, sinks: tl.tensor, head: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """What an output shrinks by because the sink takes part in the softmax."""
    sink = tl.load(sinks + head, mask=mask, other=0).to(tl.float32) * LOG2E
    return 1 / (1 + tl.exp2(sink - lse))
