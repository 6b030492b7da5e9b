"""Packed weights on a GPU: products, experts and FP8 inputs against float64, bits that do not
depend on the batch, CUDA graphs, and whole models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from sgnb.engine import Engine
from sgnb.engine.fusion import moe
from sgnb.engine.fusion.operations import Operations, pick_operations
from sgnb.engine.fusion.types import Heads, Norm
from sgnb.engine.quantization.modules import QuantizedLinear
from sgnb.engine.quantization.packed import Kind, PackedWeight
from sgnb.engine.quantization.quantize import QUANTIZERS, quantize_fp8

from .fusion_models import Pooled, varied_model
from .test_gpu_matmul import SIXTEEN, replayed

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
LAYOUTS = range(6)
"""Positions in `packed_skinny_check.LAYOUTS`, whose module needs triton."""

LOGITS = 0.15
"""Relative error of the logits of the median row, fused against unfused, in bfloat16; FP8 inputs of
large steps are rounded in the fused model only."""


def weight_of(layout: int, rows: int, columns: int, ordered: bool = False) -> PackedWeight:
    from .packed_skinny_check import LAYOUTS, moved, packed

    return moved(packed(*LAYOUTS[layout], rows, columns, ordered=ordered), "cuda")


def model_weight(kind: Kind, rows: int, columns: int) -> PackedWeight:
    """A weight as large models have it."""
    from benchmarks.gpu.quantized_model import random_packed

    weight: PackedWeight = random_packed(kind, rows, columns, "cuda", columns**-0.5)
    return weight


def operations() -> Operations:
    return pick_operations(GPU, torch.bfloat16, None)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 16, 17, 64, 128, 300])
@pytest.mark.parametrize("dtype", SIXTEEN)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout: int, dtype: torch.dtype, rows: int) -> None:
    from sgnb.engine.fusion.skinny import PACKED_DOT_ROWS

    from .packed_skinny_check import check
    from .skinny_check import Case

    cases: list[Case] = [("silu", True, True, False), (None, False, False, True)]
    if rows > PACKED_DOT_ROWS[weight_of(layout, 4, 64).kind]:
        pytest.skip("decoded for a dense GEMM")
    torch.manual_seed(layout)
    check(weight_of(layout, 600, 960, ordered=layout == 0), rows, dtype, cases)
    check(weight_of(layout, 70, 2880 if layout == 5 else 1000), rows, dtype, cases[1:])


@pytest.mark.parametrize("kind", ["fp8", "int4", "mxfp4"])
@pytest.mark.parametrize("rows", [1, 4, 16, 64, 128])
def test_products_of_a_large_model(kind: Kind, rows: int) -> None:
    from .packed_skinny_check import check

    for columns, size in ((6144, 4096), (4096, 14_336)):
        check(model_weight(kind, columns, size), rows, torch.bfloat16, [(None, True, False, True)])
    check(model_weight(kind, 28_672, 4096), rows, torch.bfloat16, [("silu", True, False, False)])


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_projections(layout: int, rows: int) -> None:
    from .packed_skinny_check import check_projection

    for dtype in SIXTEEN:
        heads = Heads(6, 2, 64)
        check_projection(weight_of(layout, sum(heads.widths), 960), heads, rows, dtype)


def test_decoded_matrices_are_those_of_the_reference() -> None:
    from . import decode_kernel_check
    from .packed_skinny_check import moved
    from .test_packed import MATRICES

    for make in MATRICES.values():
        for dtype in (torch.float32, *SIXTEEN):
            decode_kernel_check.check(moved(make(), "cuda"), dtype)
    decode_kernel_check.check_all_codes("cuda")


@pytest.mark.parametrize("rows", [129, 600, 3000])
@pytest.mark.parametrize("kind", ["fp8", "int4", "mxfp4"])
def test_products_of_many_rows(kind: Kind, rows: int) -> None:
    """Decoded weights, tiles, and FP8 inputs: each against float64 of the same inputs."""
    from sgnb.engine.fusion import kernels

    torch.manual_seed(rows)
    x = torch.randn(rows, 1024, device="cuda", dtype=torch.bfloat16)
    weight, norm = model_weight(kind, 768, 1024), Norm(torch.rand(1024, device="cuda"), 1e-5, True)
    residual = torch.randn(rows, 768, device="cuda", dtype=torch.bfloat16)
    if kind == "fp8":
        values, scales = kernels.quantize_rows(x, norm)
        inputs = values.double() * scales.double()
    else:
        inputs = kernels.norm(x, norm).double()
    expected = inputs @ weight.reference(torch.float64).t() + residual.double()
    y = operations().linear(x, weight, norm=norm, residual=residual.clone())
    error = float((y.double() - expected).norm() / expected.norm())
    assert error < 1e-2, (kind, rows, error)


@pytest.mark.parametrize("dtype", [torch.float32, *SIXTEEN])
def test_rows_in_fp8(dtype: torch.dtype) -> None:
    from .fusion_kernel_check import check_quantized_rows

    check_quantized_rows([1, 100, 4096, 14_336, 28_672], [3, 300], dtype, "cuda")


def test_fp8_inputs_are_used() -> None:
    """The device multiplies FP8 matrices, in half precision of bfloat16 only."""
    assert operations().scaled is not None
    assert pick_operations(GPU, torch.float16, None).scaled is None
    weight = quantize_fp8(torch.randn(512, 256, device="cuda"))
    x = torch.randn(200, 256, device="cuda", dtype=torch.bfloat16)
    rounded = operations().linear(x, weight)
    exact = x.double() @ weight.reference(torch.float64).t()
    kept = replace(operations(), scaled=None).linear(x, weight)
    errors = [float((y.double() - exact).norm() / exact.norm()) for y in (kept, rounded)]
    assert errors[0] < 5e-3 < errors[1] < 5e-2


@pytest.mark.parametrize("tokens", [1, 7, 64, 500])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_experts(layout: int, tokens: int) -> None:
    from .moe_check import Shape, interleaved
    from .packed_moe_check import check
    from .packed_skinny_check import LAYOUTS, packed

    make = partial(packed, *LAYOUTS[layout])
    shape = Shape(tokens, 4, 16, 288, 224)
    for dtype in (torch.float32, *SIXTEEN):
        check(make, shape, dtype, "cuda")
        check(make, shape, dtype, "cuda", interleaved, bias=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batch_invariant_experts(layout: int) -> None:
    from .moe_check import Shape
    from .packed_moe_check import check_bits
    from .packed_skinny_check import LAYOUTS, packed

    make = partial(packed, *LAYOUTS[layout])
    for dtype in SIXTEEN:
        counts = 1, 2, 33, 64, 65, 193, 500, 3000
        check_bits(make, Shape(24, 2, 4, 288, 224), dtype, "cuda", counts)


@pytest.mark.parametrize("kind", ["fp8", "int4", "mxfp4"])
def test_experts_in_a_graph(kind: Kind) -> None:
    from sgnb.engine.quantization.packed import stack

    from .moe_check import Shape, route

    shape = Shape(16, 4, 8, 256, 128)
    sizes = (2 * shape.inner, shape.hidden), (shape.hidden, shape.inner)
    gate_up, down = (stack([model_weight(kind, *size) for _ in range(8)]) for size in sizes)
    x = torch.randn(shape.tokens, shape.hidden, device="cuda", dtype=torch.bfloat16)
    ids, weights = route(shape, "cuda")

    def change() -> None:
        for mine, new in zip((ids, weights), route(shape, "cuda", 5), strict=True):
            mine.copy_(new)

    out, again = replayed(lambda: moe.fused_experts(x, gate_up, down, ids, weights, "silu"), change)
    assert torch.equal(out, again)


@pytest.mark.parametrize("rows", [1, 4, 16, 64, 256, 700])
@pytest.mark.parametrize("kind", ["fp8", "int4", "mxfp4"])
def test_products_in_a_graph(kind: Kind, rows: int) -> None:
    """Nothing waits for the device, and the same inputs give the same bits."""
    x = torch.randn(rows, 1024, device="cuda", dtype=torch.bfloat16)
    weight = model_weight(kind, 2048, 1024)
    norm, chosen = Norm(torch.ones(1024, device="cuda"), 1e-5, False), operations()
    out, again = replayed(lambda: chosen.linear(x, weight, norm=norm, gated="silu"), x.normal_)
    assert torch.equal(out, again)


@pytest.mark.parametrize("rows", [1, 4, 8, 40, 100, 200])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("name", QUANTIZERS)
def test_fused_models_agree_with_unfused_ones(name: str, family: str, rows: int) -> None:
    model = varied_model(family, hidden_size=384, intermediate_size=512).to("cuda", torch.bfloat16)  # type: ignore[arg-type]
    for module in list(model.model.layers.modules()):
        for child, linear in list(module.named_children()):
            if type(linear) is nn.Linear:
                weight = QUANTIZERS[name](linear.weight.detach())
                setattr(module, child, QuantizedLinear(weight, linear.bias))
    pooled = Pooled(model)
    before = pooled.logits(rows)
    kinds = {swap.kind for swap in pooled.fuse()}
    assert {"attention", "layer"} <= kinds
    after = pooled.logits(rows)
    errors = (after.float() - before.float()).norm(dim=-1) / before.float().norm(dim=-1)
    assert float(errors.median()) < LOGITS


PROMPTS = ["The capital of France is", "A short story: once", "1, 2, 3, 4,", "def add(a, b):"]


def outputs(engine: Engine, prompts: list[str]) -> list[list[int]]:
    options: Any = {"max_new_tokens": 24, "temperature": 0, "ignore_eos": True}
    return [output.token_ids for output in engine.generate(prompts, **options)]


@pytest.mark.parametrize("kv_dtype", ["auto", "fp8"])
@pytest.mark.parametrize("name", QUANTIZERS)
def test_an_engine_repeats_its_tokens(name: str, kv_dtype: Any) -> None:
    """With CUDA graphs, from the cache and without: one request at a time gives equal tokens."""
    with Engine("tiny", device="cuda", quantize=name, kv_dtype=kv_dtype) as engine:
        first = [outputs(engine, [prompt]) for prompt in PROMPTS]
        engine.flush_cache()
        assert [outputs(engine, [prompt]) for prompt in PROMPTS] == first


@pytest.mark.parametrize("name", QUANTIZERS)
def test_deterministic_engines_give_the_tokens_of_each_request_alone(name: str) -> None:
    with Engine("tiny", device="cuda", quantize=name, deterministic=True) as engine:
        alone = [tokens for prompt in PROMPTS for tokens in outputs(engine, [prompt])]
        engine.flush_cache()
        assert outputs(engine, PROMPTS) == alone
