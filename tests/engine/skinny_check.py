"""Compares the products of a few rows with float64. Run as a program: in triton's interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from sgnb.engine.attention import LayerOptions
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.cache.kv_dtype import KVDtype
from sgnb.engine.fusion.module_patterns import ROTARIES
from sgnb.engine.fusion.reference import ACTIVATIONS
from sgnb.engine.fusion.skinny import (
    PAIRS,
    SkinnyTiling,
    can_project,
    pick_projection,
    pick_tiling,
    serves,
    skinny_linear,
    skinny_project,
)
from sgnb.engine.fusion.types import Activation, Angles, AttentionPlan, Heads, Norm

from .fusion_kernel_check import backend, exact_rotation

ROUNDINGS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to a number plus their mean size; four times as much is let pass."""

Case = tuple[Activation | None, bool, bool, bool]
"""What is asked for: gated, norm, bias, residual."""

CASES: list[Case] = list(itertools.product((None, *ACTIVATIONS), *[(False, True)] * 3))


def exact(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Norm | None,
    residual: Tensor | None,
    gated: Activation | None,
) -> Tensor:
    x = x.double()
    if norm is not None:
        x = x * (x.square().mean(-1, keepdim=True) + norm.eps).rsqrt() * norm.factor.double()
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
    tilings: Iterable[SkinnyTiling | None] = (None,),
    cases: Iterable[Case] = CASES,
) -> None:
    """Each case with each tiling; inputs are parts of wider tensors."""
    torch.manual_seed(rows * columns + size)
    x = torch.randn(rows, size + 8, device=device).to(dtype)[:, :size]
    weight = (torch.randn(2 * columns + 3, size, device=device) / size**0.5).to(dtype)[
        : 2 * columns
    ]
    before = x.clone(), weight.clone()
    for gated, normed, biased, added in cases:
        matrix = weight if gated else weight[:columns]
        bias = torch.randn(len(matrix), device=device).to(dtype) if biased else None
        residual = (
            torch.randn(rows, columns + 8, device=device).to(dtype)[:, :columns] if added else None
        )
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, False) if normed else None
        expected = exact(x, matrix, bias, norm, residual, gated)
        for tiling in tilings:
            y = skinny_linear(
                x, matrix, bias, norm=norm, residual=residual, gated=gated, tiling=tiling
            )
            assert y.shape == expected.shape and y.dtype == dtype and y.is_contiguous()
            close(y, expected, (rows, columns, size, (gated, normed, biased, added), tiling))
    assert torch.equal(x, before[0]) and torch.equal(weight, before[1])


def close(mine: Tensor, exact: Tensor, what: object) -> None:
    error = float(((mine.double() - exact).abs() / (exact.abs() + exact.abs().mean())).max())
    assert error <= ROUNDINGS[mine.dtype] * 4, (mine.dtype, what, error)


def check_projection(
    rows: int,
    heads: Heads,
    size: int,
    dtype: torch.dtype,
    device: str,
    tilings: Iterable[SkinnyTiling | None] = (None,),
) -> None:
    """All ways to rotate whole heads, with norm and bias and without both; slots as a step has
    them."""
    torch.manual_seed(rows + size)
    x = torch.randn(rows, size + 8, device=device).to(dtype)[:, :size]
    weight = (torch.randn(sum(heads.widths), size, device=device) / size**0.5).to(dtype)
    for rotary, more in itertools.product(ROTARIES, (False, True)):
        plan = AttentionPlan(3, heads, LayerOptions(1.0), rotary, None, None)
        turns = (
            torch.rand(
                rows,
                0 if rotary is None else heads.dim // (1 if rotary.twice else 2),
                device=device,
            )
            * 6
        )
        angles = None if rotary is None else (turns.cos().to(dtype), turns.sin().to(dtype))
        assert can_project(plan, angles, no_kv())
        bias = torch.randn(len(weight), device=device).to(dtype) if more else None
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, False) if more else None
        qkv = exact(x, weight, bias, norm, None, None)
        expected = exact_rotation(qkv, plan, angles)[0].split([heads.query, heads.kv, heads.kv], 1)
        for tiling in tilings:
            mine = backend(rows, heads, dtype, device)
            mine.new_slots, spare = torch.randperm(rows + 1, device=device).int().split([rows, 1])
            q = skinny_project(x, weight, bias, plan, angles, mine, norm=norm, tiling=tiling)
            pools = mine.kv.keys[3], mine.kv.values[3]
            for found, right in zip(
                (q, *(pool[mine.new_slots] for pool in pools)), expected, strict=True
            ):
                close(found, right, (rows, heads, size, rotary, more, tiling))
            assert not any(pool[spare].any() for pool in pools)


