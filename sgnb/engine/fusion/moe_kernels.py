"""Triton kernels of `moe`: sort of (token, expert) pairs, grouped GEMM, sum per token.

A pair is entry (token, choice) of the routing, with number token * top_k + choice. Launches depend
on shapes only, without reads from the device: the grid covers the largest number of blocks, and
programs without work end at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .packed_dots import INT4_CODES, MXFP4_CODES, packed_dots
from .skinny_kernels import activated


@triton.jit(do_not_specialize=["pairs"])
def order_kernel(
    ids: tl.tensor, order: tl.tensor, indptr: tl.tensor, pairs: tl.tensor,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr, COMPARED: tl.constexpr,
) -> None:  # fmt: skip
    """Stable counting sort by all-to-all comparison; see `moe._Groups`.

    Query q < pairs counts the pairs that precede pair q; query pairs + e counts the pairs that
    precede expert e.
    """
    q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_pair = q < pairs
    key = tl.where(is_pair, tl.load(ids + q, mask=is_pair, other=0).to(tl.int32), q - pairs)
    equals = tl.where(is_pair, q, 0)
    rank = tl.zeros([BLOCK], tl.int32)
    for start in range(0, pairs, COMPARED):
        j = start + tl.arange(0, COMPARED)
        other = tl.load(ids + j, mask=j < pairs, other=EXPERTS + 1).to(tl.int32)
        lower = other[None, :] < key[:, None]
        lower = lower | ((other[None, :] == key[:, None]) & (j[None, :] < equals[:, None]))
        rank += tl.sum(lower.to(tl.int32), 1)
    tl.store(order + rank, q, mask=is_pair)
    tl.store(indptr + (q - pairs), rank, mask=(q >= pairs) & (q <= pairs + EXPERTS))


@triton.jit
def grouped_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, scales: tl.tensor, order: tl.tensor,
    indptr: tl.tensor, out: tl.tensor, x_stride: tl.tensor, expert_stride: tl.tensor,
    column_stride: tl.tensor, term_stride: tl.tensor, block_scales: tl.tensor, zeros: tl.tensor,
    inputs: tl.tensor, KIND: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    ZEROS: tl.constexpr, ORDER: tl.constexpr, EXPERTS: tl.constexpr, EXPERTS_BLOCK: tl.constexpr,
    TOP_K: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr, GROUP_M: tl.constexpr,
    BIAS: tl.constexpr, GATE: tl.constexpr, LAST: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply a block of an expert's pairs by a block of columns, front to back over SIZE.

    Without LAST, x has a row per token, and row p of out is the pair at sorted position p. With
    LAST, x has a row per sorted position, and row p of out is pair p times scales[p]. KIND: of
    packed weights with `block_scales`, `zeros` and the order `inputs`; "" for dense weights.
    """
    experts = tl.arange(0, EXPERTS_BLOCK)
    first = tl.load(indptr + experts, mask=experts < EXPERTS, other=0)
    last = tl.load(indptr + experts + 1, mask=experts < EXPERTS, other=0)
    blocks = (last - first + BLOCK_M - 1) // BLOCK_M
    ends = tl.cumsum(blocks, 0)
    down = tl.sum(blocks, 0)
    across = tl.cdiv(COLUMNS, BLOCK_N)
    if tl.program_id(0) < down * across:
        group = tl.program_id(0) // (GROUP_M * across)
        within = tl.program_id(0) % (GROUP_M * across)
        height = tl.minimum(down - group * GROUP_M, GROUP_M)
        block = group * GROUP_M + within % height
        n = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
        expert = tl.sum((ends <= block).to(tl.int32), 0)
        mine = experts == expert
        begin = tl.sum(tl.where(mine, first + (block - ends + blocks) * BLOCK_M, 0), 0)
        place = begin + tl.arange(0, BLOCK_M)
        live = place < tl.sum(tl.where(mine, last, 0), 0)
        pair = tl.load(order + place, mask=live, other=0)
        row = place if LAST else pair // TOP_K
        rows = x + row.to(tl.int64)[:, None] * x_stride
        if KIND == "":
            matrix = weight + expert.to(tl.int64) * expert_stride
            acc, acc_up = _dots(
                rows, live, matrix, n, column_stride, term_stride, COLUMNS, SIZE, BLOCK_M, BLOCK_N,
                BLOCK_K, GATE != "",
            )  # fmt: skip
        else:
            outputs: tl.constexpr = 2 * COLUMNS if GATE != "" else COLUMNS
            codes: tl.constexpr = INT4_CODES if KIND == "int4" else MXFP4_CODES
            words: tl.constexpr = SIZE if KIND == "fp8" else SIZE // codes
            groups: tl.constexpr = (outputs + HIGH - 1) // HIGH * ((SIZE + WIDE - 1) // WIDE)
            at = expert.to(tl.int64)
            column = tl.minimum(n, COLUMNS - 1)
            acc, acc_up = packed_dots(
                rows, live, column, column + COLUMNS, weight + at * outputs * words,
                block_scales + at * groups, zeros + at * groups, inputs + at * SIZE, KIND, HIGH,
                WIDE, ZEROS, ORDER, SIZE, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, GATE != "",
            )  # fmt: skip
            acc, acc_up = tl.trans(acc), tl.trans(acc_up)

        if BIAS:
            biases = bias + expert * (2 * COLUMNS if GATE != "" else COLUMNS) + n
            acc += tl.load(biases, mask=n < COLUMNS, other=0.0).to(tl.float32)[None, :]
            if GATE != "":
                ups_bias = tl.load(biases + COLUMNS, mask=n < COLUMNS, other=0.0)
                acc_up += ups_bias.to(tl.float32)[None, :]
        if GATE != "":
            acc = activated(acc, GATE) * acc_up
        if LAST:
            acc *= tl.load(scales + pair, mask=live, other=0.0).to(tl.float32)[:, None]
        target = (pair if LAST else place).to(tl.int64)
        inside_out = live[:, None] & (n < COLUMNS)[None, :]
        places = out + target[:, None] * COLUMNS + n[None, :]
        tl.store(places, acc.to(out.dtype.element_ty), mask=inside_out)


