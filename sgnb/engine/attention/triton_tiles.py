"""Decode kernel: persistent CTAs, each with a range of split-KV work items.

A work item is a query tile against a slice of the tile's KV indices. Rows of different requests
with a common prefix share a tile, and the keys and values of the prefix are read once. If a row
does not see every KV token, each KV index has a row mask. A row with KV in several work items has
partial states, merged by `triton_rows.merge_states`.

`schedule.py` documents the tables, `query_tiles.py` the row masks. `triton_softmax.py` has the
functions shared by all kernels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_softmax import NEG_INF, capped, load_values, online_softmax, scores, sink_factor

ITEM_FIELDS = tl.constexpr(8)
"""Columns of the table of work items."""
MASK_BASE = tl.constexpr(256)
"""As in `query_tiles`: a row mask is first + MASK_BASE * count."""
ALL_ROWS = tl.constexpr(256 * 255)
"""Row mask of a KV token visible to all rows."""


@triton.jit
def _tile_blocks(
    row_max: tl.tensor,
    row_sum: tl.tensor,
    acc: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    kv_indices: tl.tensor,
    row_masks: tl.tensor,
    kv_positions: tl.tensor,
    first_mask: tl.tensor,
    tile_row: tl.tensor,
    row_position: tl.tensor,
    position: tl.tensor,
    kv_head: tl.tensor,
    scaling: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    WHOLE: tl.constexpr,
    MASKED: tl.constexpr,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Process the KV tokens begin .. end of a work item. WHOLE: whole blocks only.

    Software pipelining: the indices and row masks of a block are loaded one iteration before the
    keys and values. No load depends on another load of the same iteration, so the compiler can
    pipeline all stages.
    """
    block = tl.arange(0, BLOCK_N)
    n = begin + block
    has_masks = first_mask >= 0
    next_slot = tl.load(kv_indices + n, mask=n < end, other=0)
    next_mask = n
    if MASKED > 0:
        next_mask = tl.load(row_masks + first_mask + n, mask=(n < end) & has_masks, other=0)

    for start in range(begin, end, BLOCK_N):
        n = start + block
        slot, row_mask = next_slot, next_mask
        inside = n < end
        follows = start + BLOCK_N < end if WHOLE else n + BLOCK_N < end
        next_slot = tl.load(kv_indices + n + BLOCK_N, mask=follows, other=0)
        if MASKED > 0:
            next_mask = tl.load(
                row_masks + first_mask + n + BLOCK_N, mask=follows & has_masks, other=0
            )
        score = scores(query, keys, scales, slot, kv_head, inside, KV_HEADS, KEY_DIM, BLOCK_K)
        score = capped(score, scaling, SOFTCAP)
        if MASKED > 0:
            if not WHOLE:
                row_mask = tl.where(has_masks, row_mask, inside.to(tl.int32) * ALL_ROWS)
            # Below the first row the unsigned difference wraps to a large number.
            after = (tile_row[:, None] - (row_mask & (MASK_BASE - 1))[None, :]).to(
                tl.uint32, bitcast=True
            )
            score = tl.where(
                after < (row_mask.to(tl.uint32, bitcast=True) // MASK_BASE)[None, :], score, NEG_INF
            )
        elif not WHOLE:
            score = tl.where(inside[None, :], score, NEG_INF)
        if WINDOW > 0 or CAUSAL:
            slot_position = position + n
            if MASKED > 0:
                masked_position = tl.load(
                    kv_positions + first_mask + n, mask=inside & has_masks, other=0
                )
                slot_position = tl.where(has_masks, masked_position, slot_position)
            back = row_position[:, None] - slot_position[None, :]
            visible = back >= 0
            if WINDOW > 0:
                visible = visible & (back < WINDOW)
            score = tl.where(visible, score, NEG_INF)
        v, v_scale = load_values(
            values, scales, slot, kv_head, inside, WHOLE, query.dtype, KV_HEADS, VALUE_DIM, BLOCK_V
        )
        row_max, row_sum, acc = online_softmax(
            score, scaling, v, v_scale, row_max, row_sum, acc, SOFTCAP
        )
    return row_max, row_sum, acc


@triton.jit
def attend_tiles(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    out: tl.tensor,
    partials: tl.tensor,
    lses: tl.tensor,
    cta_indptr: tl.tensor,
    work_items: tl.tensor,
    scatter_map: tl.tensor,
    kv_indices: tl.tensor,
    row_masks: tl.tensor,
    kv_positions: tl.tensor,
    row_positions: tl.tensor,
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
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """Program (KV head, CTA) computes the work items cta_indptr[CTA] .. cta_indptr[CTA + 1].

    A row in a single work item is written to `out`, any other row to `partials`, with log-sum-exps
    in `lses`, according to the scatter map. CAUSAL: a KV token is hidden from rows at earlier
    positions; otherwise only the row mask hides tokens.
    """
    kv_head = tl.program_id(0)
    m = tl.arange(0, BLOCK_M)
    tile_row = m // GROUPS
    head = kv_head * GROUPS + m % GROUPS

    i = tl.arange(0, BLOCK_K)
    j = tl.arange(0, BLOCK_V)
    for item in range(
        tl.load(cta_indptr + tl.program_id(1)), tl.load(cta_indptr + tl.program_id(1) + 1)
    ):
        entry = work_items + item * ITEM_FIELDS
        first_index = tl.load(entry)
        length = tl.load(entry + 1)
        first_mask = tl.load(entry + 2)
        position = tl.load(entry + 3)
        first_entry = tl.load(entry + 4)
        valid = tile_row < tl.load(entry + 5)
        row = tl.load(scatter_map + (first_entry + tile_row) * 2, mask=valid, other=0).to(tl.int64)
        query = tl.load(
            q + (row * q_row + head * q_head)[:, None] + i[None, :],
            mask=valid[:, None] & (i < KEY_DIM)[None, :],
            other=0,
        )
        row_max = tl.full([BLOCK_M], NEG_INF, tl.float32)
        row_sum = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
        begin = 0
        row_position = tile_row
        if WINDOW > 0 or CAUSAL:
            row_position = tl.load(row_positions + row, mask=valid, other=0)
        if WINDOW > 0:
            # Blocks before every row's window are skipped; blocks stay aligned to the item's start.
            hidden = tl.where(first_mask < 0, tl.load(entry + 6) - (WINDOW - 1) - position, 0)
            begin = tl.minimum(tl.maximum(hidden, 0), length) // BLOCK_N * BLOCK_N
        elif MASKED > 0:
            # KV tokens that all rows see come first, and need no masking.
            begin = tl.load(entry + 7) // BLOCK_N * BLOCK_N
            row_max, row_sum, acc = _tile_blocks(
                row_max, row_sum, acc, query, keys, values, scales, kv_indices + first_index,
                row_masks, kv_positions, first_mask, tile_row, row_position, position, kv_head,
                scaling, 0, begin, True, 0, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N, BLOCK_K,
                BLOCK_V, 0, SOFTCAP, False,
            )  # fmt: skip
        row_max, row_sum, acc = _tile_blocks(
            row_max, row_sum, acc, query, keys, values, scales, kv_indices + first_index, row_masks,
            kv_positions, first_mask, tile_row, row_position, position, kv_head, scaling,
            begin, length, MASKED == 2, MASKED, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N, BLOCK_K,
            BLOCK_V, WINDOW, SOFTCAP, CAUSAL,
        )  # fmt: skip
        result = acc / tl.where(row_sum > 0, row_sum, 1.0)[:, None]
        lse = tl.where(row_sum > 0, row_max + tl.log2(tl.where(row_sum > 0, row_sum, 1.0)), NEG_INF)
        # Loaded after the loop: an earlier load would occupy registers in the loop.
        target = tl.load(scatter_map + (first_entry + tile_row) * 2 + 1, mask=valid, other=-1)
        shared = valid & (target >= 0)
        place = target.to(tl.int64) * (KV_HEADS * GROUPS) + head
        tl.store(lses + place, lse, mask=shared)
        # A row that saw nothing stores only its log-sum-exp of -inf.
        tl.store(
            partials + place[:, None] * VALUE_DIM + j[None, :],
            result.to(partials.dtype.element_ty),
            mask=(shared & (row_sum > 0))[:, None] & (j < VALUE_DIM)[None, :],
        )
        if SINKS:
            result = result * sink_factor(lse, sinks, head, valid)[:, None]
        place = (-1 - target).to(tl.int64) * (KV_HEADS * GROUPS) + head
        tl.store(
            out + place[:, None] * VALUE_DIM + j[None, :],
            result.to(out.dtype.element_ty),
            mask=(valid & (target < 0))[:, None] & (j < VALUE_DIM)[None, :],
        )
