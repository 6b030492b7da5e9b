"""What the attention kernels have in common: KV blocks, online softmax, sinks. Triton functions.

All kernels are flash attention (Dao et al., arXiv 2205.14135) over KV gathered by slot: a program
holds a tile of rows, goes through a list of KV indices block by block, and keeps for each row the
running maximum, the running sum and the accumulator. GQA: the query heads of a KV head are rows of
the same matrix; row m of the matrix is query head m % GROUPS of tile row m // GROUPS.

Scores and log-sum-exps are in units of log 2. Accumulation is in float32; float32 inputs are
multiplied in full precision. WINDOW and SOFTCAP are 0 for none. KEY_DIM and VALUE_DIM are a head's
dimensions, BLOCK_K and BLOCK_V the powers of two above them. With TRITON_INTERPRET=1 set before
triton is imported, all of this runs on the CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
NEG_INF = tl.constexpr(float("-inf"))


@triton.jit
def capped(score: tl.tensor, scaling: tl.tensor, SOFTCAP: tl.constexpr) -> tl.tensor:
    """Logit softcapping; without it the scores as they are, still unscaled."""
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
    row_max: tl.tensor,
    row_sum: tl.tensor,
    acc: tl.tensor,
    SOFTCAP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One iteration: the new running maximum, running sum and accumulator.

    score: scaled only when capped; -inf when hidden. scaling: positive.
    """
    factor = LOG2E if SOFTCAP > 0 else scaling * LOG2E
    new_max = tl.maximum(row_max, tl.max(score, 1) * factor)
    pivot = tl.where(new_max == NEG_INF, 0.0, new_max)  # a row that saw nothing yet
    weight = tl.exp2(score * factor - pivot[:, None])
    rescale = tl.exp2(row_max - pivot)
    row_sum = row_sum * rescale + tl.sum(weight, 1)
    acc = acc * rescale[:, None]
    acc = tl.dot(weight.to(v.dtype), v, acc, input_precision="ieee")
    return new_max, row_sum, acc


@triton.jit
def load_keys(
    keys: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """Load keys, [BLOCK_N, BLOCK_K]. Any slot is read past the end of a list: the scores are
    masked."""
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
    """[BLOCK_N, BLOCK_V]; zeros past the end of the list, since a weight of 0 times inf is NaN.

    WHOLE: nothing lies past the end.
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
    """Factor of an output when the sink takes part in the softmax."""
    sink = tl.load(sinks + head, mask=mask, other=0).to(tl.float32) * LOG2E
    return 1 / (1 + tl.exp2(sink - lse))
