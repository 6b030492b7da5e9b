"""Compares products of a few rows with packed weights with float64 of the dequantized weights. Run
as a program: in triton's interpreter."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sgnb.engine import fusion
from sgnb.engine.attention import LayerOptions
from sgnb.engine.fusion import module_trace
from sgnb.engine.fusion.kernel_weights import can_sum, dot_block
from sgnb.engine.fusion.module_patterns import ROTARIES
from sgnb.engine.fusion.operations import pick_operations
from sgnb.engine.fusion.skinny import (
    PACKED_DOT_ROWS,
    SkinnyTiling,
    projects,
    serves,
    skinny_linear,
    skinny_project,
)
from sgnb.engine.fusion.types import AttentionPlan, Heads, Norm
from sgnb.engine.quantization.modules import QuantizedLinear
from sgnb.engine.quantization.packed import Kind, PackedWeight, pack_nibbles
from sgnb.engine.quantization.quantize import QUANTIZERS

from .fusion_kernel_check import backend, exact_rotation
from .fusion_models import Pooled, own_logits, varied_model
from .skinny_check import CASES, Case, close, exact

Layout = tuple[Kind, tuple[int, int], torch.dtype, bool]

LAYOUTS: list[Layout] = [
    ("int4", (1, 16), torch.float16, True),
    ("int4", (1, 32), torch.bfloat16, False),
    ("int4", (1, 10**6), torch.float32, True),
    ("fp8", (1, 10**6), torch.bfloat16, False),
    ("fp8", (4, 32), torch.float32, False),
    ("mxfp4", (1, 32), torch.uint8, False),
]
"""Kind, block, dtype of the scales, and whether the zero points are stored. 10**6: one scale per
row."""


DOTS = SkinnyTiling(True, 32, 128, 4, 1, block_t=16)


def packed(
    kind: Kind,
    block: tuple[int, int],
    dtype: torch.dtype,
    zeros: bool,
    rows: int,
    columns: int,
    ordered: bool = False,
) -> PackedWeight:
    """A random matrix; all codes occur, and the largest and smallest exponents of MXFP4 do not."""
    high, wide = block[0], min(block[1], columns)
    shape = -(-rows // high), -(-columns // wide)
    if kind == "fp8":
        numbers = (torch.randn(rows, columns) * 100).clamp(-448, 448)  # above: NaN
        values = numbers.to(torch.float8_e4m3fn)
    else:
        values = pack_nibbles(torch.randint(16, (rows, columns)))
    size = 3.0 * columns**0.5 * (100 if kind == "fp8" else 5)
    scales = ((torch.rand(shape) + 0.5) / size).to(dtype)
    if kind == "mxfp4":
        scales = torch.randint(118, 126, shape).to(torch.uint8)
    points = torch.randint(16, shape).to(torch.uint8) if zeros else None
    order = torch.randperm(columns).int() if ordered else None
    return PackedWeight(kind, values, scales, points, order, (high, wide))


def moved(weight: PackedWeight, device: str) -> PackedWeight:
    return weight.with_parts({name: part.to(device) for name, part in weight.parts().items()})


def check(
    weight: PackedWeight,
    rows: int,
    dtype: torch.dtype,
    cases: list[Case],
    tilings: tuple[SkinnyTiling | None, ...] = (None,),
) -> None:
    """Each case with each tiling, on the weight's device."""
    height, size = weight.shape
    device = weight.values.device
    x = torch.randn(rows, size + 8, device=device).to(dtype)[:, :size]
    matrix = weight.reference(torch.float64)
    assert None not in tilings or serves(x, weight, False)
    for gated, normed, biased, added in cases:
        columns = height // 2 if gated else height
        bias = torch.randn(height, device=device).to(dtype) if biased else None
        residual = torch.randn(rows, columns + 8, device=device).to(dtype)[:, :columns]
        norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, False) if normed else None
        more: Any = {"norm": norm, "residual": residual if added else None, "gated": gated}
        expected = exact(x, matrix, bias, *more.values())
        for tiling in tilings:
            y = skinny_linear(x, weight, bias, tiling=tiling, **more)
            assert y.shape == expected.shape and y.dtype == dtype
            close(y, expected, (weight.kind, weight.block, rows, gated, normed, tiling))


