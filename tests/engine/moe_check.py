"""Compares mixtures of experts with float64. Run as a program: in triton's interpreter.

The interpreter must be chosen before triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import math
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sgnb.engine.fusion import moe
from sgnb.engine.fusion.moe import Act, fused_experts
from sgnb.engine.fusion.reference import ACTIVATIONS
from sgnb.engine.fusion.types import GemmTiling
from sgnb.engine.fusion.weights import DenseWeight, Weight
from sgnb.engine.quantization.modules import quantize_experts
from sgnb.engine.quantization.packed import stack
from sgnb.engine.quantization.quantize import quantize_fp8, quantize_int4

ROUNDINGS = {torch.float32: 2e-5, torch.float16: 6e-3, torch.bfloat16: 5e-2}
"""Relative to a number plus their mean size."""


class Shape(NamedTuple):
    tokens: int
    choices: int
    experts: int
    hidden: int
    inner: int


class Layer(NamedTuple):
    gate_up: Tensor
    down: Tensor
    gate_up_bias: Tensor | None
    down_bias: Tensor | None


def make_layer(
    shape: Shape, dtype: torch.dtype, device: str, *, bias: bool = False, transposed: bool = False
) -> Layer:
    def weight(columns: int, terms: int) -> Tensor:
        w = torch.randn(shape.experts, columns, terms, device=device).mul_(terms**-0.5).to(dtype)
        return w.transpose(1, 2).contiguous().transpose(1, 2) if transposed else w

    biases = [
        torch.randn(shape.experts, n, device=device).to(dtype) if bias else None
        for n in (2 * shape.inner, shape.hidden)
    ]
    return Layer(weight(2 * shape.inner, shape.hidden), weight(shape.hidden, shape.inner), *biases)


def route(shape: Shape, device: str, favourites: int | None = None) -> tuple[Tensor, Tensor]:
    """Different experts for a token; only the first `favourites` ones, if given."""
    scores = torch.rand(shape.tokens, shape.experts, device=device)
    if favourites is not None:
        scores[:, favourites:] -= 2
    weights, ids = scores.softmax(-1).topk(shape.choices, -1)
    return ids, weights


def exact(x: Tensor, layer: Layer, ids: Tensor, weights: Tensor, act: Act) -> Tensor:
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for expert in ids.unique().tolist():
        token, choice = torch.where(ids == expert)
        inner = x[token].double() @ layer.gate_up[expert].double().T
        if layer.gate_up_bias is not None:
            inner += layer.gate_up_bias[expert].double()
        gate, up = inner.chunk(2, -1)
        inner = ACTIVATIONS[act](gate) * up if isinstance(act, str) else act(inner)
        y = inner @ layer.down[expert].double().T
        if layer.down_bias is not None:
            y += layer.down_bias[expert].double()
        out.index_add_(0, token, y * weights[token, choice, None].double())
    return out


def interleaved(x: Tensor) -> Tensor:
    """A gate of its own kind, as gpt-oss has one."""
    gate, up = x[..., ::2], x[..., 1::2]
    return (up + 1) * gate * torch.sigmoid(1.702 * gate)


def check(
    shape: Shape,
    dtype: torch.dtype,
    device: str,
    act: Act = "silu",
    *,
    bias: bool = False,
    transposed: bool = False,
    favourites: int | None = None,
    tilings: tuple[GemmTiling, GemmTiling] | None = None,
) -> None:
    torch.manual_seed(sum(shape))
    layer = make_layer(shape, dtype, device, bias=bias, transposed=transposed)
    x = torch.randn(shape.tokens, shape.hidden + 8, device=device).to(dtype)[:, : shape.hidden]
    ids, weights = route(shape, device, favourites)
    y = fused_experts(
        x, DenseWeight(layer.gate_up), DenseWeight(layer.down), ids, weights, act,
        gate_up_bias=layer.gate_up_bias,
        down_bias=layer.down_bias,
        tilings=tilings,
    )  # fmt: skip
    expected = exact(x, layer, ids, weights, act)
    assert y.shape == x.shape and y.dtype == dtype
    error = float(((y.double() - expected).abs() / (expected.abs() + expected.abs().mean())).max())
    assert error <= ROUNDINGS[dtype], (shape, dtype, act, bias, transposed, tilings, error)


def check_order(device: str) -> None:
    """Both ways to order give the stable order, and where each expert's pairs begin; experts
    without pairs too."""
    for pairs, experts in ((1, 1), (7, 5), (70, 128), (300, 3)):
        ids = torch.randint(
            experts, (pairs,), device=device, generator=torch.Generator(device).manual_seed(pairs)
        )
        order = torch.sort(ids, stable=True).indices
        indptr = [int((ids < expert).sum()) for expert in range(experts + 1)]
        for compared in (0, pairs):
            with _setting("COMPARED_PAIRS", compared):
                found = moe._group(ids, experts)
            assert torch.equal(found.order.long(), order) and found.indptr.tolist() == indptr
            assert found.order.dtype == found.indptr.dtype == torch.int32


class _setting:
    def __init__(self, name: str, value: int) -> None:
        self._name, self._value, self._before = name, value, getattr(moe, name)

    def __enter__(self) -> None:
        setattr(moe, self._name, self._value)

    def __exit__(self, *error: object) -> None:
        setattr(moe, self._name, self._before)


FAMILIES: list[tuple[str, str, str | None]] = [
    ("mixtral.modeling_mixtral", "MixtralExperts", "silu"),
    ("qwen3_moe.modeling_qwen3_moe", "Qwen3MoeExperts", "silu"),
    ("gpt_oss.modeling_gpt_oss", "GptOssExperts", None),
    ("nemotron_h.modeling_nemotron_h", "NemotronHExperts", None),
]
"""transformers' modules and the gate that is fused: gpt-oss has its own, interleaved with biases;
Nemotron-H none."""


def make_experts(module: str, name: str, dtype: torch.dtype, device: str) -> Any:
    """An experts module of transformers with random weights, which computes by its own loop."""
    python = import_module(f"transformers.models.{module}")
    config = SimpleNamespace(
        num_local_experts=6, num_experts=6, n_routed_experts=6, hidden_size=40,
        intermediate_size=24, moe_intermediate_size=24, moe_latent_size=None, hidden_act="silu",
        mlp_hidden_act="relu2", mlp_bias=False,
        swiglu_alpha=1.702, swiglu_limit=7.0, _experts_implementation="eager",
    )  # fmt: skip
    experts = getattr(python, name)(config)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return experts.to(device, dtype).eval()


@torch.inference_mode()
def check_families(device: str, dtype: torch.dtype = torch.float32) -> None:
    """The modules of transformers give what their own forward gives; which gates are fused."""
    shape = Shape(11, 2, 6, 40, 24)
    torch.manual_seed(0)
    for module, name, gate in FAMILIES:
        experts = make_experts(module, name, dtype, device)
        assert moe.looks_like_experts(experts)
        act = moe.activation_of(experts)
        assert (act if isinstance(act, str) else None) == gate, (name, act)
        x = torch.randn(shape.tokens, shape.hidden, device=device).to(dtype)
        ids, weights = route(shape, device)
        expected = experts(x, ids, weights.to(dtype)).double()
        y = moe.FusedExperts(experts, act).forward(x, ids, weights.to(dtype))
        error = float(
            ((y.double() - expected).abs() / (expected.abs() + expected.abs().mean())).max()
        )
        assert y.dtype == dtype and error <= 2 * ROUNDINGS[dtype], (name, error)


def packed_experts(module: str, name: str, dtype: torch.dtype, device: str) -> tuple[Any, Any]:
    """Experts with packed weights, and experts with the same weights in `dtype`."""
    packed, plain = (make_experts(module, name, dtype, device) for _ in range(2))
    plain.load_state_dict(packed.state_dict())
    kinds = zip(("gate_up_proj" if packed.has_gate else "up_proj", "down_proj"), "48", strict=True)
    for matrix, bits in kinds:
        rows = getattr(packed, matrix).detach()
        rows = rows.transpose(1, 2) if packed.is_transposed else rows
        quantize = quantize_int4 if bits == "4" else quantize_fp8
        weight = stack([quantize(expert) for expert in rows])
        decoded = weight.reference(dtype)
        getattr(plain, matrix).data = (
            decoded.transpose(1, 2).contiguous() if packed.is_transposed else decoded
        )
        quantize_experts(packed, matrix, weight)
    return packed, plain


@torch.inference_mode()
def check_packed(device: str) -> None:
    """Packed experts give what the decoded weights give."""
    shape = Shape(11, 2, 6, 40, 24)
    torch.manual_seed(0)
    for module, name, _ in FAMILIES:
        packed, plain = packed_experts(module, name, torch.float32, device)
        x, (ids, weights) = (
            torch.randn(shape.tokens, shape.hidden, device=device),
            route(shape, device),
        )
        expected = plain(x, ids, weights)
        own = packed(x, ids, weights)
        fused = moe.FusedExperts(packed, moe.activation_of(plain)).forward(x, ids, weights)
        for y in (own, fused):
            error = float(((y - expected).abs() / (expected.abs() + expected.abs().mean())).max())
            assert error <= 2 * ROUNDINGS[torch.float32], (name, error)


def check_refusals(device: str) -> None:
    shape = Shape(3, 2, 4, 16, 12)
    layer = make_layer(shape, torch.float32, device, bias=True)
    x = torch.zeros(3, 16, device=device)
    ids, weights = route(shape, device)
    good = (x, DenseWeight(layer.gate_up), DenseWeight(layer.down), ids, weights, "silu")
    wrong: list[tuple[int, Tensor | Weight | str]] = [
        (0, x[0]), (0, x[:2]), (0, x.half()), (0, x[:, :8]), (1, DenseWeight(layer.gate_up[:2])),
        (1, DenseWeight(layer.gate_up[:, :8])),
        (2, DenseWeight(layer.down[:, :8])), (3, ids[:, :1]), (3, ids.float()), (5, "relu"),
    ]  # fmt: skip
    for position, value in wrong:
        arguments = [value if i == position else argument for i, argument in enumerate(good)]
        try:
            fused_experts(*arguments)
        except ValueError:
            continue
        raise AssertionError((position, value))
    try:
        fused_experts(*good, down_bias=layer.gate_up_bias)
    except ValueError as error:
        assert "down_bias" in str(error)
    else:
        raise AssertionError("a bias of another shape")
    assert fused_experts(x[:0], *good[1:3], ids[:0], weights[:0], "silu").shape == (0, 16)


if __name__ == "__main__":
    small = GemmTiling(16, 32, 32, 4, 2), GemmTiling(32, 64, 32, 4, 2)
    check(Shape(1, 2, 5, 40, 24), torch.float16, "cpu")
    check(Shape(9, 3, 7, 72, 40), torch.float16, "cpu", "gelu_tanh", bias=True, tilings=small)
    check(
        Shape(9, 3, 7, 72, 40),
        torch.float16,
        "cpu",
        interleaved,
        bias=True,
        transposed=True,
        tilings=small,
    )
    check(Shape(9, 3, 7, 72, 40), torch.float16, "cpu", transposed=True, tilings=small)
    check(Shape(50, 1, 6, 33, 20), torch.float32, "cpu", "gelu", favourites=2)
    check(Shape(40, 2, 4, 64, 32), torch.float16, "cpu", tilings=moe.TILINGS[math.inf])
    check_order("cpu")
    check_families("cpu")
    check_packed("cpu")
    check_refusals("cpu")
    print("all agree")
