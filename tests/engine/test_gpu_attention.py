"""The Triton attention on a GPU: against the float64 reference, in CUDA graphs, and
batch-invariant."""

from __future__ import annotations

import random
from collections.abc import Hashable

import numpy as np
import pytest
import torch

from sgnb.engine.attention import LayerOptions
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import attention_input

from .test_attention import OPTIONS, SLOTS, each, random_batch

pytestmark = pytest.mark.gpu

TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def forks(count: int, trunk: int, tail: int) -> tuple[Batch, int]:
    from benchmarks.attention_gpu import Case, batch_of

    return batch_of(Case("", [(1, trunk), (count, tail)], count))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", sorted(OPTIONS))
@pytest.mark.parametrize("kv_dtype", ["auto", "fp8"])
def test_random_batches(dtype: torch.dtype, kind: str, kv_dtype: str) -> None:
    from sgnb.engine.attention.triton_backend import TritonAttention

    from .triton_attention_check import SMALL, error, pool

    rng = random.Random(kind)
    torch.manual_seed(0)
    for tuning in (None, SMALL):
        kv = pool(2, 64, 64, "cuda", dtype, kv_dtype=kv_dtype)
        attention = TritonAttention(kv, {0: 4}, tuning=tuning)
        for _ in range(5):
            assert error(attention, random_batch(rng), 4, OPTIONS[kind]) < TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("kv_heads", "heads", "key_dim", "value_dim"),
    [
        (8, 32, 128, 128),
        (4, 28, 80, 80),
        (1, 16, 96, 64),
        (8, 8, 192, 128),
        (2, 16, 256, 256),
        (1, 24, 16, 16),
    ],
)
def test_shapes(
    dtype: torch.dtype, kv_heads: int, heads: int, key_dim: int, value_dim: int
) -> None:
    """Decodes below a long prefix, and long chunks, with the tuning of the shape."""
    from sgnb.engine.attention.triton_backend import TritonAttention

    from .triton_attention_check import error, plain_batch, pool

    torch.manual_seed(0)
    options = LayerOptions(key_dim**-0.5)
    batch, slots = forks(40, 700, 30)
    attention = TritonAttention(
        pool(kv_heads, key_dim, value_dim, "cuda", dtype, slots + 1), {0: heads}
    )
    assert error(attention, batch, heads, options) < TOLERANCES[dtype]
    order = np.random.default_rng(0).permutation(slots).astype(np.int32)
    batch = plain_batch([(900, 1), (5, 1), (0, 300), (170, 90)], order)
    for more in (options, options._replace(window=100)):
        assert error(attention, batch, heads, more) < TOLERANCES[dtype]


def test_a_graph_serves_later_plans() -> None:
    from sgnb.engine.attention.triton_backend import TritonAttention

    from .test_attention import reference
    from .triton_attention_check import plain_batch, pool

    torch.manual_seed(0)
    order = np.random.default_rng(1).permutation(SLOTS).astype(np.int32)
    kv = pool(2, 64, 64, "cuda", torch.bfloat16)
    attention = TritonAttention(kv, {0: 8})
    q = torch.randn(8, 8, 64, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(8, 2, 64, device="cuda", dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        attention.store(0, k, k)
        return attention.attend(0, q, OPTIONS["plain"])

    graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
    replays = 0
    for lengths in (
        [(9, 1), (30, 1), (11, 1)],
        [(50, 1)] * 5,
        [(0, 1)] * 8,
        [(20, 1), (100, 1)],
        [(60, 1)] * 3,
    ):
        batch = plain_batch(lengths, order)
        attention.plan(attention_input(batch), padded=8)
        replays += attention.graph_key in graphs
        if attention.graph_key not in graphs:
            step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = step()
            graphs[attention.graph_key] = graph, out
        graph, out = graphs[attention.graph_key]
        graph.replay()
        assert torch.isfinite(out).all()
        for row, span in enumerate(each(batch)):
            seen = torch.from_numpy(span.request.slots[: span.end]).long()
            keys, values = kv.keys[0].cpu()[seen], kv.values[0].cpu()[seen]
            expected = reference(q[row, :, None].cpu(), keys, values, OPTIONS["plain"])
            assert (out[row].double().cpu() - expected[0]).abs().max() < TOLERANCES[torch.bfloat16]
    assert replays >= 3, "two graphs serve all: with parts to be merged, and without"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_invariant(dtype: torch.dtype) -> None:
    from .triton_attention_check import check_invariant

    check_invariant("cuda", dtype, None, 1300, [1, 37, 512, 513, 1000])