@triton.jit
def _dots(
    rows: tl.tensor, live: tl.tensor, matrix: tl.tensor, n: tl.tensor, column_stride: tl.tensor,
    term_stride: tl.tensor, COLUMNS: tl.constexpr, SIZE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TWO: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """Multiply the rows at `rows` [BLOCK_M, 1] by the columns n of a dense matrix and, with TWO, by
    the columns n + COLUMNS. Returns [BLOCK_M, BLOCK_N] each."""
    k = tl.arange(0, BLOCK_K)
    exists = (n < COLUMNS) | (COLUMNS % BLOCK_N == 0)
    columns = n.to(tl.int64)[None, :] * column_stride
    ups = (n.to(tl.int64) + COLUMNS)[None, :] * column_stride
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    acc_up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)

    for start in range(0, SIZE, BLOCK_K):
        at = start + k
        # True at compile time if BLOCK_K divides SIZE: the loads then have no masks.
        inside = (at < SIZE) | (SIZE % BLOCK_K == 0)
        a = tl.load(rows + at[None, :], mask=live[:, None] & inside[None, :], other=0.0)
        terms = matrix + at.to(tl.int64)[:, None] * term_stride
        there = inside[:, None] & exists[None, :]
        w = tl.load(terms + columns, mask=there, other=0.0)
        acc = tl.dot(a, w, acc, input_precision="ieee")
        if TWO:
            up = tl.load(terms + ups, mask=there, other=0.0)
            acc_up = tl.dot(a, up, acc_up, input_precision="ieee")
    return acc, acc_up


@triton.jit
def combine_kernel(
    pairs: tl.tensor, out: tl.tensor, TOP_K: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    """Add the pairs of a token in the order of its choices."""
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for choice in range(TOP_K):
        pair = pairs + (token * TOP_K + choice) * SIZE
        total += tl.load(pair + at, mask=at < SIZE, other=0.0).to(tl.float32)
    tl.store(out + token * SIZE + at, total.to(out.dtype.element_ty), mask=at < SIZE)
