"""Products of FP8 inputs and FP8 weights on tensor cores: each row of inputs is rounded to FP8 with
a scale of its own, and `torch._scaled_mm` multiplies by both scales.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor

from ..quantization.packed import PackedWeight
from . import reference
from .types import Norm

_log = logging.getLogger(__name__)

QuantizeRows = Callable[[Tensor, Norm | None], tuple[Tensor, Tensor]]
"""See `reference.quantize_rows`."""

SCALED_ROWS = 17
"""Minimum rows. Fewer rows are bound by reads of weights, and need no rounded inputs."""

ALIGNED = 16
"""Sizes of the weight are multiples of this."""

TOLERANCE = 0.02
"""Relative error of the check of a device: rounding of bfloat16, and short accumulators."""


_exact: ContextVar[bool] = ContextVar("exact", default=False)


@contextmanager
def exact_inputs() -> Iterator[None]:
    """Round no inputs to FP8 in the block: comparisons would find the rounding."""
    token = _exact.set(True)
    try:
        yield
    finally:
        _exact.reset(token)


def can_scale(weight: PackedWeight) -> bool:
    """True if `scaled_linear` supports the weight, and the weight's format rounds inputs."""
    rows, columns = weight.shape
    per_row = weight.block[0] == 1 and weight.block[1] >= columns
    aligned = rows % ALIGNED == 0 == columns % ALIGNED
    return weight.fp8_inputs and per_row and aligned and not _exact.get()


def scaled_linear(
    x: Tensor,
    weight: PackedWeight,
    bias: Tensor | None = None,
    norm: Norm | None = None,
    *,
    quantize: QuantizeRows = reference.quantize_rows,
) -> Tensor:
    """Return x [T, K], normed if asked and rounded to FP8, times weight [N, K] plus bias [N], in
    x's dtype."""
    values, scales = quantize(x, norm)
    return torch._scaled_mm(
        values,
        weight.values.t(),
        scales,
        weight.scales.float().t(),
        bias,
        out_dtype=x.dtype,
        use_fast_accum=x.is_cuda,
    )


@cache
def is_supported(device: torch.device) -> bool:
    """True if the device multiplies FP8 matrices with a scale per row: compares a small product
    with float32."""
    if device.type == "cuda" and (
        not torch.cuda.is_available() or torch.cuda.get_device_capability(device) < (8, 9)
    ):
        return False

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 64, generator=generator).to(device, torch.bfloat16)
    values = (torch.randn(48, 64, generator=generator) * 50).to(device, torch.float8_e4m3fn)
    scales = (torch.rand(48, 1, generator=generator) + 0.5).to(device)
    weight = PackedWeight("fp8", values, scales, None, None, (1, 64), fp8_inputs=True)

    try:
        found = scaled_linear(x, weight).float()
    except (RuntimeError, AttributeError, TypeError) as error:
        _log.debug("torch._scaled_mm is unusable on %s: %r", device, error)
        return False

    rounded, row_scales = reference.quantize_rows(x)
    expected = (rounded.float() * row_scales) @ (values.float() * scales).t()
    return float((found - expected).norm() / expected.norm()) <= TOLERANCE
