"""The fusion pass with its kernels on a GPU: each kernel against float64, whole models fused
against unfused."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from sgnb.engine.fusion import unfuse
from sgnb.engine.fusion.types import Heads, Norm

from .fusion_models import FAMILIES_ON_GPU, Pooled, varied_model
from .test_fusion import FUSED

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LOGITS = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
"""Relative error of the logits, unfused against fused, in the median row: both round, at other
places."""

MIXTURES = ("mixtral", "qwen3_moe")


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_agree_with_float64(dtype: torch.dtype) -> None:
    from . import fusion_kernel_check as kernels

    torch.manual_seed(0)
    kernels.check_norm([1, 100, 2560, 4096, 5120], [1, 300], dtype, "cuda")
    kernels.check_add_norm([1, 100, 2560, 8192], [1, 300], dtype, "cuda")
    kernels.check_gated_norm([1, 100, 128, 5120], [1, 300], dtype, "cuda")
    kernels.check_gate([1, 1030, 14336], [1, 300], dtype, "cuda")
    kernels.check_rotate(
        [Heads(32, 8, 128), Heads(5, 1, 24), Heads(14, 2, 64), Heads(8, 4, 256)],
        [1, 70],
        dtype,
        "cuda",
    )


@pytest.mark.parametrize("rows", [1, 2, 8, 14, 40, 100])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES_ON_GPU)
def test_fused_models_agree_with_unfused_ones(family: str, dtype: torch.dtype, rows: int) -> None:
    if family in MIXTURES and dtype != torch.float32 and rows < 14:
        pytest.skip("a token whose experts change with the rounding decides the error")
    model = varied_model(family).to("cuda", dtype)  # type: ignore[arg-type]
    pooled = Pooled(model)
    before = pooled.logits(rows)
    swaps = pooled.fuse()
    found = Counter(swap.kind for swap in swaps)
    experts = Counter(experts=2) if family in MIXTURES else Counter()
    assert found - Counter(linear=found["linear"]) == Counter(FUSED[family]) + experts
    after = pooled.logits(rows)
    errors = (after.float() - before.float()).norm(dim=-1) / before.float().norm(dim=-1)
    assert float(errors.median()) < LOGITS[dtype]
    unfuse(swaps)
    assert torch.equal(pooled.logits(rows), before)


def test_rows_do_not_feel_their_neighbours() -> None:
    """A row alone gives the same bits as among others, which deterministic mode builds on."""
    from sgnb.engine.fusion import kernels

    x = torch.randn(300, 2 * 5120, device="cuda", dtype=torch.bfloat16)
    norm = Norm(torch.rand(2 * 5120, device="cuda"), 1e-5, early=True)
    for operation in (
        lambda rows: kernels.norm(rows, norm),
        lambda rows: kernels.gate(rows, "silu"),
    ):
        together = operation(x)
        for row in (0, 7, 299):
            assert torch.equal(operation(x[row : row + 1]), together[row : row + 1])
