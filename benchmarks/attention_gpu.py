"""Attention of one layer on a GPU: ours with and without sharing prefixes, FlashInfer's plain
decode, the limit.

Llama-8B shape: 32 query heads, 8 KV heads, 128 wide, bfloat16, slots scattered over the pool. Every
time is that of one of several layers with pools of their own inside a CUDA graph, so that no layer
finds its keys in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sgnb.engine.attention import LayerOptions
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.sampling import SamplingParams

from .common import Report, seconds

HEADS, KV_HEADS, DIM = 32, 8, 128
TOKEN_BYTES = 2 * KV_HEADS * DIM * 2
OPTIONS = LayerOptions(DIM**-0.5)

Way = Callable[[int], Any]
"""layer -> what it makes, on the GPU."""


class Case(NamedTuple):
    """levels: (nodes, tokens of each) from the root down; the last are the rows' own. times: the
    bar, as a multiple of FlashInfer's speed; None where nothing is shared: there sharing must cost
    nothing."""

    name: str
    levels: list[tuple[int, int]]
    rows: int
    times: float | None = 1.0


CASES = (
    Case(
        "tree of thought, 1,024 leaves",
        [(1, 800), (32, 200), (128, 65), (512, 65), (1024, 32)],
        1024,
        4.0,
    ),
    Case("64 forks of 4,000 tokens", [(1, 4000), (64, 64)], 64, 4.0),
    Case("16 forks of 16,000 tokens", [(1, 16000), (16, 64)], 16),
    Case("64 rows on 8 prefixes of 1,500", [(8, 1500), (64, 300)], 64),
    Case("256 rows of 640, nothing shared", [(256, 640)], 256, None),
    Case("1 row of 256", [(1, 256)], 1, None),
    Case("1 row of 1,024", [(1, 1024)], 1, None),
    Case("1 row of 4,096", [(1, 4096)], 1, None),
)


def batch_of(case: Case) -> tuple[Batch, int]:
    """One token of every row, and how many slots they have together, scattered."""
    sizes = [nodes * tokens for nodes, tokens in case.levels]
    order = np.random.default_rng(0).permutation(sum(sizes)).astype(np.int32)
    spans = [
        part.reshape(nodes, tokens)
        for part, (nodes, tokens) in zip(
            np.split(order, np.cumsum(sizes)[:-1]), case.levels, strict=True
        )
    ]
    tree, requests, depth = RadixTree(), [], sum(tokens for _, tokens in case.levels)
    shared = depth - case.levels[-1][1]
    for row in range(case.rows):
        ids = [row * nodes // case.rows for nodes, _ in case.levels]
        names = np.concatenate(
            [np.full(tokens, i) for i, (_, tokens) in zip(ids, case.levels, strict=True)]
        )
        request = Request(row, names.tolist(), SamplingParams(), 1)
        request.slots[:depth] = np.concatenate(
            [span[i] for i, span in zip(ids, spans, strict=True)]
        )
        request.node = tree.insert(request.tokens[:shared], request.slots[:shared]).node
        requests.append(request)
    return Batch(requests, [depth - 1] * case.rows, [1] * case.rows), len(order)


def make_pool(slots: int) -> KVCache:
    layers = min(128, max(4, (1 << 29) // (slots * TOKEN_BYTES)))
    shapes = {layer: LayerShape(KV_HEADS, DIM, DIM) for layer in range(layers)}
    kv = KVCache(shapes, slots, torch.bfloat16, torch.device("cuda"))
    for tensor in (*kv.keys.values(), *kv.values.values()):
        tensor.normal_()
    return kv


def graph_microseconds(ways: Sequence[Way], layers: int, rounds: int = 15) -> list[float]:
    """One layer's share of the fastest replay of all layers in a CUDA graph: of each way, which
    take turns."""
    graphs = []
    for way in ways:
        for layer in range(2):
            way(layer)
        torch.cuda.synchronize()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            for layer in range(layers):
                way(layer)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for graph, taken in zip(graphs, times, strict=True):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) * 1000 / layers)
    return [min(taken) for taken in times]


def ours(kv: KVCache, batch: Batch, q: Tensor, **options: Any) -> tuple[Way, float]:
    """A layer's attention, and milliseconds that planning takes on the host."""
    from sgnb.engine.attention.triton_backend import TritonAttention

    attention = TritonAttention(kv, dict.fromkeys(kv.keys, HEADS), **options)
    planning = min(
        seconds(lambda: attention.plan(attention_input(batch), len(batch))) for _ in range(10)
    )
    torch.cuda.synchronize()
    return lambda layer: attention.attend(layer, q, OPTIONS), planning * 1000


