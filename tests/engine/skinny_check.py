"""Compares the products of a few rows with float64. Run as a program: in triton's interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
from torch import Tensor

from sgnb.engine.fusion.plain import ACTIVATIONS
from sgnb.engine.fusion.skinny import Tiling, pick_tiling, skinny_linear

ROUNDINGS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to a number plus their mean size; four times as much is let pass."""

Norm = tuple[Tensor, float, float]
Case = tuple[str | None, bool, bool, bool]
"""What is asked for: gated, norm, bias, residual."""

CASES: list[Case] = list(itertools.product((None, *ACTIVATIONS), *[(False, True)] * 3))


def exact(
    x: Tensor, weight: Tensor, bias: Tensor | None, norm: Norm | None, residual: Tensor | None, gated: str | None
) -> Tensor:
    x = x.double()
    if norm is not None:
        x = x * (x.square().mean(-1, keepdim=True) + norm[1]).rsqrt() * (norm[0].double() + norm[2])
    y = x @ weight.double().T
    if bias is not None:
        y += bias.double()
    if gated is not None:
        gate, up = y.chunk(2, -1)
        y = ACTIVATIONS[gated](gate) * up
    return y if residual is None else y + residual.double()


def check(
    rows: int,
    columns: int,
    size: int,
    dtype: torch.dtype,
    device: str,
    tilings: Iterable[Tiling | None] = (None,),
    cases: Iterable[Case] = CASES,
) -> None:
    """Each case with each tiling; inputs are parts of wider tensors."""
    torch.manual_seed(rows * columns + size)
    x = torch.randn(rows, size + 8, device=device).to(dtype)[:, :size]
    weight = (torch.randn(2 * columns + 3, size, device=device) / size**0.5).to(dtype)[: 2 * columns]
    before = x.clone(), weight.clone()
    for gated, normed, biased, added in cases:
        matrix = weight if gated else weight[:columns]
        bias = torch.randn(len(matrix), device=device).to(dtype) if biased else None
        residual = torch.randn(rows, columns + 8, device=device).to(dtype)[:, :columns] if added else None
        norm = (torch.rand(size, device=device) - 0.5, 1e-5, 1.0) if normed else None
        expected = exact(x, matrix, bias, norm, residual, gated)
        for tiling in tilings:
            y = skinny_linear(x, matrix, bias, norm=norm, residual=residual, gated=gated, tiling=tiling)
            assert y.shape == expected.shape and y.dtype == dtype and y.is_contiguous()
            error = float(((y.double() - expected).abs() / (expected.abs() + expected.abs().mean())).max())
            case = gated, normed, biased, added
            assert error <= ROUNDINGS[dtype] * 4, (rows, columns, size, dtype, case, tiling, error)
    assert torch.equal(x, before[0]) and torch.equal(weight, before[1])


def check_refusals(device: str) -> None:
    x, weight = torch.zeros(2, 16, device=device), torch.zeros(6, 16, device=device)
    wrong = [
        ((x, weight[:, :8]), {}),
        ((x[0], weight), {}),
        ((x.half(), weight), {}),
        ((x.double(), weight.double()), {}),
        ((x, weight, weight[0]), {}),
        ((x, weight[:5]), {"gated": "silu"}),
        ((x, weight), {"gated": "relu"}),
        ((x, weight), {"residual": x}),
        ((x, weight), {"norm": (weight[0, :8], 1e-5, 0.0)}),
        ((x, torch.zeros(16, 6, device=device).T), {}),
    ]
    for arguments, options in wrong:
        try:
            skinny_linear(*arguments, **options)
        except ValueError:
            continue
        raise AssertionError((arguments, options))
    assert skinny_linear(x[:0], weight).shape == (0, 6)


def check_choices() -> None:
    """A tiling for every shape: powers of two that the tensor cores take."""
    for rows, columns, size in itertools.product(range(1, 9), (1, 4096, 131_072), (1, 100, 14_336)):
        for gated in (False, True):
            tiling = pick_tiling(rows, columns, size, gated, 132)
            assert all(n & (n - 1) == 0 for n in (tiling.block_n, tiling.block_k, tiling.warps))
            assert not tiling.dot or (tiling.block_n >= 16 and tiling.block_k >= 16)


if __name__ == "__main__":
    sums, whole = Tiling(False, 8, 64, 4, 1), Tiling(False, 4, 8, 4, 2, unroll=2)
    dots = Tiling(True, 16, 32, 1, 2)
    # The interpreter multiplies the bit patterns of bfloat16 matrices, so these are summed only.
    check(1, 10, 72, torch.bfloat16, "cpu", [sums])
    check(3, 17, 40, torch.float16, "cpu", [sums, whole, dots])
    check(2, 9, 40, torch.float32, "cpu", [None])
    check(8, 9, 33, torch.float32, "cpu", [None])
    check_refusals("cpu")
    check_choices()
    print("all agree")
