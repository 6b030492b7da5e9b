"""Mixture of experts as two grouped products: every expert's rows together, nothing read back from
the device.

`fused_experts` needs triton (with TRITON_INTERPRET=1 set before triton is imported, it runs on the
CPU). `match_experts` makes of it the forward of an experts module of transformers. Knows nothing of
how tokens are routed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..device.precompile import is_precompiling, launch
from .reference import ACTIVATIONS, activation_name

DTYPES = (torch.bfloat16, torch.float16, torch.float32)

COMPARED_PAIRS = 16_384
"""Up to so many pairs are ordered by comparing all with all, in one launch; more by torch's
sort."""

ORDER_BLOCK, ORDER_COMPARED = 32, 256
NEIGHBOURS = 8
COMBINE_BLOCK = 1024


class Tiling(NamedTuple):
    """A program computes block_m pairs of block_n columns (of gate and up each), block_k terms at a
    time."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


FULL_PRECISION = Tiling(16, 32, 32, 4, 2)
"""For float32, which is multiplied without tensor cores."""

TILINGS = {
    8: (Tiling(16, 32, 128, 4, 4), Tiling(16, 32, 128, 4, 4)),
    32: (Tiling(32, 64, 128, 4, 3), Tiling(32, 64, 128, 4, 3)),
    96: (Tiling(64, 64, 64, 4, 4), Tiling(64, 128, 64, 4, 4)),
    math.inf: (Tiling(128, 128, 64, 8, 3), Tiling(128, 256, 64, 8, 3)),
}
"""Up to so many pairs an expert: the tilings of the two products."""

LEAST_INVARIANT = 96
"""The tilings from here on all sum by instructions of a warp group (64 rows): see
`invariant_kernel`."""

Act = str | Callable[[Tensor], Tensor]


def fused_experts(
    x: Tensor,
    gate_up: Tensor,
    down: Tensor,
    topk_ids: Tensor,
    topk_weights: Tensor,
    act: Act,
    *,
    gate_up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    tilings: tuple[Tiling, Tiling] | None = None,
    batch_invariant: bool = False,
) -> Tensor:
    """Each token's weighted sum over its experts of down(act(gate_up(x))): x [T, H] to a new tensor
    [T, H].

    gate_up [E, J, H] and down [E, H, I] at any strides (transposed views of [E, H, J] and [E, I, H]
    are fine), of x's dtype: bfloat16, float16 or float32; biases [E, J] and [E, H], contiguous.
    topk_ids, integers [T, k] below E, and topk_weights [T, k]. act: one of `reference.ACTIVATIONS`,
    where J is 2 I, the gate's columns before what they gate; or a function of [T * k, J], row by
    row, giving [T * k, I].

    Sums run in float32, per token in the order of its choices. tilings: instead of those chosen by
    shape. batch_invariant: the bits of a token's result depend on nothing of the other tokens, nor
    on their number; slower for a few. Nothing waits for the device, and launches depend on shapes
    only. ValueError for other shapes or dtypes.
    """
    _check(x, gate_up, down, topk_ids, topk_weights, act, gate_up_bias, down_bias)
    experts, choices = len(gate_up), topk_ids.shape[1]
    if x.numel() == 0 or choices == 0:
        return torch.zeros_like(x)
    if tilings is None:
        tilings = pick_tilings(topk_ids.numel(), experts, x.dtype, batch_invariant)
    groups = _order(topk_ids.reshape(-1), experts)
    gate = act if isinstance(act, str) else ""
    chosen = [tilings]
    if is_precompiling():
        chosen += tilings_of(x.dtype, batch_invariant).values()
    for first, second in chosen:
        inner = _multiply(x, gate_up, gate_up_bias, groups, choices, first, gate=gate)
        if not isinstance(act, str):
            inner = act(inner)
        parts = _multiply(
            inner, down, down_bias, groups, choices, second, scales=topk_weights.reshape(-1)
        )
    return _combine(parts, choices)


