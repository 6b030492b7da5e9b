"""The matrix kernels on a GPU: values, bits that do not depend on the batch, and CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from sgnb.engine.fusion import moe
from sgnb.engine.fusion.invariant import LARGE, TILINGS, invariant_linear
from sgnb.engine.fusion.types import Heads
from sgnb.engine.fusion.weights import DenseWeight

from . import invariant_check, invariant_model_check, moe_check

pytestmark = pytest.mark.gpu

SIXTEEN = (torch.bfloat16, torch.float16)


def replayed(call: Callable[[], Tensor], change: Callable[[], object]) -> tuple[Tensor, Tensor]:
    """What a CUDA graph of `call` gives after `change`, and what the call itself then gives."""
    call()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    change()
    graph.replay()
    return out, call()


@pytest.mark.parametrize("dtype", SIXTEEN)
@pytest.mark.parametrize("rows", [1, 2, 4, 5, 8, 13, 16])
def test_products_of_few_rows(rows: int, dtype: torch.dtype) -> None:
    from . import skinny_check

    cases = [
        (None, False, True, True),
        ("silu", True, True, False),
        ("gelu_tanh", False, False, True),
    ]
    skinny_check.check(rows, 300, 1000, dtype, "cuda", cases=cases)
    skinny_check.check(rows, 70, 4096, dtype, "cuda", cases=cases[:2])
    for size in (2560, 5120, 6144):
        skinny_check.check(rows, 40, size, dtype, "cuda", cases=cases[1:2])
    for columns, size in (
        (70, 6144),
        (2500, 512),
        (4000, 512),
        (4000, 9000),
        (6000, 512),
        (9000, 512),
    ):
        skinny_check.check(rows, columns, size, dtype, "cuda", cases=cases[:1])
    for columns in (4000, 17_000):
        skinny_check.check(rows, columns, 512, dtype, "cuda", cases=cases[1:2])
    if rows <= 8:
        skinny_check.check_projection(rows, Heads(6, 2, 64), 1000, dtype, "cuda")
        skinny_check.check_projection(rows, Heads(4, 1, 128), 4096, dtype, "cuda")


def test_refusals_of_products_of_few_rows() -> None:
    from . import skinny_check

    skinny_check.check_refusals("cuda")


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_batch_invariant_products(dtype: torch.dtype) -> None:
    every = [None, *(tiling for _, tiling in TILINGS), LARGE]
    invariant_check.check(300, 520, 1000, dtype, "cuda", every)
    for columns, size in ((4096, 4096), (1000, 14_336), (200, 1000)):
        invariant_check.check_bits(columns, size, dtype, "cuda")
    invariant_check.check_bits(1024, 4096, dtype, "cuda", (1, 33, 1000), every)


def test_batch_invariant_products_in_float32() -> None:
    invariant_check.check(37, 100, 264, torch.float32, "cuda")
    invariant_check.check_bits(512, 1024, torch.float32, "cuda", (1, 2, 33, 100, 1000))
    invariant_check.check_refusals("cuda")


def test_batch_invariant_products_in_a_graph() -> None:
    x = torch.randn(16, 256, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    out, again = replayed(lambda: invariant_linear(x, weight), x.normal_)
    assert torch.equal(out, again)


@pytest.mark.parametrize("dtype", [*SIXTEEN, torch.float32])
@pytest.mark.parametrize("tokens", [1, 7, 64, 500])
def test_experts(tokens: int, dtype: torch.dtype) -> None:
    shape = moe_check.Shape(tokens, 4, 16, 264, 200)
    moe_check.check(shape, dtype, "cuda")
    moe_check.check(shape, dtype, "cuda", moe_check.interleaved, bias=True, transposed=True)
    moe_check.check(shape, dtype, "cuda", "gelu_tanh", bias=True, transposed=True, favourites=5)


@pytest.mark.parametrize("dtype", [*SIXTEEN, torch.float32])
def test_batch_invariant_experts(dtype: torch.dtype) -> None:
    """Numbers of tokens on both sides of the tilings' borders (96 pairs an expert), and of those of
    the two sorts."""
    counts = (1, 2, 33, 64, 65, 192, 193, 500, 9000) if dtype in SIXTEEN else (1, 2, 17, 65, 193)
    few, many = moe_check.Shape(24, 2, 4, 264, 200), moe_check.Shape(40, 8, 128, 512, 192)
    invariant_model_check.check_experts(few, dtype, "cuda", counts)
    invariant_model_check.check_experts(
        few, dtype, "cuda", counts, bias=True, transposed=True, act="gelu_tanh"
    )
    invariant_model_check.check_experts(
        few, dtype, "cuda", counts[:6], bias=True, act=moe_check.interleaved
    )
    invariant_model_check.check_experts(many, dtype, "cuda", (1, 7, 64, 300, 1600))


def test_batch_invariant_experts_of_a_large_model() -> None:
    shape = moe_check.Shape(16, 2, 8, 4096, 14_336)
    invariant_model_check.check_experts(shape, torch.bfloat16, "cuda", (1, 16, 64, 390, 1000))


def test_the_order_of_experts() -> None:
    moe_check.check_order("cuda")
    moe_check.check_refusals("cuda")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_experts_of_transformers(dtype: torch.dtype) -> None:
    moe_check.check_families("cuda", dtype)
    trace = SimpleNamespace(agrees=lambda *_: True)
    for module, name, _ in moe_check.FAMILIES:
        experts = moe_check.make_experts(module, name, dtype, "cuda")
        assert moe.match_experts(experts, trace) is not None


def test_experts_in_a_graph() -> None:
    """Another routing needs no other graph, and nothing waits for the device."""
    shape = moe_check.Shape(16, 4, 32, 256, 128)
    layer = moe_check.make_layer(shape, torch.bfloat16, "cuda")
    x = torch.randn(shape.tokens, shape.hidden, device="cuda", dtype=torch.bfloat16)
    ids, weights = moe_check.route(shape, "cuda")

    def change() -> None:
        for mine, new in zip((ids, weights), moe_check.route(shape, "cuda", 6), strict=True):
            mine.copy_(new)

    out, again = replayed(
        lambda: moe.fused_experts(
            x, DenseWeight(layer.gate_up), DenseWeight(layer.down), ids, weights, "silu"
        ),
        change,
    )
    assert torch.equal(out, again)
