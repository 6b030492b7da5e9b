"""Attention of encoders within segments on an NVIDIA GPU: the kernel against PyTorch's attention
per length, in all head dimensions of known encoders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.gpu.vision import random_vision_model
from sgnb.engine.engine import Engine
from sgnb.engine.model import tower_attention
from sgnb.engine.model.tower_attention import SEGMENTS, attend_by_length, divide

from .test_tower_attention import names

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

LENGTHS = {"windows": [64] * 384, "images": [1024] * 5, "unequal": [1, 64, 63, 1024, 16, 300]}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [64, 72, 80, 128, 256])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_the_kernel(lengths: list[int], dim: int, dtype: torch.dtype) -> None:
    draw = torch.Generator("cuda").manual_seed(0)
    total = sum(lengths)

    def random() -> Tensor:  # strides of a projection for queries, keys and values
        wide = torch.randn(total, 3, 4, dim, generator=draw, device="cuda")
        return wide.to(dtype)[:, 1]

    q, k, v = random(), random(), random()
    segments = divide(torch.tensor([0, *lengths], device="cuda").cumsum(0))
    assert tower_attention._kernel_takes(q)
    found = tower_attention._by_kernel(q, k, v, segments, dim**-0.5)
    exact = attend_by_length(q.double(), k.double(), v.double(), segments, dim**-0.5)
    error = (found.double() - exact).norm() / exact.norm()
    own = (attend_by_length(q, k, v, segments, dim**-0.5).double() - exact).norm() / exact.norm()
    assert error < 1.5 * own + 1e-4, (error, own)


def test_an_engine_in_half_precision_uses_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    kernel = tower_attention._by_kernel

    def counted(q: Tensor, *rest: Any) -> Tensor:
        shapes.append(q.shape)
        return kernel(q, *rest)

    monkeypatch.setattr(tower_attention, "_by_kernel", counted)
    model, processor = random_vision_model("qwen2_5_vl", "cuda", toy=True)
    with Engine(model, processor=processor, device="cuda", precompile=False) as engine:
        assert "image" in engine.modalities, engine.refused_modalities
        assert names(model) == {SEGMENTS}
        assert {shape[-1] for shape in shapes} == {16}
