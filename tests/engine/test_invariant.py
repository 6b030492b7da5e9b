"""Rows multiplied without feeling each other: the bits on the CPU, the kernel in triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from sgnb.engine.fusion.invariant import invariant_linear

from . import invariant_check

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which there is for Linux only")
def test_the_kernel_in_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.invariant_check"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["all", "agree"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bits_on_the_cpu(dtype: torch.dtype) -> None:
    invariant_check.check_bits(96, 200, dtype, "cpu", counts=(1, 2, 7, 33, 100))


def test_it_is_a_linear_layer() -> None:
    x, weight, bias = torch.randn(3, 5, 40), torch.randn(7, 40), torch.randn(7)
    assert torch.allclose(invariant_linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias), atol=1e-5)
    strided = torch.randn(40, 6).T
    assert torch.allclose(invariant_linear(strided, weight), strided @ weight.T, atol=1e-5)


def test_what_it_refuses() -> None:
    invariant_check.check_refusals("cpu")