def check_dots(layout: Layout, number: int, quick: bool) -> None:
    """Tensor cores: one tile of rows and several, with and without an order of the columns."""
    ordered = layout[0] == "int4" and number % 2 == 0
    weight = packed(*layout, 38, 96 if quick else 224, ordered=ordered)
    cases: list[Case] = [("silu", True, True, False)] if quick else CASES[number % 3 :: 7]
    for rows, tiling in ((5, None), (21, DOTS)):
        for dtype in (torch.float16,) if quick else (torch.float16, torch.float32):
            check(weight, rows, dtype, cases, (tiling,))
    block = dot_block(packed(*layout, 38, 320))
    shares = layout[1][1] >= 320 or layout[1][1] % block == 0
    wide = SkinnyTiling(True, 32, 64, 4, 1, block_t=16)
    if not quick and layout[0] != "int4" and (shares or 64 % layout[1][1] == 0):
        check(packed(*layout, 38, 320), 9, torch.float32, cases, (wide,))


def check_projection(weight: PackedWeight, heads: Heads, rows: int, dtype: torch.dtype) -> None:
    """Projection with norm, bias, rotation and storing, on the weight's device."""
    size, device = weight.shape[1], weight.values.device
    x = torch.randn(rows, size, device=device).to(dtype)
    bias = torch.randn(sum(heads.widths), device=device).to(dtype)
    norm = Norm(torch.rand(size, device=device) + 0.5, 1e-5, False)
    turns = torch.rand(rows, heads.dim, device=device) * 6
    angles = turns.cos().to(dtype), turns.sin().to(dtype)
    plan = AttentionPlan(3, heads, LayerOptions(1.0), ROTARIES[0], None, None)
    mine = backend(rows, heads, dtype, device.type)
    q = skinny_project(x, weight, bias, plan, angles, mine, norm=norm)
    qkv = exact(x, weight.reference(torch.float64), bias, norm, None, None)
    parts = exact_rotation(qkv, plan, angles)[0].split([heads.query, heads.kv, heads.kv], 1)
    pools = mine.kv.keys[3], mine.kv.values[3]
    found = (q, *(pool[mine.new_slots] for pool in pools))
    for one, right in zip(found, parts, strict=True):
        close(one, right, (weight.kind, heads))


def check_layouts() -> None:
    """Layouts that the kernels cannot read, and rows beyond the limits."""
    weight = packed("int4", (1, 32), torch.float16, False, 4, 64)
    limit = PACKED_DOT_ROWS["int4"]
    assert projects(torch.zeros(2, 64), weight) and not projects(torch.zeros(3, 64), weight)
    assert serves(torch.zeros(limit, 64), weight, False)
    assert not serves(torch.zeros(limit + 1, 64), weight, False)
    readable = {
        ("int4", (1, 32), 64): (True, 128),
        ("int4", (1, 256), 512): (True, 128),
        ("int4", (1, 64), 192): (True, 128),
        ("int4", (1, 24), 72): (False, 0),
        ("int4", (1, 72), 72): (True, 128),
        ("int4", (1, 36), 36): (False, 0),
        ("int4", (1, 40), 40): (True, 128),
        ("mxfp4", (1, 36), 36): (False, 128),
        ("int4", (1, 192), 960): (False, 0),
        ("mxfp4", (1, 192), 960): (False, 64),
        ("int4", (1, 48), 34): (False, 0),
        ("fp8", (2, 36), 36): (True, 128),
        ("fp8", (2, 24), 72): (False, 0),
        ("mxfp4", (1, 32), 2880): (True, 64),
    }
    for (kind, block, size), expected in readable.items():
        layout: Any = kind, block, torch.float16, False, 4, size
        weight = packed(*layout)
        assert (can_sum(weight), dot_block(weight)) == expected, layout
    for x, wrong in ((torch.zeros(1, 72), (1, 24)), (torch.zeros(1, 64), (1, 72))):
        try:
            skinny_linear(x, packed("int4", wrong, torch.float16, False, 4, 72))
        except ValueError:
            continue
        raise AssertionError(wrong)


def check_all_codes() -> None:
    """Each code of each kind alone, exactly, with extreme scales."""
    for kind in ("int4", "mxfp4"):
        weight = packed(kind, (1, 32), torch.float32, False, 16, 32)
        codes = torch.arange(16)[:, None].expand(16, 32).contiguous()
        scales = torch.full((16, 1), 2.0**-9)
        if kind == "mxfp4":
            scales = torch.tensor([0, 1, 90, 127, 180, 250]).repeat(3)[:16, None].to(torch.uint8)
        weight = weight._replace(values=pack_nibbles(codes), scales=scales)
        for place in range(8):
            for tiling in (None, DOTS):
                x = torch.zeros(1, 32)
                x[0, 8 + place] = 1
                y = skinny_linear(x, weight, tiling=tiling)
                expected = weight.reference(torch.float32)[:, 0]
                assert torch.equal(y[0], expected), (kind, place, tiling)


