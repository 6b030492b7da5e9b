"""The Triton kernels of attention over the KV pool: store, tiles of rows, merge, extend. Know tables, not requests.

All are flash attention (Dao et al., arXiv 2205.14135) with the keys and values gathered by slot number. The query
heads that share a KV head, of one row after the other, are the rows of a matrix: index m is head m % GROUPS of row
m // GROUPS. Scores and log-sum-exps are in units of log 2. Sums are float32; float32 inputs are multiplied in full
precision. With TRITON_INTERPRET=1 set before triton is imported, the kernels run on the CPU.

What the tables hold is said in `planning.py`. WINDOW and SOFTCAP are 0 for none.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
NONE = tl.constexpr(float("-inf"))
PIECE = tl.constexpr(8)
MARK = tl.constexpr(256)
EVERYONE = tl.constexpr(256 * 255)
MERGED = tl.constexpr(8)


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
def _capped(score: tl.tensor, scaling: tl.tensor, SOFTCAP: tl.constexpr) -> tl.tensor:
    """Scores, when there is a cap scaled and capped."""
    if SOFTCAP > 0:
        # tanh(x) = 1 - 2 / (1 + exp(2 x)), which is right at both infinities.
        return SOFTCAP - (2 * SOFTCAP) / (1 + tl.exp2(score * (scaling * (2 * LOG2E / SOFTCAP))))
    else:
        return score


@triton.jit
def _absorb(
    score: tl.tensor,
    scaling: tl.tensor,
    v: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    SOFTCAP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """One step of the online softmax: the new largest scores, sums of weights, weighted sums of values.

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
def _load_keys(
    keys: tl.tensor,
    slot: tl.tensor,
    kv_head: tl.tensor,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """[slots, BLOCK_K]. What lies past the end of a list is read like any slot: its scores are hidden."""
    i = tl.arange(0, BLOCK_K)
    pointers = keys + (slot.to(tl.int64) * (KV_HEADS * KEY_DIM))[:, None] + (kv_head * KEY_DIM + i)[None, :]
    if KEY_DIM == BLOCK_K:
        return tl.load(pointers)
    else:
        return tl.load(pointers, mask=(i < KEY_DIM)[None, :], other=0)


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
    """[slots, BLOCK_V]; zeros for those that are not inside, for a weight of zero makes no number of an infinity.

    WHOLE: all are inside.
    """
    j = tl.arange(0, BLOCK_V)
    pointers = values + (slot.to(tl.int64) * (KV_HEADS * VALUE_DIM))[:, None] + (kv_head * VALUE_DIM + j)[None, :]
    if WHOLE:
        if VALUE_DIM == BLOCK_V:
            return tl.load(pointers)
        else:
            return tl.load(pointers, mask=(j < VALUE_DIM)[None, :], other=0)
    else:
        return tl.load(pointers, mask=inside[:, None] & (j < VALUE_DIM)[None, :], other=0)


@triton.jit
def _sink_factor(lse: tl.tensor, sinks: tl.tensor, head: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """What an output shrinks by because the sink takes part in the softmax."""
    sink = tl.load(sinks + head, mask=mask, other=0).to(tl.float32) * LOG2E
    return 1 / (1 + tl.exp2(sink - lse))


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

    A block's slots and marks are loaded one iteration before its keys and values are asked for: what does not depend on
    another load of its own iteration can be fetched as many iterations ahead as the pipeline has room for.
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
        k = _load_keys(keys, slot, kv_head, KV_HEADS, KEY_DIM, BLOCK_K)
        score = _capped(tl.dot(query, tl.trans(k), input_precision="ieee"), scaling, SOFTCAP)
        if MARKED > 0:
            if not WHOLE:
                mark = tl.where(has_marks, mark, inside.to(tl.int32) * EVERYONE)
            # An unsigned difference is large below the first of them.
            after = (member[:, None] - (mark & (MARK - 1))[None, :]).to(tl.uint32, bitcast=True)
            score = tl.where(after < (mark.to(tl.uint32, bitcast=True) // MARK)[None, :], score, NONE)
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
        v = _load_values(values, slot, kv_head, inside, WHOLE, KV_HEADS, VALUE_DIM, BLOCK_V)
        top, total, acc = _absorb(score, scaling, v, top, total, acc, SOFTCAP)
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
    """Program (KV head, bin) works through the pieces of its bin: rows of a tile against a stretch of its slots.

    A row's output goes to `out` when this piece is all that it sees, else to `parts`, with its log-sum-exp in `lses`.
    CAUSAL: a slot is hidden from rows of an earlier position; else only by its mark.
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
            # Blocks that no row can see are skipped. They stay whole, counted from the first slot of the piece.
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
            result = result * _sink_factor(lse, sinks, head, live)[:, None]
        place = (-1 - target).to(tl.int64) * (KV_HEADS * GROUPS) + head
        tl.store(
            out + place[:, None] * VALUE_DIM + j[None, :],
            result.to(out.dtype.element_ty),
            mask=(live & (target < 0))[:, None] & (j < VALUE_DIM)[None, :],
        )


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
    """Program (head, row) adds the parts of a row, weighted by log-sum-exp. Rows without parts stay."""
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
            value = tl.load(parts + place[:, None] * VALUE_DIM + j[None, :], mask=seen, other=0).to(tl.float32)
            fade = tl.exp2(top - pivot)
            acc = acc * fade + tl.sum(value * weight[:, None], 0)
            total = total * fade + tl.sum(weight, 0)
            top = higher
        result = acc / total
        if SINKS:
            lse = top + tl.log2(total)
            result = result * _sink_factor(lse, sinks, head + tl.zeros([1], tl.int32), lse == lse)
        place = (row.to(tl.int64) * HEADS + head) * VALUE_DIM
        tl.store(out + place + j, result.to(out.dtype.element_ty), mask=j < VALUE_DIM)


@triton.jit
def _extend_blocks(
    top: tl.tensor,
    total: tl.tensor,
    acc: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slots: tl.tensor,
    row_position: tl.tensor,
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
    """Positions begin .. end of a request. Not MASKED: whole blocks that every row sees."""
    n = begin + tl.arange(0, BLOCK_N)
    next_slot = tl.load(slots + n, mask=n < end, other=0)
    for start in range(begin, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        slot = next_slot
        next_slot = tl.load(slots + n + BLOCK_N, mask=n + BLOCK_N < end, other=0)
        k = _load_keys(keys, slot, kv_head, KV_HEADS, KEY_DIM, BLOCK_K)
        score = _capped(tl.dot(query, tl.trans(k), input_precision="ieee"), scaling, SOFTCAP)
        if MASKED:
            back = row_position[:, None] - n[None, :]
            visible = back >= 0
            if WINDOW > 0:
                visible = visible & (back < WINDOW)
            score = tl.where(visible, score, NONE)
        v = _load_values(values, slot, kv_head, n < end, not MASKED, KV_HEADS, VALUE_DIM, BLOCK_V)
        top, total, acc = _absorb(score, scaling, v, top, total, acc, SOFTCAP)
    return top, total, acc


@triton.jit
def extend_tiles(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    out: tl.tensor,
    tiles: tl.tensor,
    slots: tl.tensor,
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
    """Program (KV head, tile): neighbouring tokens of a request against all that they see."""
    kv_head = tl.program_id(0)
    entry = tiles + tl.program_id(1) * 4
    first_row = tl.load(entry).to(tl.int64)
    tokens = tl.load(entry + 1)
    position = tl.load(entry + 2)
    request_slots = slots + tl.load(entry + 3)
    m = tl.arange(0, BLOCK_M)
    live = m // GROUPS < tokens
    # The rows that pad a tile see what its first token sees, so that they give no NaN.
    row = first_row + tl.where(live, m // GROUPS, 0)
    row_position = position + tl.where(live, m // GROUPS, 0)
    head = kv_head * GROUPS + m % GROUPS
    i = tl.arange(0, BLOCK_K)
    j = tl.arange(0, BLOCK_V)
    query = tl.load(q + (row * q_row + head * q_head)[:, None] + i[None, :], mask=(i < KEY_DIM)[None, :], other=0)
    top = tl.full([BLOCK_M], NONE, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(position - (WINDOW - 1), 0) // BLOCK_N * BLOCK_N
    else:
        whole = (position + 1) // BLOCK_N * BLOCK_N
        top, total, acc = _extend_blocks(
            top, total, acc, query, keys, values, request_slots, row_position, kv_head, scaling, begin,
            whole, False, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N, BLOCK_K, BLOCK_V, WINDOW, SOFTCAP,
        )  # fmt: skip
        begin = whole
    top, total, acc = _extend_blocks(
        top, total, acc, query, keys, values, request_slots, row_position, kv_head, scaling, begin,
        position + tokens, True, KV_HEADS, KEY_DIM, VALUE_DIM, BLOCK_N, BLOCK_K, BLOCK_V, WINDOW, SOFTCAP,
    )  # fmt: skip
    result = acc / total[:, None]
    if SINKS:
        result = result * _sink_factor(top + tl.log2(total), sinks, head, live)[:, None]
    tl.store(
        out + (row * (KV_HEADS * GROUPS) + head)[:, None] * VALUE_DIM + j[None, :],
        result.to(out.dtype.element_ty),
        mask=live[:, None] & (j < VALUE_DIM)[None, :],
    )