def flashinfer_decode(kv: KVCache, batch: Batch, q: Tensor) -> Way:
    """Return the time of FlashInfer: decode with tensor cores and pages of one token. Raises
    ImportError without FlashInfer."""
    import flashinfer

    kv_indptr = np.cumsum([0, *batch.ends]).astype(np.int32)
    slots = np.concatenate(
        [request.slots[:end] for request, end in zip(batch.requests, batch.ends, strict=True)]
    )
    last = torch.ones(len(batch), dtype=torch.int32, device="cuda")
    space = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, "NHD", use_tensor_cores=True)
    wrapper.plan(
        torch.from_numpy(kv_indptr).cuda(), torch.from_numpy(slots).cuda(), last, HEADS, KV_HEADS,
        DIM, 1, q_data_type=q.dtype, kv_data_type=q.dtype,
    )  # fmt: skip
    return lambda layer: wrapper.run(q, (kv.keys[layer][:, None], kv.values[layer][:, None]))


def memory_speed() -> float:
    """Bytes a second that a kernel reads and writes; a copy in a graph may go through a slower
    engine."""
    source = torch.randn(1 << 28, device="cuda")
    results = [torch.empty_like(source) for _ in range(2)]
    [each] = graph_microseconds([lambda layer: torch.neg(source, out=results[layer])], len(results))
    return 2 * source.numel() * source.element_size() / each * 1e6


def difference(a: Tensor, b: Tensor) -> float:
    """Norm of the difference by the norm of b."""
    return float((a.float() - b.float()).norm() / b.float().norm())


def run() -> Report:
    report = Report(
        "Attention of one layer (GPU)",
        ("case", "shared prefixes read once, us", "read by each row, us", "FlashInfer, us",
         "distinct KV, us", "FlashInfer / ours", "difference", "planning, ms"),
        bar="1,024 leaves and 64 forks of 4,000 at least 4 times as fast as FlashInfer's plain "
        "decode; no loss above 1 % where nothing is shared",
    )  # fmt: skip
    if not torch.cuda.is_available():
        report.note = "Needs an NVIDIA GPU."
        return report
    speed, good = memory_speed(), []
    for case in CASES:
        row, met = _measure(case, speed)
        report.rows.append(row)
        good.append(met)
    report.met = None if None in good else all(good)
    report.note = f"Memory: {speed / 1e12:.2f} TB/s. Difference: to the plain results, relative."
    if None in good:
        report.note += " Without FlashInfer the bar cannot be judged."
    return report


def _measure(case: Case, speed: float) -> tuple[tuple[Any, ...], bool | None]:
    batch, slots = batch_of(case)
    kv = make_pool(slots)
    q = torch.randn(len(batch), HEADS, DIM, dtype=torch.bfloat16, device="cuda")
    plain, _ = ours(kv, batch, q, fork_attention=False)
    forked, planning = ours(kv, batch, q)
    ways = [forked, plain]
    with suppress(ImportError):
        ways.append(flashinfer_decode(kv, batch, q))
    mine = forked(0)
    apart = max(difference(mine, way(0)) for way in ways[1:])
    forked_time, plain_time, *peer = graph_microseconds(ways, len(kv.keys))
    peer_time = peer[0] if peer else None
    agree, met = apart < 1e-2, None
    if case.times is None:
        met = agree and forked_time <= 1.01 * plain_time
    elif peer_time is not None:
        met = agree and peer_time >= case.times * forked_time
    row = (
        case.name, f"{forked_time:.1f}", f"{plain_time:.1f}",
        f"{peer_time:.1f}" if peer_time else "-", f"{slots * TOKEN_BYTES / speed * 1e6:.1f}",
        f"{peer_time / forked_time:.2f}" if peer_time else "-", f"{apart:.0e}", f"{planning:.2f}",
    )  # fmt: skip
    return row, met
