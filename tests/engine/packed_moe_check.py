"""Compares mixtures of packed experts with float64 of the dequantized weights, and with dense
models token by token. Run as a program: in triton's interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from sgnb.engine.fusion import moe, moe_kernels
from sgnb.engine.fusion.kernel_weights import dot_block
from sgnb.engine.fusion.moe import Act, FusedExperts, activation_of, fused_experts
from sgnb.engine.fusion.types import GemmTiling
from sgnb.engine.model.loading import load_module
from sgnb.engine.quantization.modules import QuantizedExperts
from sgnb.engine.quantization.packed import PackedWeight, stack

from . import quantized_checkpoints as checkpoints
from .moe_check import ROUNDINGS, Layer, Shape, exact, interleaved, route
from .packed_skinny_check import LAYOUTS, moved, packed

FORMATS = "fp8 in blocks", "awq", "compressed fp8 per row"
"""Formats of a Qwen 3 MoE checkpoint, one per layout of the packed weights; gpt-oss is in MXFP4."""


def make_experts(
    make: Callable[..., PackedWeight], shape: Shape, device: str
) -> list[PackedWeight]:
    """Return gate_up and down of random experts."""
    sizes = (2 * shape.inner, shape.hidden), (shape.hidden, shape.inner)
    stacked = [stack([make(*size) for _ in range(shape.experts)]) for size in sizes]
    return [moved(weight, device) for weight in stacked]


def check(
    make: Callable[..., PackedWeight],
    shape: Shape,
    dtype: torch.dtype,
    device: str,
    act: Act = "silu",
    *,
    bias: bool = False,
    tilings: tuple[GemmTiling, GemmTiling] | None = None,
) -> None:
    """Packed experts agree with float64 of the dequantized weights, and no expert is decoded."""
    torch.manual_seed(sum(shape))
    gate_up, down = make_experts(make, shape, device)
    assert dot_block(gate_up) and dot_block(down)
    biases = [
        torch.randn(shape.experts, n, device=device).to(dtype) if bias else None
        for n in (2 * shape.inner, shape.hidden)
    ]
    x = torch.randn(shape.tokens, shape.hidden + 8, device=device).to(dtype)[:, : shape.hidden]
    ids, weights = route(shape, device)
    y = fused_experts(
        x, gate_up, down, ids, weights, act,
        gate_up_bias=biases[0], down_bias=biases[1], tilings=tilings,
    )  # fmt: skip
    matrices = gate_up.reference(torch.float64), down.reference(torch.float64)
    expected = exact(x, Layer(*matrices, *biases), ids, weights, act)
    assert y.shape == x.shape and y.dtype == dtype
    error = float(((y.double() - expected).abs() / (expected.abs() + expected.abs().mean())).max())
    assert error <= ROUNDINGS[dtype], (gate_up.kind, gate_up.block, shape, dtype, error)


def check_bits(
    make: Callable[..., PackedWeight],
    shape: Shape,
    dtype: torch.dtype,
    device: str,
    counts: tuple[int, ...],
) -> None:
    """Batch-invariant experts: tokens in any number and order give the bits of each token alone."""
    torch.manual_seed(sum(shape))
    experts = make_experts(make, shape, device)
    x = torch.randn(shape.tokens, shape.hidden, device=device).to(dtype)
    ids, weights = route(shape, device)

    def run(rows: torch.Tensor) -> torch.Tensor:
        return fused_experts(
            x[rows], *experts, ids[rows], weights[rows], "silu", batch_invariant=True
        )

    alone = torch.cat([run(row[None]) for row in torch.arange(shape.tokens, device=device)])
    for count in counts:
        rows = torch.randint(shape.tokens, (count,), device=device)
        assert torch.equal(run(rows), alone[rows]), (shape, dtype, count)


def check_unreadable() -> None:
    """A layout that the kernel cannot read is decoded: the results agree all the same."""
    make = partial(packed, "int4", (1, 12), torch.float16, False)
    weight = stack([make(4, 24)])
    assert not dot_block(weight)
    gate_up, down = make_experts(make, Shape(5, 1, 2, 24, 48), "cpu")
    x = torch.randn(5, 24)
    ids, weights = route(Shape(5, 1, 2, 24, 48), "cpu")
    y = fused_experts(x, gate_up, down, ids, weights, "silu")
    matrices = gate_up.reference(torch.float64), down.reference(torch.float64)
    expected = exact(x, Layer(*matrices, None, None), ids, weights, "silu")
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def check_tokens(write: Callable[[Path], Any]) -> None:
    """A model of packed experts generates the tokens of its dense model, and each step reads the
    packed experts."""
    with TemporaryDirectory() as folder:
        dense = write(Path(folder))
        loaded: Any = load_module(folder, torch.device("cpu"), torch.float32)
    kinds, own = list[str](), moe_kernels.grouped_kernel

    def launch(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
        if kernel is own:
            kinds.append(options["KIND"])
        kernel[grid](*args, **options)

    moe.launch = launch
    for module in loaded.modules():
        if isinstance(module, QuantizedExperts):
            module.forward = FusedExperts(module, activation_of(module)).forward
    prompt = torch.tensor([[5, 17, 3, 42, 8]])
    options: dict[str, Any] = {"max_new_tokens": 2, "do_sample": False}
    tokens = [model.generate(prompt, **options) for model in (loaded, dense)]
    assert torch.equal(*tokens)
    assert kinds and "" not in kinds
    torch.testing.assert_close(loaded(prompt).logits, dense(prompt).logits, rtol=1e-3, atol=1e-4)


def run(quick: bool) -> None:
    small = GemmTiling(16, 64, 64, 4, 1)
    acts: tuple[tuple[Act, bool], ...] = (("silu", False), (interleaved, True))
    for number, layout in enumerate(LAYOUTS):
        act, bias = acts[number % 2]
        dtypes = torch.float16, torch.float32
        for dtype in dtypes[:1] if quick else dtypes:
            for ordered in (False,) if quick else (False, layout[0] == "int4"):
                make = partial(packed, *layout, ordered=ordered)
                check(make, Shape(3, 2, 3, 96, 64), dtype, "cpu", act, bias=bias)
                if not quick and dtype is dtypes[number % 2]:
                    shape = Shape(19, 2, 3, 160, 224)
                    check(make, shape, dtype, "cpu", act, bias=bias, tilings=(small, small))
    if quick:
        return
    check_unreadable()
    for layout in LAYOUTS[1], LAYOUTS[3]:
        check_bits(partial(packed, *layout), Shape(3, 2, 2, 96, 64), torch.float16, "cpu", (3, 150))
    check_tokens(checkpoints.write_gpt_oss)
    for name in FORMATS:
        check_tokens(partial(checkpoints.write_qwen_moe, name=name))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(sys.argv[1:] == ["quick"])
    print("all agree")
