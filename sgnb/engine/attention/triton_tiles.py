"""The kernel of decodes and other short chunks: tiles of rows, each against the list of all slots
that its rows see.

Rows of different requests share a tile where they share a prefix: its keys and values are read once
for all of them. Where not every row sees every slot, each slot has a mark that says which do. A
tile's list may be cut into pieces, for different programs; then a row has several partial results,
which `triton_rows.merge_parts` adds. `pieces.py` says what the tables hold, `tiles.py` what a mark
is, `triton_softmax.py` what the kernels have in common.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_softmax import NONE, absorb, capped, load_keys, load_values, sink_factor

PIECE = tl.constexpr(8)
"""Columns of the table of pieces."""
MARK = tl.constexpr(256)
"""As `tiles.MARK`."""
EVERYONE = tl.constexpr(256 * 255)
"""The mark of a slot that all rows see."""


@triton.jit
def _tile_blocks(
    top: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slots: tl.tensor,
    marks: tl.tensor,
    mark_positions: tl.tensor,
    first_mark: tl.tensor,
    member: tl.tensor,
    row_position: tl.tensor,
    position: tl.tensor,
    kv_head: tl.tensor,
    scaling: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    WHOLE: tl.constexpr,
    MARKED: tl.constexpr,
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
    """Slots begin .. end of a piece. WHOLE: in whole blocks.

    A block's slots and marks are loaded one iteration before its keys and values are asked for:
    what does not depend on another load of its own iteration can be fetched as many iterations
    ahead as the pipeline has room for.
    """
    block = tl.arange(0, BLOCK_N)
    n = begin + block
    has_marks = first_mark >= 0
    next_slot = tl.load(slots + n, mask=n < end, other=0)
    next_mark = n
    if MARKED > 0:
        next_mark = tl.load(marks + first_mark + n, mask=(n < end) & has_marks, other=0)
    for start in range(begin, end, BLOCK_N):
        n = start + block
        slot, mark = next_slot, next_mark
        inside = n < end
        follows = start + BLOCK_N < end if WHOLE else n + BLOCK_N < end
        next_slot = tl.load(slots + n + BLOCK_N, mask=follows, other=0)
        if MARKED > 0:
            next_mark = tl.load(marks + first_mark + n + BLOCK_N, mask=follows & has_marks, other=0)
        k = load_keys(keys, slot, kv_head, KV_HEADS, KEY_DIM, BLOCK_K)
        score = capped(tl.dot(query, tl.trans(k), input_precision="ieee"), scaling, SOFTCAP)
        if MARKED > 0:
            if not WHOLE:
                mark = tl.where(has_marks, mark, inside.to(tl.int32) * EVERYONE)
            # An unsigned difference is large below the first of them.
            after = (member[:, None] - (mark & (MARK - 1))[None, :]).to(tl.uint32, bitcast=True)
            score = tl.where(
                after < (mark.to(tl.uint32, bitcast=True) // MARK)[None, :], score, NONE
            )
        elif not WHOLE:
            score = tl.where(inside[None, :], score, NONE)
        if WINDOW > 0 or CAUSAL:
            slot_position = position + n
            if MARKED > 0:
                own = tl.load(mark_positions + first_mark + n, mask=inside & has_marks, other=0)
                slot_position = tl.where(has_marks, own, slot_position)
            back = row_position[:, None] - slot_position[None, :]
            visible = back >= 0
            if WINDOW > 0:
                visible = visible & (back < WINDOW)
            score = tl.where(visible, score, NONE)
        v = load_values(values, slot, kv_head, inside, WHOLE, KV_HEADS, VALUE_DIM, BLOCK_V)
        top, total, acc = absorb(score, scaling, v, top, total, acc, SOFTCAP)
    return top, total, acc


@triton.jit
def attend_tiles(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    out: tl.tensor,
    parts: tl.tensor,
    lses: tl.tensor,
    bins: tl.tensor,
    pieces: tl.tensor,
    pairs: tl.tensor,
    slots: tl.tensor,
    marks: tl.tensor,
    mark_positions: tl.tensor,
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
    MARKED: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """Program (KV head, bin) works through the pieces of its bin: rows of a tile against a stretch
    of its slots.

    A row's output goes to `out` when this piece is all that it sees, else to `parts`, with its
    log-sum-exp in `lses`. CAUSAL: a slot is hidden from rows of an earlier position; else only by
    its mark.
    """
    kv_head = tl.program_id(0)
    m = tl.arange(0, BLOCK_M)
    member = m // GROUPS
    head = kv_head * GROUPS + m % GROUPS
    i = tl.arange(0, BLOCK_K)
    j = tl.arange(0, BLOCK_V)
    for piece in range(tl.load(bins + tl.program_id(1)), tl.load(bins + tl.program_id(1) + 1)):
        entry = pieces + piece * PIECE
        first_slot = tl.load(entry)
        length = tl.load(entry + 1)
        first_mark = tl.load(entry + 2)
        position = tl.load(entry + 3)
        first_pair = tl.load(entry + 4)
        live = member < tl.load(entry + 5)
        row = tl.load(pairs + (first_pair + member) * 2, mask=live, other=0).to(tl.int64)
        query = tl.load(
            q + (row * q_row + head * q_head)[:, None] + i[None, :],
            mask=live[:, None] & (i < KEY_DIM)[None, :],
            other=0,
        )
        top = tl.full([BLOCK_M], NONE, tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
        begin = 0
        row_position = member
        if WINDOW > 0 or CAUSAL:
            row_position = tl.load(row_positions + row, mask=live, other=0)
        if WINDOW > 0:
            # Blocks that no row can see are skipped. They stay whole, counted from the first slot
            # of the piece.
            hidden = tl.where(first_mark < 0, tl.load(entry + 6) - (WINDOW - 1) - position, 0)
            begin = tl.minimum(tl.maximum(hidden, 0), length) // BLOCK_N * BLOCK_N
        elif MARKED > 0:
            # The slots that all rows see come first.
            begin = tl.load(entry + 7) // BLOCK_N * BLOCK_N
            top, total, acc = _tile_blocks(
                top, total, acc, query, keys, values, slots + first_slot, marks, mark_positions, first_mark, member,
                row_position, position, kv_head, scaling, 0, begin, True, 0, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N,
                BLOCK_K, BLOCK_V, 0, SOFTCAP, False,
            )  # fmt: skip
        top, total, acc = _tile_blocks(
            top, total, acc, query, keys, values, slots + first_slot, marks, mark_positions, first_mark, member,
            row_position, position, kv_head, scaling, begin, length, MARKED == 2, MARKED, KV_HEADS, KEY_DIM, VALUE_DIM,
            BLOCK_N, BLOCK_K, BLOCK_V, WINDOW, SOFTCAP, CAUSAL,
        )  # fmt: skip
        result = acc / tl.where(total > 0, total, 1.0)[:, None]
        lse = tl.where(total > 0, top + tl.log2(tl.where(total > 0, total, 1.0)), NONE)
        # Where the results go is loaded now: it would take registers from the loop.
        target = tl.load(pairs + (first_pair + member) * 2 + 1, mask=live, other=-1)
        shared = live & (target >= 0)
        place = target.to(tl.int64) * (KV_HEADS * GROUPS) + head
        tl.store(lses + place, lse, mask=shared)
        # What a row did not see is not stored: its log-sum-exp says so.
        tl.store(
            parts + place[:, None] * VALUE_DIM + j[None, :],
            result.to(parts.dtype.element_ty),
            mask=(shared & (total > 0))[:, None] & (j < VALUE_DIM)[None, :],
        )
        if SINKS:
            result = result * sink_factor(lse, sinks, head, live)[:, None]
        place = (-1 - target).to(tl.int64) * (KV_HEADS * GROUPS) + head
        tl.store(
            out + place[:, None] * VALUE_DIM + j[None, :],
            result.to(out.dtype.element_ty),
            mask=(live & (target < 0))[:, None] & (j < VALUE_DIM)[None, :],
        )
