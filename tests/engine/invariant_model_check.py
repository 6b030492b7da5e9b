"""Bits of experts and routers that must not depend on the batch, and whole models. Run as a
program: interpreted.

The interpreter must be chosen before triton is imported, so it needs a process of its own. There it
shows that rows are summed alike whatever is beside them; how a GPU's instructions round, only a GPU
can show.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2MoeConfig

from sgnb.engine import fusion
from sgnb.engine.fusion import Swap, moe, unfuse
from sgnb.engine.fusion.invariant_model import fuse_invariant
from sgnb.engine.fusion.moe import FusedExperts, activation_of, fused_experts
from sgnb.engine.fusion.weights import DenseWeight

from ..random_models import COMMON, random_model
from .fusion_models import Pooled
from .moe_check import Shape, interleaved, make_layer, route

MIXTURES = ("mixtral", "qwen3_moe", "qwen2_moe", "gpt_oss", "deepseek_v3")
PRODUCTS = {
    "mixtral": "MixtralTopKRouter",
    "qwen3_moe": "Qwen3MoeTopKRouter",
    "qwen2_moe": "Qwen2MoeTopKRouter",
    "gpt_oss": "GptOssTopKRouter",
    "deepseek_v3": "DeepseekV3TopkRouter",
}
"""Family -> the one kind of module that must get a product of its own."""

ROUNDINGS = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""Relative to the norm of a row, in the median row: where two experts are near, rounding
decides."""

POOL = 10
TINY: dict[str, Any] = {
    "num_hidden_layers": 1,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_experts_per_tok": 2,
}
"""For the interpreter."""


