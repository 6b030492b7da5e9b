"""Triton kernels for grammars: token bitmasks of rows, the state after a token, and rows that
continue from the previous step.

`device_grammars` documents the tables. With TRITON_INTERPRET=1 set before the import of triton, the
kernels run on the CPU.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .. import step_input
from ..device.precompile import launch

BLOCK = 128
"""Number of tokens per program. The longest token determines the time of a program; few tokens are
longer than 20 bytes."""

HEAD = tl.constexpr(8)
"""Number of leading bytes of a token that a single load reads."""

WORDS = tl.constexpr(BLOCK // 32)
RESUMED = 1024
"""Minimum block size, so that all steps of at most 1,024 rows use the same kernel."""

UNKNOWN, WRITTEN, KEPT = (tl.constexpr(i) for i in range(3))
"""Progress of the cached mask of a state: absent, written by the running step, readable by later
steps."""

_PREVIOUS = tl.constexpr(step_input.PREVIOUS)


def resume(
    ids: Tensor, tokens: Tensor, states: Tensor, last: Tensor, sample_rows: Tensor,
    ids_out: Tensor, states_out: Tensor,
) -> None:  # fmt: skip
    """Resolve placeholders: token ids and grammar states that the host did not know at the launch.

    Args:
        ids: Tokens, int32 or int64[rows]; -1 - i for tokens[i].
        tokens: Tokens of the previous step, int64.
        states: Grammar states, int32[rows]; `step_input.PREVIOUS` for last[sample_rows[row]].
        last: Grammar states after the previous step, int32.
        sample_rows: Row of each request in the previous step, int32[rows].
        ids_out: Result, int32 or int64[rows]. May share memory with any input.
        states_out: Result, int32[rows]. May share memory with any input.
    """
    rows = len(ids)
    if rows:
        block = max(RESUMED, triton.next_power_of_2(rows))
        more = last, sample_rows, ids_out, states_out, rows
        launch(_resume, (1,), ids, tokens, states, *more, BLOCK=block)


@triton.jit
def allow(
    out: tl.tensor, stride: tl.tensor, columns: tl.tensor, states: tl.tensor, table: tl.tensor,
    final: tl.tensor, text: tl.tensor, offsets: tl.tensor, heads: tl.tensor, lengths: tl.tensor,
    size: tl.tensor, masks: tl.tensor, words: tl.tensor, progress: tl.tensor, num_cached: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0)
    start = tl.load(states + row)
    if start >= 0:
        block = tl.program_id(1)
        place = tl.arange(0, BLOCK)
        token = block * BLOCK + place
        mask = masks + start.to(tl.int64) * words + block * WORDS
        keeps = (start < num_cached) & (block * BLOCK < size)
        cached = tl.load(progress + start, mask=keeps, other=UNKNOWN)
        if cached == KEPT:
            allowed = (tl.load(mask + place // 32) >> (place % 32)) & 1
        else:
            allowed = _walked(token, start, table, final, text, offsets, heads, lengths, size)
            if keeps:
                bits = allowed << (place % 32)
                for word in tl.static_range(WORDS):
                    tl.store(mask + word, tl.sum(tl.where(place // 32 == word, bits, 0), axis=0))
                tl.store(progress + start, WRITTEN)
        places = out + row.to(tl.int64) * stride + token
        tl.store(places, allowed.to(tl.uint8), mask=token < columns)


@triton.jit
def _walked(
    token: tl.tensor, start: tl.tensor, table: tl.tensor, final: tl.tensor, text: tl.tensor,
    offsets: tl.tensor, heads: tl.tensor, lengths: tl.tensor, size: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Return 1 for each token with a path from `start`, otherwise 0, int32."""
    inside = token < size
    head = tl.load(heads + token, mask=inside, other=0)
    length = tl.load(lengths + token, mask=inside, other=0)
    state = tl.where(length > 0, start, 0)
    done = 0

    walking = state > 0
    while (done < HEAD) & (tl.max(walking.to(tl.int32), axis=0) > 0):
        entry = state * 256 + (head & 255).to(tl.int32)
        state = tl.where(walking, tl.load(table + entry, mask=walking, other=0), state)
        head = head >> 8
        done += 1
        walking = (done < length) & (state > 0)

    byte = text + tl.load(offsets + token, mask=walking, other=0) + done
    while tl.max(walking.to(tl.int32), axis=0) > 0:
        entry = state * 256 + tl.load(byte, mask=walking, other=0).to(tl.int32)
        state = tl.where(walking, tl.load(table + entry, mask=walking, other=0), state)
        byte += 1
        done += 1
        walking = (done < length) & (state > 0)
    return tl.where(length < 0, tl.load(final + start) > 0, state > 0).to(tl.int32)


@triton.jit
def advance(
    states: tl.tensor, tokens: tl.tensor, table: tl.tensor, final: tl.tensor, text: tl.tensor,
    offsets: tl.tensor, lengths: tl.tensor, size: tl.tensor, progress: tl.tensor,
    num_cached: tl.tensor,
) -> None:  # fmt: skip
    row = tl.program_id(0)
    state = tl.load(states + row)
    token = tl.load(tokens + row)

    if state >= 0:
        cached = tl.load(progress + state, mask=state < num_cached, other=UNKNOWN)
        tl.store(progress + state, KEPT, mask=cached == WRITTEN)
        if token >= size:
            state = 0
        else:
            length = tl.load(lengths + token)
            if length < 0:
                state = tl.where(tl.load(final + state) > 0, state, 0)
            else:
                place = tl.load(offsets + token)
                stop = place + length
                state = tl.where(place < stop, state, 0)
                while place < stop:
                    state = tl.load(table + state * 256 + tl.load(text + place).to(tl.int32))
                    place += 1
        tl.store(states + row, state)


@triton.jit(do_not_specialize=["rows"])
def _resume(
    ids: tl.tensor, tokens: tl.tensor, states: tl.tensor, last: tl.tensor,
    sample_rows: tl.tensor, ids_out: tl.tensor, states_out: tl.tensor, rows: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.arange(0, BLOCK)
    inside = row < rows
    token = tl.load(ids + row, mask=inside, other=0)
    chosen = tl.load(tokens + (-1 - token), mask=inside & (token < 0), other=0)
    token = tl.where(token < 0, chosen, token)
    state = tl.load(states + row, mask=inside, other=0)
    carried = inside & (state == _PREVIOUS)
    sample_row = tl.load(sample_rows + row, mask=carried, other=0)
    state = tl.where(carried, tl.load(last + sample_row, mask=carried, other=0), state)
    tl.debug_barrier()  # outputs may be inputs: read everything before the first write
    tl.store(ids_out + row, token, mask=inside)
    tl.store(states_out + row, state, mask=inside)
