"""The kernel that decodes packed matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sgnb import models
from sgnb.engine.engine import Engine
from sgnb.engine.fusion.weights import decoded
from sgnb.engine.quantization.packed import PackedWeight, stack

from .interpreter import interpreted, needs_triton
from .test_packed import MATRICES, random_packed


def decode(packed: PackedWeight, dtype: torch.dtype) -> Tensor:
    from sgnb.engine.fusion import decode_kernel

    return decode_kernel.decode(packed, dtype)


@needs_triton
@pytest.mark.slow
def test_the_kernel_in_the_interpreter() -> None:
    assert interpreted("decode_kernel_check") == ["all", "agree"]


def on_gpu(packed: PackedWeight) -> PackedWeight:
    return packed.with_parts({name: part.cuda() for name, part in packed.parts().items()})


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", MATRICES)
def test_the_kernel_writes_the_numbers_of_the_reference(name: str, dtype: torch.dtype) -> None:
    packed = on_gpu(MATRICES[name]())
    assert torch.equal(decode(packed, dtype), packed.reference(dtype))
    assert torch.equal(decoded(packed, dtype), packed.reference(dtype))


@pytest.mark.gpu
def test_large_matrices_and_experts() -> None:
    from .decode_kernel_check import check_all_codes

    check_all_codes("cuda")
    large = on_gpu(random_packed("int4", 1000, 4096, (1, 128), zeros=True))
    assert torch.equal(decode(large, torch.bfloat16), large.reference(torch.bfloat16))
    experts = [random_packed("mxfp4", seed=i) for i in range(4)]
    stacked = on_gpu(stack(experts))
    assert torch.equal(decode(stacked, torch.bfloat16), stacked.reference(torch.bfloat16))


@pytest.mark.gpu
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", ["fp8", "int4"])
def test_an_engine_on_a_gpu_follows_the_engine_on_a_cpu(name: str, deterministic: bool) -> None:
    """With graphs, fused modules and a cached prefix."""
    prompt = "Once upon a time there was a king"
    settings: dict[str, Any] = {"max_new_tokens": 16, "temperature": 0}
    with Engine("tiny", device="cpu", quantize=name) as engine:
        expected = engine.generate(prompt, **settings).token_ids
    with Engine(
        str(models.path("tiny")), device="cuda", dtype="float32", quantize=name,
        deterministic=deterministic,
    ) as engine:  # fmt: skip
        for _ in range(2):
            assert engine.generate(prompt, **settings).token_ids == expected