class _Careful(TorchFunctionMode):
    """On a CPU torch rounds the last few numbers of a tensor otherwise than those that fill its
    vector instructions: by way of float64 all are the same."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") not in ("softmax", "sigmoid", "silu", "sum"):
            return func(*args, **kwargs)
        dtype = kwargs.pop("dtype", None) or args[0].dtype
        return func(args[0].double(), *args[1:], **kwargs).to(dtype)


def mixture(
    family: str, dtype: torch.dtype = torch.float32, device: str = "cpu", **config: Any
) -> PreTrainedModel:
    """A random model, of Qwen2-MoE too, which has a shared expert and its gate."""
    if family == "qwen2_moe":
        settings = (
            COMMON | {"moe_intermediate_size": 56, "shared_expert_intermediate_size": 72} | config
        )
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(
            Qwen2MoeConfig(**{"num_experts_per_tok": 3} | settings, num_experts=6)
        )
    else:
        made = random_model(family, **config)
    return made.eval().to(device, dtype)  # type: ignore[no-any-return]


def check_experts(
    shape: Shape, dtype: torch.dtype, device: str, counts: Iterable[int], **options: Any
) -> None:
    """Tokens of a pool, in any number and order, give the bits that each gives alone, with whatever
    beside."""
    torch.manual_seed(sum(shape))
    act = options.pop("act", "silu")
    layer = make_layer(shape, dtype, device, **options)
    x = torch.randn(shape.tokens, shape.hidden, device=device).to(dtype)
    ids, weights = route(shape, device)

    def run(rows: Tensor) -> Tensor:
        return fused_experts(
            x[rows], DenseWeight(layer.gate_up), DenseWeight(layer.down), ids[rows],
            weights[rows], act,
            gate_up_bias=layer.gate_up_bias, down_bias=layer.down_bias, batch_invariant=True,
        )  # fmt: skip

    every = torch.arange(shape.tokens, device=device)
    alone = torch.cat([run(row[None]) for row in every])
    for count in counts:
        rows = torch.randint(shape.tokens, (count,), device=device)
        assert torch.equal(run(rows), alone[rows]), (shape, dtype, count, options)
    favourite = every[ids[:, 0] == ids[0, 0]][:1].repeat(max(counts))
    assert torch.equal(run(favourite), alone[favourite]), "all tokens at the same experts"


def check_tilings() -> None:
    """Every one that may serve sums by the same instructions: at least 64 rows, and whole warp
    groups."""
    for dtype in (torch.bfloat16, torch.float16):
        found = {
            moe.pick_tilings(pairs, 8, dtype, batch_invariant=True)
            for pairs in (1, 8, 64, 500, 5000, 50_000)
        }
        assert found == {
            tilings for most, tilings in moe.TILINGS.items() if most >= moe.LEAST_INVARIANT
        }
        assert all(t.block_m % 64 == 0 and t.warps % 4 == 0 for pair in found for t in pair)
    assert (
        len(
            {
                moe.pick_tilings(pairs, 8, torch.float32, batch_invariant=True)
                for pairs in (1, 500, 50_000)
            }
        )
        == 1
    )


def fuse_everything(model: PreTrainedModel) -> list[Swap]:
    """`fuse_invariant`, on the CPU too: there the interpreted kernels are those of the experts."""
    own = fusion.match_experts
    if model.device.type == "cpu":
        fusion.match_experts = lambda module, trace: FusedExperts(module, activation_of(module))  # type: ignore[attr-defined]
    try:
        return fuse_invariant(model, Pooled(model).options)
    finally:
        fusion.match_experts = own  # type: ignore[attr-defined]


@torch.inference_mode()
def check_family(
    family: str,
    device: str,
    dtype: torch.dtype,
    counts: Iterable[int],
    pool: int = POOL,
    **config: Any,
) -> None:
    """Routers, and whole blocks of router and experts: bits that no neighbour changes, near those
    of transformers."""
    model = mixture(family, dtype, device, **config)
    blocks = [
        module for module in model.modules() if any(map(moe.looks_like_experts, module.children()))
    ]
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(pool, model.config.hidden_size, device=device, generator=generator).to(dtype)
    own = [_rows(block, x) for block in blocks]
    swaps = fuse_everything(model)
    found = {type(swap.module).__name__ for swap in swaps if swap.kind == "product"}
    assert blocks and found == {PRODUCTS[family]}, (family, found)
    routers = [swap.module for swap in swaps if swap.kind == "product"]
    experts = [
        part for block in blocks for part in block.children() if moe.looks_like_experts(part)
    ]
    assert experts and all(part.forward.__self__.batch_invariant for part in experts)  # type: ignore[attr-defined]
    with _Careful() if device == "cpu" else nullcontext():
        for module in [*blocks, *routers]:
            alone = [
                torch.cat(parts)
                for parts in zip(*(_rows(module, row[None]) for row in x), strict=True)
            ]
            for count in counts:
                picked = torch.randint(pool, (count,), device=device, generator=generator)
                for together, single in zip(_rows(module, x[picked]), alone, strict=True):
                    assert torch.equal(together, single[picked]), (
                        family,
                        type(module),
                        dtype,
                        count,
                    )
    with _spied_tilings() as asked:
        _rows(blocks[0], x)
    assert asked and all(asked)
    for block, before in zip(blocks, own, strict=True):
        error = (_rows(block, x)[0].double() - before[0].double()).norm(dim=-1) / before[
            0
        ].double().norm(dim=-1)
        assert float(error.median()) <= ROUNDINGS[dtype], (family, dtype, error)
    unfuse(swaps)
    assert not any("forward" in vars(module) for module in model.modules())


@contextmanager
def _spied_tilings() -> Iterator[list[bool]]:
    """Whether each choice of tilings was of those that all sum alike. On a CPU in float32 there is
    one only."""
    own, asked = moe.pick_tilings, list[bool]()

    def spy(pairs: int, experts: int, dtype: torch.dtype, batch_invariant: bool = False) -> Any:
        asked.append(batch_invariant)
        return own(pairs, experts, dtype, batch_invariant)

    moe.pick_tilings = spy
    try:
        yield asked
    finally:
        moe.pick_tilings = own


def _rows(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Everything that a router, or a block with experts, gives for rows x [T, H], row by row."""
    out = module(x if isinstance(getattr(module, "weight", None), Tensor) else x[None])
    return tuple(part.reshape(len(x), -1) for part in (out if isinstance(out, tuple) else (out,)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    families = [family for family in MIXTURES if family != "mixtral"]
    if sys.argv[1:] != ["families"]:
        families = ["mixtral"]
        check_tilings()
        check_experts(Shape(5, 2, 3, 40, 24), torch.float16, "cpu", (1, 5, 150))
        check_experts(Shape(4, 3, 5, 72, 20), torch.float32, "cpu", (1, 17))
        gelu: dict[str, Any] = {"act": "gelu_tanh", "bias": True, "transposed": True}
        check_experts(Shape(4, 2, 6, 33, 20), torch.float16, "cpu", (3, 70), **gelu)
        check_experts(
            Shape(4, 2, 6, 33, 20), torch.float16, "cpu", (3, 33), **gelu | {"act": interleaved}
        )
    for family in families:
        first = {"first_k_dense_replace": 0} if family == "deepseek_v3" else {}
        check_family(family, "cpu", torch.float32, (2, 9), 5, **TINY, **first)
    print("all agree")