def check_large_scales() -> None:
    """MXFP4 with scales of all blocks from 4 on, on tensor cores."""
    weight = packed("mxfp4", (1, 32), torch.uint8, False, 38, 160)
    for exponent in (129, 180):
        weight = weight._replace(scales=torch.full_like(weight.scales, exponent))
        check(weight, 5, torch.float32, [(None, False, False, False)])


def check_outliers() -> None:
    """Inputs far above the others, at columns of weights of 0, cost float16 no digits."""
    codes = torch.randint(16, (38, 128))
    codes[:, 5], codes[:, 70] = 3, 3
    scales = torch.full((38, 2), 0.01, dtype=torch.float16)
    points = torch.full((38, 2), 3, dtype=torch.uint8)
    weight = PackedWeight("int4", pack_nibbles(codes), scales, points, None, (1, 64))
    whole = weight._replace(scales=scales[:, :1], zeros=points[:, :1], block=(1, 128))
    for each in (weight, whole):
        x = torch.randn(5, 128).half()
        x[:, 5], x[:, 70] = 9000.0, -3000.0
        exact = x.double() @ each.reference(torch.float64).t()
        close(skinny_linear(x, each, tiling=DOTS), exact, each.block)


def check_model(name: str, family: str) -> None:
    """A fused model with packed weights against its own forward: steps of few rows use the kernels,
    for each matrix of a layer."""
    operations = pick_operations(torch.device("cuda"), torch.bfloat16, None)
    module_trace.ROWS = 5, 2
    skinny = operations.skinny
    assert skinny is not None
    kinds = list[str]()

    def recorded(x: Tensor, weight: Any, *arguments: Any, **options: Any) -> Tensor:
        kinds.append(getattr(weight, "kind", "dense"))
        return skinny.linear(x, weight, *arguments, **options)

    def projected(x: Tensor, weight: Any, *arguments: Any, **options: Any) -> Tensor:
        kinds.append(getattr(weight, "kind", "dense"))
        return skinny.project(x, weight, *arguments, **options)

    counted = replace(operations, skinny=skinny._replace(linear=recorded, project=projected))
    fusion.pick_operations = lambda *_: counted  # type: ignore[assignment]
    model = varied_model(family, num_hidden_layers=1)
    for module in list(model.model.layers.modules()):
        for child, linear in list(module.named_children()):
            if type(linear) is torch.nn.Linear:
                weight = QUANTIZERS[name](linear.weight.detach())
                setattr(module, child, QuantizedLinear(weight, linear.bias))
    rows = (1, 3)
    expected = [own_logits(model, count) for count in rows]
    pooled = Pooled(model)
    assert {"attention", "layer"} <= {swap.kind for swap in pooled.fuse()}
    for count, logits in zip(rows, expected, strict=True):
        kinds.clear()
        assert torch.allclose(pooled.logits(count), logits, atol=2e-4, rtol=1e-4), (family, count)
        assert kinds.count(name) == 4, kinds


def run(quick: bool) -> None:
    torch.manual_seed(0)
    check_layouts()
    check_all_codes()
    check_large_scales()
    check_outliers()
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    some: list[Case] = [("silu", True, True, False), (None, True, False, True)]
    for number, layout in enumerate(LAYOUTS):
        size = 96 if quick else 224
        pairs = list(itertools.product(dtypes, (1, 3)))
        for dtype, rows in pairs[number : number + 1] if quick else pairs:
            tiny = SkinnyTiling(False, 4, 16 if layout[1][1] > size else 64, 4, 1, unroll=1)
            weight = packed(*layout, 14, size, number % 2 == 0)
            # The interpreter has no products of bfloat16 on tensor cores.
            tilings = (tiny,) if quick or dtype == torch.bfloat16 else (None, tiny)
            check(weight, rows, dtype, some if quick else CASES[number % 3 :: 7], tilings)
        heads = Heads(2, 1, 16)
        weight = packed(*layout, sum(heads.widths), 96)
        for rows in () if quick and number % 2 else (1, 4)[quick:]:
            check_projection(weight, heads, rows, torch.float32)
        check_dots(layout, number, quick)
    for name in () if quick else QUANTIZERS:
        check_model(name, "llama")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(sys.argv[1:] == ["quick"])
    print("all agree")
