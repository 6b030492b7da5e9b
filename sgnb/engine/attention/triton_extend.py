"""Prefill kernel: query tiles of neighbouring tokens of a request, against all visible tokens.

A tile reads the request's KV from position 0: first unmasked blocks visible to every row, then the
masked blocks on the causal diagonal, or to the end of a sequence whose rows see each other. With a
window, all blocks are masked, from the first visible block on. No prefix sharing and no split-KV:
prompts are bound by arithmetic. `planning.plan_extend` documents the table, `triton_softmax.py` the
common parts of the kernels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_softmax import NEG_INF, capped, load_values, online_softmax, scores, sink_factor


@triton.jit
def _extend_blocks(
    row_max: tl.tensor,
    row_sum: tl.tensor,
    acc: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    kv_indices: tl.tensor,
    row_position: tl.tensor,
    last_visible: tl.tensor,
    kv_head: tl.tensor,
    scaling: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    MASKED: tl.constexpr,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """KV positions begin .. end. Not MASKED: whole blocks visible to every row."""
    n = begin + tl.arange(0, BLOCK_N)
    next_slot = tl.load(kv_indices + n, mask=n < end, other=0)

    for start in range(begin, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        slot = next_slot
        next_slot = tl.load(kv_indices + n + BLOCK_N, mask=n + BLOCK_N < end, other=0)
        inside = n < end
        score = scores(query, keys, scales, slot, kv_head, inside, KV_HEADS, KEY_DIM, BLOCK_K)
        score = capped(score, scaling, SOFTCAP)
        if MASKED:
            visible = n[None, :] <= last_visible[:, None]
            if WINDOW > 0:
                visible = visible & (row_position[:, None] - n[None, :] < WINDOW)
            score = tl.where(visible, score, NEG_INF)
        v, v_scale = load_values(
            values, scales, slot, kv_head, inside, not MASKED, query.dtype, KV_HEADS, VALUE_DIM,
            BLOCK_V,
        )  # fmt: skip
        row_max, row_sum, acc = online_softmax(
            score, scaling, v, v_scale, row_max, row_sum, acc, SOFTCAP
        )
    return row_max, row_sum, acc


@triton.jit
def extend_tiles(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    out: tl.tensor,
    extend_items: tl.tensor,
    kv_indices: tl.tensor,
    sinks: tl.tensor,
    q_row: tl.tensor,
    q_head: tl.tensor,
    scaling: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    """Program (KV head, tile): attention of neighbouring tokens to all visible tokens."""
    kv_head = tl.program_id(0)
    entry = extend_items + tl.program_id(1) * 5
    first_row = tl.load(entry).to(tl.int64)
    tokens = tl.load(entry + 1)
    position = tl.load(entry + 2)
    request_kv = kv_indices + tl.load(entry + 3)
    visible_to_all = tl.load(entry + 4)

    m = tl.arange(0, BLOCK_M)
    valid = m // GROUPS < tokens

    # Padding rows repeat the first token of the tile to avoid NaN.
    row = first_row + tl.where(valid, m // GROUPS, 0)
    row_position = position + tl.where(valid, m // GROUPS, 0)
    last_visible = tl.maximum(row_position, visible_to_all)
    end = tl.maximum(position + tokens, visible_to_all + 1)
    head = kv_head * GROUPS + m % GROUPS
    i = tl.arange(0, BLOCK_K)
    j = tl.arange(0, BLOCK_V)
    query = tl.load(
        q + (row * q_row + head * q_head)[:, None] + i[None, :],
        mask=(i < KEY_DIM)[None, :],
        other=0,
    )

    row_max = tl.full([BLOCK_M], NEG_INF, tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
    begin = 0

    if WINDOW > 0:
        begin = tl.maximum(position - (WINDOW - 1), 0) // BLOCK_N * BLOCK_N
    else:
        whole = (position + 1) // BLOCK_N * BLOCK_N
        row_max, row_sum, acc = _extend_blocks(
            row_max, row_sum, acc, query, keys, values, scales, request_kv, row_position,
            last_visible, kv_head, scaling, begin, whole, False, KV_HEADS, KEY_DIM, VALUE_DIM,
            BLOCK_N, BLOCK_K, BLOCK_V, WINDOW, SOFTCAP,
        )  # fmt: skip
        begin = whole
    row_max, row_sum, acc = _extend_blocks(
        row_max, row_sum, acc, query, keys, values, scales, request_kv, row_position, last_visible,
        kv_head, scaling, begin, end, True, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N, BLOCK_K, BLOCK_V,
        WINDOW, SOFTCAP,
    )  # fmt: skip

    result = acc / row_sum[:, None]
    if SINKS:
        result = result * sink_factor(row_max + tl.log2(row_sum), sinks, head, valid)[:, None]
    tl.store(
        out + (row * (KV_HEADS * GROUPS) + head)[:, None] * VALUE_DIM + j[None, :],
        result.to(out.dtype.element_ty),
        mask=valid[:, None] & (j < VALUE_DIM)[None, :],
    )
