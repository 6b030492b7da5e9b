"""Mixtures of experts agree with float64 and with transformers' own, in triton's interpreter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sgnb.engine.fusion import moe, reference

from . import moe_check
from .interpreter import interpreted, needs_triton


@needs_triton
@pytest.mark.slow
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("moe_check") == ["all", "agree"]


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