def tilings_of(
    dtype: torch.dtype, batch_invariant: bool = False
) -> dict[float, tuple[Tiling, Tiling]]:
    """By up to how many pairs an expert, ascending. batch_invariant: only of those that all sum in
    the same way."""
    if dtype == torch.float32:
        return {math.inf: (FULL_PRECISION, FULL_PRECISION)}
    return {
        most: tilings
        for most, tilings in TILINGS.items()
        if not batch_invariant or most >= LEAST_INVARIANT
    }


def pick_tilings(
    pairs: int, experts: int, dtype: torch.dtype, batch_invariant: bool = False
) -> tuple[Tiling, Tiling]:
    each = pairs / min(pairs, experts)
    return next(
        tilings for most, tilings in tilings_of(dtype, batch_invariant).items() if each <= most
    )


class _Groups(NamedTuple):
    """order: int32[pairs], pairs sorted by expert. firsts: int32[experts + 1], where each expert's
    begin."""

    order: Tensor
    firsts: Tensor


def _order(ids: Tensor, experts: int) -> _Groups:
    from .moe_kernels import order_kernel

    if len(ids) > COMPARED_PAIRS:
        by_expert, order = torch.sort(ids, stable=True)
        bounds = torch.arange(experts + 1, dtype=ids.dtype, device=ids.device)
        return _Groups(order.int(), torch.searchsorted(by_expert, bounds, out_int32=True))
    order = torch.empty(len(ids), dtype=torch.int32, device=ids.device)
    firsts = torch.empty(experts + 1, dtype=torch.int32, device=ids.device)
    queries = len(ids) + experts + 1
    launch(
        order_kernel, (-(-queries // ORDER_BLOCK),), ids, order, firsts, len(ids),
        EXPERTS=experts, BLOCK=ORDER_BLOCK, COMPARED=ORDER_COMPARED,
    )  # fmt: skip
    return _Groups(order, firsts)


def _multiply(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: _Groups,
    choices: int,
    tiling: Tiling,
    *,
    gate: str = "",
    scales: Tensor | None = None,
) -> Tensor:
    """One row for each pair: in the order of the groups without scales, of the pairs with them."""
    from .moe_kernels import grouped_kernel

    x = x if x.stride(1) == 1 else x.contiguous()
    experts, columns = len(weight), weight.shape[1] // (2 if gate else 1)
    pairs = len(groups.order)
    out = torch.empty(pairs, columns, dtype=x.dtype, device=x.device)
    most_blocks = (pairs + min(pairs, experts) * (tiling.block_m - 1)) // tiling.block_m
    launch(
        grouped_kernel,
        (most_blocks * -(-columns // tiling.block_n),),
        x,
        weight,
        x if bias is None else bias,
        x if scales is None else scales,
        *groups,
        out,
        x.stride(0),
        *weight.stride(),
        EXPERTS=experts,
        EXPERTS_BLOCK=1 << (experts - 1).bit_length(),
        CHOICES=choices,
        COLUMNS=columns,
        SIZE=weight.shape[2],
        BLOCK_M=tiling.block_m,
        BLOCK_N=tiling.block_n,
        BLOCK_K=tiling.block_k,
        GROUP=NEIGHBOURS,
        BIAS=bias is not None,
        GATE=gate,
        LAST=scales is not None,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    return out


def _combine(parts: Tensor, choices: int) -> Tensor:
    from .moe_kernels import combine_kernel

    if choices == 1:
        return parts
    tokens, size = len(parts) // choices, parts.shape[1]
    out = torch.empty(tokens, size, dtype=parts.dtype, device=parts.device)
    launch(
        combine_kernel, (tokens, -(-size // COMBINE_BLOCK)), parts, out,
        CHOICES=choices, SIZE=size, BLOCK=COMBINE_BLOCK,
    )  # fmt: skip
    return out


def _check(
    x: Tensor,
    gate_up: Tensor,
    down: Tensor,
    ids: Tensor,
    weights: Tensor,
    act: Act,
    gate_up_bias: Tensor | None,
    down_bias: Tensor | None,
) -> None:
    shapes = f"x {tuple(x.shape)}, gate_up {tuple(gate_up.shape)}, down {tuple(down.shape)}"
    if x.dim() != 2 or gate_up.dim() != 3 or down.dim() != 3 or gate_up.numel() == 0:
        raise ValueError(f"{shapes}: not [T, H], [E, J, H] and [E, H, I]")
    if (len(gate_up), gate_up.shape[2], x.shape[1]) != (len(down), down.shape[1], down.shape[1]):
        raise ValueError(f"{shapes}: not [T, H], [E, J, H] and [E, H, I]")
    if isinstance(act, str) and (act not in ACTIVATIONS or gate_up.shape[1] != 2 * down.shape[2]):
        raise ValueError(f"act is {act!r} of {tuple(ACTIVATIONS)}, with {shapes}")
    if ids.dim() != 2 or ids.shape != weights.shape or len(ids) != len(x):
        raise ValueError(
            f"topk_ids {tuple(ids.shape)}, topk_weights {tuple(weights.shape)}: not [{len(x)}, k] both"
        )
    if ids.is_floating_point() or x.dtype not in DTYPES or {gate_up.dtype, down.dtype} != {x.dtype}:
        raise ValueError(
            f"x {x.dtype}, gate_up {gate_up.dtype}, down {down.dtype}: not one of {DTYPES}; ids {ids.dtype}"
        )
    for name, bias, matrix in (
        ("gate_up_bias", gate_up_bias, gate_up),
        ("down_bias", down_bias, down),
    ):
        if bias is not None and (bias.shape != matrix.shape[:2] or not bias.is_contiguous()):
            raise ValueError(
                f"{name} is {tuple(bias.shape)}, not a contiguous {tuple(matrix.shape[:2])}"
            )


class FusedExperts:
    """The forward of a module that transformers' `use_experts_implementation` decorates, by
    `fused_experts`.

    act, batch_invariant: as for `fused_experts`; act is the module's own gate where that is none of
    the known ones.
    """

    def __init__(self, module: Any, act: Act, *, batch_invariant: bool = False) -> None:
        self.module, self.act, self.batch_invariant = module, act, batch_invariant

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """[T, H], [T, k] and [T, k]: [T, H]."""
        module = self.module
        first = "gate_up_proj" if module.has_gate else "up_proj"
        matrices = getattr(module, first), module.down_proj
        gate_up, down = (m.transpose(1, 2) for m in matrices) if module.is_transposed else matrices
        return fused_experts(
            hidden_states,
            gate_up,
            down,
            top_k_index,
            top_k_weights,
            self.act,
            gate_up_bias=getattr(module, f"{first}_bias") if module.has_bias else None,
            down_bias=module.down_proj_bias if module.has_bias else None,
            batch_invariant=self.batch_invariant,
        )


def looks_like_experts(module: nn.Module) -> bool:
    """Whether transformers made it one that lets others compute: weights of all experts in one
    tensor."""
    marks = ("has_gate", "has_bias", "is_transposed", "is_concatenated", "_apply_gate", "down_proj")
    return all(hasattr(module, mark) for mark in marks)


def match_experts(module: Any) -> FusedExperts | None:
    """None where the kernels cannot serve: no GPU or triton, weights quantised or spread out, a
    norm per expert."""
    if getattr(module, "has_post_expert_norm", False) or getattr(
        module, "_is_expert_parallel", False
    ):
        return None
    down = module.down_proj
    if not isinstance(down, Tensor) or down.device.type != "cuda" or down.dtype not in DTYPES:
        return None
    if find_spec("triton") is None:
        return None
    return FusedExperts(module, activation_of(module))


def activation_of(module: Any) -> Act:
    """The name of what gates, if it is a known one in the plain arrangement; else the function of
    the module itself."""
    from transformers.integrations.moe import _default_apply_gate

    if not module.has_gate:
        own: Callable[[Tensor], Tensor] = module.act_fn
        return own
    plain = type(module)._apply_gate is _default_apply_gate and module.is_concatenated
    name = activation_name(module.act_fn) if plain else None
    return module._apply_gate if name is None else name
