"""Mixtures of experts agree with float64 and with transformers' own, in triton's interpreter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgnb.engine.fusion import moe, reference
from sgnb.engine.fusion.weights import Weight, decoded

from . import moe_check
from .interpreter import interpreted, needs_triton, quick_and_whole


@needs_triton
@pytest.mark.slow
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("moe_check") == ["all", "agree"]


@needs_triton
@quick_and_whole
def test_packed_experts_equal_the_dequantized_experts_in_the_interpreter(part: str) -> None:
    assert interpreted("packed_moe_check", part) == ["all", "agree"]


def test_names_of_activations() -> None:
    assert reference.activation_name(nn.SiLU()) == reference.activation_name(F.silu) == "silu"
    assert reference.activation_name(F.gelu) == "gelu"
    assert reference.activation_name(nn.GELU(approximate="tanh")) == "gelu_tanh"
    assert reference.activation_name(F.relu) is None


def test_modules_that_the_kernels_do_not_serve() -> None:
    module, name, _ = moe_check.FAMILIES[0]
    experts = moe_check.make_experts(module, name, torch.float32, "cpu")
    assert moe.looks_like_experts(experts) and not moe.looks_like_experts(nn.Linear(2, 2))
    assert moe.match_experts(experts, SimpleNamespace()) is None, "not on a GPU"


@pytest.mark.parametrize("family", moe_check.FAMILIES, ids=lambda family: family[1])
def test_packed_experts(
    family: tuple[str, str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels receive the decoded matrices of the module, and so does the module's own
    forward."""
    packed, plain = moe_check.packed_experts(*family[:2], torch.float32, "cpu")
    shape = moe_check.Shape(11, 2, 6, 40, 24)
    ids, shares = moe_check.route(shape, "cpu")
    x = torch.randn(shape.tokens, shape.hidden)
    with torch.inference_mode():
        assert torch.allclose(packed(x, ids, shares), plain(x, ids, shares), atol=1e-5)

    calls: list[tuple[Tensor, Tensor]] = []

    def record(x: Tensor, gate_up: Weight, down: Weight, *args: Any, **options: Any) -> Tensor:
        calls.append((decoded(gate_up, x.dtype), decoded(down, x.dtype)))
        return x

    monkeypatch.setattr(moe, "fused_experts", record)
    for module in (packed, plain):
        moe.FusedExperts(module, "silu").forward(x, ids, shares)
    for matrix, expected in zip(*calls, strict=True):
        assert torch.equal(matrix, expected)
