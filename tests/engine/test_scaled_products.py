"""Products with FP8 inputs against float64, and when operations choose them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sgnb.engine import Engine, fusion
from sgnb.engine.fusion import module_trace, reference
from sgnb.engine.fusion.operations import Operations
from sgnb.engine.fusion.scaled_products import (
    SCALED_ROWS,
    can_scale,
    exact_inputs,
    is_supported,
    scaled_linear,
)
from sgnb.engine.fusion.types import Norm
from sgnb.engine.fusion.weights import DenseWeight
from sgnb.engine.quantization.quantize import quantize_fp8
from sgnb.engine.quantization.schemes import read_scheme

from . import quantized_checkpoints as checkpoints
from .fusion_models import Pooled, varied_model


def exact(x: Tensor, weight: Any, norm: Norm | None = None) -> Tensor:
    values, scales = reference.quantize_rows(x, norm)
    return (values.double() * scales.double()) @ weight.reference(torch.float64).t()


def test_rows_round_to_the_nearest_number_of_fp8() -> None:
    x = torch.randn(7, 96) * torch.logspace(-3, 3, 7)[:, None]
    x[2] = 0
    values, scales = reference.quantize_rows(x)
    assert values.dtype == torch.float8_e4m3fn and scales.shape == (7, 1)
    bound = torch.maximum(x.abs() / 16, scales * 2**-10)
    assert bool(((values.float() * scales - x).abs() <= bound * 1.001).all())
    assert bool((values.float().abs().amax(1)[torch.arange(7) != 2] == 448).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_is_that_of_the_rounded_inputs(dtype: torch.dtype) -> None:
    x, weight = torch.randn(9, 64).to(dtype), quantize_fp8(torch.randn(48, 64))
    bias, norm = torch.randn(48).to(dtype), Norm(torch.rand(64) + 0.5, 1e-5, False)
    for given in (None, norm):
        y = scaled_linear(x, weight, bias, given)
        expected = exact(x, weight, given) + bias.double()
        tolerance = 1e-5 if dtype == torch.float32 else 1e-2
        assert y.dtype == dtype
        torch.testing.assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)


def test_weights_that_keep_their_inputs() -> None:
    weight = quantize_fp8(torch.randn(48, 64))
    assert can_scale(weight)
    assert not can_scale(weight._replace(fp8_inputs=False))
    assert not can_scale(weight._replace(block=(16, 64)))
    assert not can_scale(weight._replace(block=(1, 32)))
    assert not can_scale(quantize_fp8(torch.randn(40, 64)))
    assert not can_scale(quantize_fp8(torch.randn(48, 40)))


def test_operations_with_fp8_inputs() -> None:
    operations = Operations(scaled=scaled_linear)
    x, weight = torch.randn(SCALED_ROWS, 64), quantize_fp8(torch.randn(48, 64))
    norm, expected = Norm(torch.rand(64) + 0.5, 1e-5, False), exact(x, weight)

    def close(mine: Tensor, right: Tensor) -> None:
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)

    residual = torch.randn(SCALED_ROWS, 48)
    close(operations.linear(x, weight), expected)
    close(operations.merged(x, weight, None, norm), exact(x, weight, norm))
    close(
        operations.linear(x, weight, residual=residual.clone(), scale=0.5),
        residual.double() + 0.5 * expected,
    )
    gate, up = expected.chunk(2, 1)
    close(operations.linear(x, weight, gated="silu"), torch.nn.functional.silu(gate) * up)

    keeping = weight._replace(fp8_inputs=False)
    whole = x.double() @ weight.reference(torch.float64).t()
    close(operations.linear(x, keeping), whole)
    close(operations.linear(x, DenseWeight(weight.reference(torch.float32))), whole)
    close(Operations().linear(x, weight), whole)
    assert not torch.allclose(whole, expected, rtol=1e-3, atol=1e-3)
    close(operations.linear(x[1:], weight), whole[1:])
    with exact_inputs():
        close(operations.linear(x, weight), whole)


def test_a_device_with_wrong_products_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    own, device = torch._scaled_mm, torch.device("cpu")
    check = is_supported.__wrapped__
    assert check(device)

    def refused(*args: Any, **options: Any) -> Tensor:
        raise RuntimeError("not for this device")

    monkeypatch.setattr(torch, "_scaled_mm", refused)
    assert not check(device)
    monkeypatch.setattr(torch, "_scaled_mm", lambda *a, **options: own(*a, **options) * 1.05)
    assert not check(device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not check(torch.device("cuda"))


@pytest.mark.parametrize("activations", [None, {"num_bits": 8, "type": "float", "dynamic": True}])
def test_the_format_decides_whether_inputs_are_rounded(activations: Any) -> None:
    settings = checkpoints.pack_config(num_bits=8, type="float", strategy="channel")
    settings["config_groups"]["group_0"]["input_activations"] = activations
    tensors = {"values": torch.zeros(32, 16).to(torch.float8_e4m3fn), "scales": torch.ones(32, 1)}
    packed = read_scheme(settings, "config.json").pack(tensors, (32, 16))
    assert packed.fp8_inputs == (activations is not None)


def test_modules_are_compared_with_exact_inputs() -> None:
    """Rounded inputs would fail the comparison with the module."""
    x, weight = torch.randn(80, 64), quantize_fp8(torch.randn(48, 64))
    module = torch.nn.Linear(64, 48, bias=False)
    module.weight.data = weight.reference(torch.float32)
    trace = module_trace.ModuleTrace(Pooled(varied_model("llama")).model, [])
    trace.calls[module] = [module_trace.ModuleCall((x,), {}, module(x))]
    operations = Operations(scaled=scaled_linear)
    assert trace.agrees(module, lambda rows: operations.linear(rows, weight))
    assert not torch.allclose(operations.linear(x, weight), module(x), rtol=1e-3, atol=1e-3)


def test_a_model_is_checked_with_exact_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*arguments: Any, **options: Any) -> Tensor:
        calls.append(len(arguments[0]))
        return scaled_linear(*arguments, **options)

    monkeypatch.setattr(fusion, "pick_operations", lambda *_: Operations(scaled=counted))
    with Engine("tiny", device="cpu", quantize="fp8") as engine:
        assert not calls
        engine.generate([[*range(300, 340)]], max_new_tokens=1)
    assert set(calls) == {40}
