"""Rows multiplied without feeling each other: the bits on the CPU, the kernel in triton's
interpreter."""

from __future__ import annotations

import pytest
import torch

from sgnb.engine.fusion.invariant import invariant_linear

from . import invariant_check
from .interpreter import interpreted, needs_triton


@needs_triton
@pytest.mark.slow
def test_the_kernel_in_the_interpreter() -> None:
    assert interpreted("invariant_check") == ["all", "agree"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bits_on_the_cpu(dtype: torch.dtype) -> None:
    invariant_check.check_bits(96, 200, dtype, "cpu", counts=(1, 2, 7, 33, 100))


def test_it_is_a_linear_layer() -> None:
    x, weight, bias = torch.randn(3, 5, 40), torch.randn(7, 40), torch.randn(7)
    assert torch.allclose(
        invariant_linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias), atol=1e-5
    )
    strided = torch.randn(40, 6).T
    assert torch.allclose(invariant_linear(strided, weight), strided @ weight.T, atol=1e-5)


def test_what_it_refuses() -> None:
    invariant_check.check_refusals("cpu")
