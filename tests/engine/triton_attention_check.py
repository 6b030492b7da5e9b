"""Compares the Triton attention with the float64 reference. Run as a program: in triton's
interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import torch

from benchmarks.attention_gpu import Case, batch_of
from sgnb.engine.attention import LayerOptions, planning, triton_backend
from sgnb.engine.attention.query_tiles import CostModel
from sgnb.engine.attention.triton_backend import TritonAttention
from sgnb.engine.attention.tuning import Launch, Tuning
from sgnb.engine.cache.fp8 import dequantize, quantize
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.kv_dtype import KVDtype
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.sampling import SamplingParams

from .test_attention import (
    OPTIONS,
    SLOTS,
    batch_of_spans,
    blocks_error,
    blocks_step,
    each,
    random_batch,
    reference,
)

CHEAP = CostModel(shared_row=0, launch=0, work_item=1, min_work=4, align=2, detach=12)
SMALL = Tuning(Launch(16, 16, 4, 1), Launch(64, 16, 4, 1), Launch(32, 16, 4, 1), CHEAP)


def pool(
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    device: str,
    dtype: torch.dtype,
    slots: int = SLOTS,
    kv_dtype: KVDtype = "auto",
) -> KVCache:
    shapes = {0: LayerShape(kv_heads, key_dim, value_dim)}
    kv = KVCache(shapes, slots, dtype, torch.device(device), kv_dtype)
    for rows in kv.rows(0):
        rows.write((0, slots), torch.randn(slots, *rows.numbers.shape[1:], device=device))
    return kv


def on(options: LayerOptions, device: str) -> LayerOptions:
    return options if options.sinks is None else options._replace(sinks=options.sinks.to(device))


def error(
    attention: TritonAttention,
    batch: Batch,
    heads: int,
    options: LayerOptions,
    padded: int | None = None,
) -> float:
    """The largest difference to the reference, in a step with random new keys and values; asserts
    what is stored."""
    kv = attention.kv
    keys, values = kv.rows(0)
    rows = padded or batch.num_tokens
    shape = kv.shapes[0]

    def fresh(count: int, dim: int) -> Any:
        return torch.randn(count, rows, dim, dtype=kv.dtype, device=kv.device).transpose(0, 1)

    q, k, v = (
        fresh(n, dim)
        for n, dim in (
            (heads, shape.key_dim),
            (shape.heads, shape.key_dim),
            (shape.heads, shape.value_dim),
        )
    )
    attention.plan(attention_input(batch), padded)
    attention.store(0, k, v)
    out = attention.attend(0, q, on(options, str(kv.device)))
    assert out.shape == (rows, heads, shape.value_dim) and out.is_contiguous()
    assert torch.isfinite(out).all()
    worst = 0.0
    for span in each(batch):
        slots, own = torch.from_numpy(span.request.slots).long(), span.rows
        for side, new in ((keys, k[own]), (values, v[own])):
            expected = new if side.scales is None else dequantize(*quantize(new), kv.dtype)
            assert torch.equal(side.read(slots[span.start : span.end].to(kv.device)), expected)
        seen = slots[: span.end].to(kv.device)
        expected = reference(
            q[own].transpose(0, 1).cpu(),
            keys.read(seen).cpu(),
            values.read(seen).cpu(),
            on(options, "cpu"),
        )
        worst = max(worst, (out[own].double().cpu() - expected).abs().max().item())
    return worst


def check_random_batches(quick: bool) -> None:
    """CascadeTiles, decodes with extends, every option, grouped heads, value dimensions of their
    own. quick: each option once."""
    cases = [
        (kind, kv_heads, dim)
        for kind in sorted(OPTIONS)
        for kv_heads, dim in ((4, 5), (2, 8), (1, 8))
    ]
    for number, (kind, kv_heads, value_dim) in list(enumerate(cases))[:: 4 if quick else 1]:
        rng = random.Random(f"{kind} {kv_heads} {value_dim}")
        torch.manual_seed(number)
        attention = TritonAttention(
            pool(kv_heads, 8, value_dim, "cpu", torch.float32),
            {0: 4},
            fork_attention=number % 4 > 0,
            tuning=SMALL,
        )
        for _ in range(1 + number % 2):
            worst = error(attention, random_batch(rng), 4, OPTIONS[kind])
            assert worst < 1e-5, (kind, kv_heads, value_dim, worst)


def plain_batch(lengths: list[tuple[int, int]], order: np.ndarray) -> Batch:
    """Requests of (computed, new) tokens without a tree, on slots taken from `order`."""
    spans, used = [], 0
    for i, (start, new) in enumerate(lengths):
        request = Request(i, [1] * (start + new), SamplingParams(), 1)
        request.slots[: start + new] = order[used : used + start + new]
        used += start + new
        spans.append((request, start, new))
    return batch_of_spans(spans)


def check_extend() -> None:
    """Chunks long enough for the extend kernel, beside decodes; three heads to a KV head do not
    fill a tile."""
    order = np.random.default_rng(0).permutation(SLOTS).astype(np.int32)
    batch = plain_batch([(9, 1), (40, 1), (3, 5), (0, 37), (21, 18)], order)
    for kind in ("plain", "window", "all"):
        options = OPTIONS[kind]
        if options.sinks is not None:
            options = options._replace(sinks=torch.linspace(-1, 3, 6))
        attention = TritonAttention(pool(2, 10, 7, "cpu", torch.float32), {0: 6}, tuning=SMALL)
        assert error(attention, batch, 6, options) < 1e-5


def check_blocks(quick: bool) -> None:
    """Sequences with mutually visible rows, next to decodes and causal chunks."""
    rng = random.Random(4)
    for kind in ("plain", "all") if quick else sorted(OPTIONS):
        for _ in range(1 if quick else 5):
            kv = pool(2, 8, 5, "cpu", torch.float32, slots=400)
            attention = TritonAttention(kv, {0: 4}, tuning=SMALL)
            worst = blocks_error(attention, blocks_step(rng, 400), 4, OPTIONS[kind])
            assert worst < 1e-5, (kind, worst)


def check_padded() -> None:
    """Padded rows are finite, and tensors that a graph keeps stay at their addresses, for chunks of
    any length."""
    order = np.random.default_rng(1).permutation(SLOTS).astype(np.int32)
    attention = TritonAttention(pool(2, 8, 8, "cpu", torch.float32), {0: 4}, tuning=SMALL)
    pointers = set()
    for lengths in (
        [(9, 1), (30, 1), (11, 1)],
        [(70, 1)],
        [(0, 1)] * 4,
        [(9, 1), (20, 5), (0, 2)],
        [(30, 8)],
        [(9, 1), (20, 27)],
    ):
        batch = plain_batch(lengths, order)
        rows = 8 if batch.num_tokens <= 8 else 32
        assert error(attention, batch, 4, OPTIONS["window"], padded=rows) < 1e-5
        (plan,) = attention._active[attention._geometries[0]]
        assert not plan._shape.num_extends
        pointers.add(
            (
                attention.new_slots.data_ptr(),
                plan._tables["kv_indices"].data_ptr(),
                plan._partials.data_ptr(),
            )
        )
        error(
            attention, plain_batch([(5, 20)], order), 4, OPTIONS["plain"]
        )  # a step outside of graphs
    assert len(pointers) == 1


def check_following(quick: bool) -> None:
    """Steps that follow one another, in which rows of a tree and rows alone get longer. quick: only
    a few."""
    tree, _ = batch_of(Case("", [(1, 20), (3, 9), (7, 4)], 7))
    room = 9
    for i, (request, end) in enumerate(zip(tree.requests, tree.ends.tolist(), strict=True)):
        own = np.arange(SLOTS - (i + 1) * room, SLOTS - i * room, dtype=np.int32)
        request.slots = np.concatenate([request.slots[:end], own])
    alone = plain_batch([(13, room)], np.arange(80, SLOTS, dtype=np.int32))
    requests, starts = tree.requests + alone.requests, np.append(tree.starts, 13)
    cases = [(16, "all", 3)] if quick else [(None, "window", room), (16, "all", 5)]
    for padded, kind, steps in cases:
        attention = TritonAttention(pool(2, 8, 8, "cpu", torch.float32), {0: 4}, tuning=SMALL)
        for step in range(steps):
            batch = Batch(requests, starts + step, np.ones(8, np.int64))
            assert error(attention, batch, 4, OPTIONS[kind], padded) < 1e-5, (kind, padded, step)


def invariant_result(
    kv: KVCache,
    q: torch.Tensor,
    batch: Batch,
    options: LayerOptions,
    heads: int,
    tuning: Tuning | None,
) -> torch.Tensor:
    attention = TritonAttention(kv, {0: heads}, batch_invariant=True, tuning=tuning)
    attention.plan(attention_input(batch))
    return attention.attend(0, q, options)


def check_invariant(
    device: str, dtype: torch.dtype, tuning: Tuning | None, tokens: int, cuts: list[int]
) -> None:
    """The tokens of a request give the same bits at once, in chunks, one by one, and beside another
    request."""
    torch.manual_seed(2)
    kv = pool(2, 16, 16, device, dtype, slots=2 * tokens + 64)
    order = np.random.default_rng(2).permutation(kv.slots).astype(np.int32)
    requests = {
        len(request.tokens): request
        for request in plain_batch([(0, tokens), (0, 9)], order).requests
    }
    whole, other = requests[tokens], requests[9]
    q = torch.randn(tokens + 9, 4, 16, device=device, dtype=dtype)
    for kind in ("plain", "all"):
        options = on(OPTIONS[kind], device)
        once = invariant_result(kv, q[:tokens], Batch([whole], [0], [tokens]), options, 4, tuning)
        for begin, end in zip([0, *cuts], [*cuts, tokens], strict=True):
            part = invariant_result(
                kv, q[begin:end], Batch([whole], [begin], [end - begin]), options, 4, tuning
            )
            assert torch.equal(part, once[begin:end]), (kind, begin, end)
        for last in (0, tokens // 2, tokens - 1):
            some = torch.cat([q[last : last + 1], q[tokens:]])
            beside = Batch([whole, other], [last, 0], [1, 9])
            assert torch.equal(
                invariant_result(kv, some, beside, options, 4, tuning)[0], once[last]
            ), (kind, last)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] != ["invariant"]:
        quick = sys.argv[1:] == ["quick"]
        check_random_batches(quick)
        check_extend()
        check_blocks(quick)
        check_padded()
        check_following(quick)
        print("all agree")
        sys.exit()
    planning.INVARIANT_SPLIT = triton_backend.INVARIANT_SPLIT = 32
    triton_backend.MAX_PARTIALS = 50  # so that a long chunk takes several passes
    check_invariant("cpu", torch.float32, SMALL, 40, [3, 39])
    print("all agree")