def no_kv(kv_dtype: KVDtype = "auto") -> KVCache:
    return KVCache({}, 1, torch.float32, torch.device("cpu"), kv_dtype)


def check_what_is_projected() -> None:
    """Neither parts of heads, nor heads with norms, nor heads that are not whole programs."""

    def plan(dim: int, **changes: object) -> AttentionPlan:
        return replace(
            AttentionPlan(0, Heads(2, 1, dim), LayerOptions(1.0), ROTARIES[0], None, None),
            **changes,
        )

    def turned(count: int) -> Angles:
        return torch.ones(1, count), torch.zeros(1, count)

    rotary, norm = ROTARIES[0], Norm(torch.ones(64), 1e-5, False)
    assert rotary is not None and rotary.pairs(64) == 32
    kv = no_kv()
    assert can_project(plan(64), turned(64), kv) and can_project(plan(64, rotary=None), None, kv)
    assert not can_project(plan(64), turned(32), kv) and not can_project(plan(20), turned(20), kv)
    assert not can_project(plan(64, q_norm=norm, k_norm=norm), turned(64), kv)
    assert not can_project(plan(64), turned(64), no_kv("fp8"))
    mine, x = backend(1, Heads(2, 1, 64), torch.float32, "cpu"), torch.zeros(1, 16)
    try:
        skinny_project(x, torch.zeros(128, 16), None, plan(64, layer=3, rotary=None), None, mine)
    except ValueError:
        return
    raise AssertionError("weights of other heads")


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
        ((x, weight), {"norm": Norm(weight[0, :8], 1e-5, False)}),
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
    """A tiling for every shape: powers of two that the tensor cores take; of one row's pairs, no
    turn left over."""
    sizes = (1, 100, 896, 2304, 2560, 2880, 3072, 4096, 5120, 6144, 7168, 14_336)
    for size, rows in itertools.product(sizes, (1, 2, 3, 8, 16)):
        projection = pick_projection(min(rows, 2), size)
        assert not projection.dot and PAIRS % projection.block_n == 0
        shapes = itertools.product((1, 896, 2048, 2560, 4096, 6144, 17_408, 131_072), (False, True))
        picked = [pick_tiling(rows, columns, size, gated, 132) for columns, gated in shapes]
        for tiling in (projection, *picked):
            powers = tiling.block_n, tiling.block_k, tiling.warps
            assert all(n > 0 and n & (n - 1) == 0 for n in powers)
            assert tiling.stages > 0 and 0 < tiling.unroll <= 32
            assert not tiling.dot or (tiling.block_n >= 16 and tiling.block_k >= 16)
        assert rows <= 2 or all(tiling.dot for tiling in picked), "sums take too many registers"
        for one in (pick_projection(1, size), pick_tiling(1, 8192, size, True, 132)):
            assert -(-size // one.block_k) % one.unroll == 0
    cpu = torch.empty(0, 8)
    few = (1, 1, False), (2, 1, False), (16, 25, False), (2, 2, True), (16, 50, True)
    for rows, columns, gated in few:
        assert serves(cpu.new_empty(rows, 8), cpu.new_empty(columns, 8), gated)
    many = (3, 24, False), (17, 4096, False), (3, 48, True), (17, 4096, True)
    for rows, columns, gated in many:
        assert not serves(cpu.new_empty(rows, 8), cpu.new_empty(columns, 8), gated)
    assert not serves(cpu.new_empty(8, 2).T, cpu.new_empty(9, 8), False)
    assert not serves(cpu.new_empty(1, 8), cpu.new_empty(8, 9).T, False)


if __name__ == "__main__":
    sums, whole = SkinnyTiling(False, 8, 64, 4, 1), SkinnyTiling(False, 4, 8, 4, 2, unroll=2)
    dots = SkinnyTiling(True, 16, 32, 1, 2)
    # The interpreter multiplies the bit patterns of bfloat16 matrices, so these are summed only.
    check(1, 10, 72, torch.bfloat16, "cpu", [sums])
    check(3, 17, 40, torch.float16, "cpu", [sums, whole, dots])
    check(2, 9, 40, torch.float32, "cpu", [None])
    check(8, 9, 33, torch.float32, "cpu", [None])
    check(1, 6, 600, torch.float32, "cpu", cases=[("silu", True, True, False)])
    check_projection(1, Heads(2, 1, 32), 72, torch.bfloat16, "cpu", [sums])
    check_projection(3, Heads(1, 1, 32), 40, torch.float16, "cpu", [whole])
    check_projection(5, Heads(2, 1, 32), 33, torch.float32, "cpu")
    check_what_is_projected()
    check_refusals("cpu")
    check_choices()
    print("all agree")
