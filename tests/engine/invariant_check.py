"""Compares the batch-invariant product with float64, and its rows with themselves. Run as a
program: interpreted.

The interpreter must be chosen before triton is imported, so it needs a process of its own. It shows
the kernel's arithmetic right, not its bits: those are the GPU's.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from sgnb.engine.fusion.invariant import (
    FULL_PRECISION,
    LARGE,
    TILINGS,
    invariant_linear,
    pick_tiling,
)
from sgnb.engine.fusion.types import GemmTiling

ROUNDINGS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to a number plus their mean size."""

COUNTS = (1, 2, 7, 16, 33, 64, 65, 100, 128, 256, 513, 1000, 8192)


def check(
    rows: int,
    columns: int,
    size: int,
    dtype: torch.dtype,
    device: str,
    tilings: Iterable[GemmTiling | None] = (None,),
) -> None:
    from sgnb.engine.fusion.invariant_kernel import multiply

    torch.manual_seed(rows * columns + size)
    x = torch.randn(rows, size + 8, device=device).to(dtype)[:, :size]
    weight = (torch.randn(columns + 3, size, device=device) / size**0.5).to(dtype)[:columns]
    for bias in (None, torch.randn(columns, device=device).to(dtype)):
        exact = x.double() @ weight.double().T
        exact = exact if bias is None else exact + bias.double()
        for tiling in tilings:
            y = multiply(x, weight, bias, tiling or pick_tiling(rows, dtype))
            assert y.shape == exact.shape and y.dtype == dtype and y.is_contiguous()
            error = float(((y.double() - exact).abs() / (exact.abs() + exact.abs().mean())).max())
            assert error <= ROUNDINGS[dtype], (rows, columns, size, dtype, tiling, error)


def check_bits(
    columns: int,
    size: int,
    dtype: torch.dtype,
    device: str,
    counts: Iterable[int] = COUNTS,
    tilings: Iterable[GemmTiling | None] = (None,),
) -> None:
    """Rows drawn at random from a pool, in any number and order, give the bits that each gives
    alone."""
    generator = torch.Generator(device).manual_seed(columns + size)
    pool = torch.randn(64, size, device=device, generator=generator)
    pool = (pool * torch.rand(64, 1, device=device, generator=generator) * 10).to(dtype)
    weight = torch.randn(columns, size, device=device, generator=generator).to(dtype)
    bias = torch.randn(columns, device=device, generator=generator).to(dtype)
    alone = torch.cat([invariant_linear(row[None], weight, bias) for row in pool])
    for count in counts:
        picked = torch.randint(64, (count,), device=device, generator=generator)
        for tiling in tilings:
            y = invariant_linear(pool[picked], weight, bias, tiling=tiling)
            assert torch.equal(y, alone[picked]), (columns, size, dtype, count, tiling)


def check_refusals(device: str) -> None:
    x, weight = torch.zeros(2, 16, device=device), torch.zeros(6, 16, device=device)
    for wrong in [
        (x, weight[:, :8]),
        (x, weight[0]),
        (x.half(), weight),
        (x.double(), weight.double()),
        (x, weight, weight[0]),
        (x, weight, weight[:, 0].half()),
        (x, torch.zeros(16, 6, device=device).T),
    ]:
        try:
            invariant_linear(*wrong)
        except ValueError:
            continue
        raise AssertionError([tensor.shape for tensor in wrong])
    assert invariant_linear(x[:0], weight).shape == (0, 6)
    assert invariant_linear(torch.zeros(2, 3, 16, device=device), weight).shape == (2, 3, 6)


if __name__ == "__main__":
    small = GemmTiling(16, 32, 32, 4, 2)
    every = [None, *(tiling for _, tiling in TILINGS), LARGE, FULL_PRECISION, small]
    check(37, 45, 72, torch.float16, "cpu", every)
    check(150, 140, 33, torch.float32, "cpu", [None, LARGE, small])
    print("all agree")
