"""Mixture of experts as two grouped GEMMs, with rows sorted by expert and without reads from the
device.

`fused_experts` needs triton (with TRITON_INTERPRET=1 set before triton is imported, the kernels run
on the CPU). `match_experts` matches the experts modules of transformers. Knows no routing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..device.precompile import is_precompiling, launch
from ..quantization.modules import QuantizedExperts
from ..quantization.packed import PackedWeight
from .kernel_weights import dot_block, kernel_weight
from .module_trace import ModuleTrace
from .reduction import reduction_of
from .reference import ACTIVATIONS, activation_name
from .types import DTYPES, Activation, GemmTiling
from .weights import DenseWeight, Weight, decoded, read_experts

COMPARED_PAIRS = 16_384
"""Maximum number of pairs sorted by all-to-all comparison in one launch; above, torch sorts."""

ORDER_BLOCK, ORDER_COMPARED = 32, 256
GROUP_M = 8  # tiles of rows before the next columns, as in `invariant_kernel`
COMBINE_BLOCK = 1024

FULL_PRECISION = GemmTiling(16, 32, 32, 4, 2)
"""For float32, which is multiplied without tensor cores."""

TILINGS = {
    8: (GemmTiling(16, 32, 128, 4, 4), GemmTiling(16, 32, 128, 4, 4)),
    32: (GemmTiling(32, 64, 128, 4, 3), GemmTiling(32, 64, 128, 4, 3)),
    96: (GemmTiling(64, 64, 64, 4, 4), GemmTiling(64, 128, 64, 4, 4)),
    math.inf: (GemmTiling(128, 128, 64, 8, 3), GemmTiling(128, 256, 64, 8, 3)),
}
"""Maximum number of pairs per expert -> tilings of the two GEMMs."""

LEAST_INVARIANT = 96
"""Key of the first tiling with warp-group instructions (64 rows) only: see `invariant_kernel`."""

Act = Activation | Callable[[Tensor], Tensor]


def fused_experts(
    x: Tensor,
    gate_up: Weight,
    down: Weight,
    topk_ids: Tensor,
    topk_weights: Tensor,
    act: Act,
    *,
    gate_up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    tilings: tuple[GemmTiling, GemmTiling] | None = None,
    batch_invariant: bool = False,
) -> Tensor:
    """Return the weighted sum of down(act(gate_up(x))) over the experts of each token, [T, H].

    Sums run in float32, per token in the order of its choices. The call never waits for the device,
    and launches depend on shapes only.

    Args:
        x: [T, H]; bfloat16, float16 or float32.
        gate_up: [E, J, H]; dense weights at any strides, in x's dtype.
        down: [E, H, I]; dense weights at any strides, in x's dtype.
        topk_ids: Integers below E, [T, k].
        topk_weights: [T, k].
        act: A name, with J = 2 I and the gate's columns first; or a function from [T * k, J] to
            [T * k, I], row by row.
        gate_up_bias: [E, J], contiguous.
        down_bias: [E, H], contiguous.
        tilings: By default chosen by shape.
        batch_invariant: The bits of a row are independent of all other rows; slower for few rows.

    Raises:
        ValueError: A shape or dtype is not supported.
    """
    _check(x, gate_up, down, topk_ids, topk_weights, act, gate_up_bias, down_bias)
    gate_up, down = _readable(gate_up, x.dtype), _readable(down, x.dtype)
    experts, top_k = gate_up.shape[0], topk_ids.shape[1]
    if x.numel() == 0 or top_k == 0:
        return torch.zeros_like(x)

    if tilings is None:
        tilings = pick_tilings(topk_ids.numel(), experts, x.dtype, batch_invariant)
    chosen = [tilings]
    if is_precompiling():
        chosen += tilings_of(x.dtype, batch_invariant).values()

    groups = _group(topk_ids.reshape(-1), experts)
    gate, scales = act if isinstance(act, str) else "", topk_weights.reshape(-1)
    for first, second in chosen:
        inner = _multiply(x, gate_up, gate_up_bias, groups, top_k, first, gate=gate)
        if not isinstance(act, str):
            inner = act(inner)
        pairs = _multiply(inner, down, down_bias, groups, top_k, second, scales=scales)
    return _combine(pairs, top_k)


def tilings_of(
    dtype: torch.dtype, batch_invariant: bool = False
) -> dict[float, tuple[GemmTiling, GemmTiling]]:
    """Return `TILINGS` for a dtype; with `batch_invariant`, tilings of equal order of sums."""
    if dtype == torch.float32:
        return {math.inf: (FULL_PRECISION, FULL_PRECISION)}
    least = LEAST_INVARIANT if batch_invariant else 0
    return {pairs: tilings for pairs, tilings in TILINGS.items() if pairs >= least}


def pick_tilings(
    pairs: int, experts: int, dtype: torch.dtype, batch_invariant: bool = False
) -> tuple[GemmTiling, GemmTiling]:
    mean, choices = pairs / min(pairs, experts), tilings_of(dtype, batch_invariant)
    return next(tilings for max_pairs, tilings in choices.items() if mean <= max_pairs)


class _Groups(NamedTuple):
    """Pairs sorted by expert, in CSR format."""

    order: Tensor  # int32[pairs], pairs sorted by expert
    indptr: Tensor  # int32[experts + 1], start of each expert in `order`


def _group(ids: Tensor, experts: int) -> _Groups:
    from .moe_kernels import order_kernel

    if len(ids) > COMPARED_PAIRS:
        by_expert, order = torch.sort(ids, stable=True)
        bounds = torch.arange(experts + 1, dtype=ids.dtype, device=ids.device)
        return _Groups(order.int(), torch.searchsorted(by_expert, bounds, out_int32=True))
    order = torch.empty(len(ids), dtype=torch.int32, device=ids.device)
    indptr = torch.empty(experts + 1, dtype=torch.int32, device=ids.device)
    queries = len(ids) + experts + 1
    launch(
        order_kernel, (-(-queries // ORDER_BLOCK),), ids, order, indptr, len(ids),
        EXPERTS=experts, BLOCK=ORDER_BLOCK, COMPARED=ORDER_COMPARED,
    )  # fmt: skip
    return _Groups(order, indptr)


def _readable(weight: Weight, dtype: torch.dtype) -> Weight:
    """Return the weight, decoded if the kernel cannot read the layout."""
    if isinstance(weight, DenseWeight) or dot_block(weight):
        return weight
    return DenseWeight(decoded(weight, dtype))


def _packed_tiling(
    tiling: GemmTiling, weight: PackedWeight, dtype: torch.dtype, gated: bool
) -> GemmTiling:
    """Return the tiling of a packed weight for the rows of `tiling`.

    Weights are the left operand, and 64 columns are the least of warp-group instructions: so all
    tilings of a weight add the terms of a sum in one order.
    """
    block_k = dot_block(weight)
    if dtype == torch.float32:
        return GemmTiling(16, 32, block_k, 4, 1)
    # Gate and up together need twice the registers.
    block_n = 128 if tiling.block_m >= 128 and not gated else 64
    return GemmTiling(tiling.block_m, block_n, block_k, block_n // 16, 3)


def _multiply(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None,
    groups: _Groups,
    top_k: int,
    tiling: GemmTiling,
    *,
    gate: str = "",
    scales: Tensor | None = None,
) -> Tensor:
    """Run a grouped GEMM with a row per pair: in the order of the groups without scales, in the
    order of pairs with scales."""
    from .moe_kernels import grouped_kernel

    x = x if x.stride(1) == 1 else x.contiguous()
    experts, height, size = weight.shape
    columns = height // 2 if gate else height

    strides: tuple[int, ...] = 0, 0, 0  # packed matrices are contiguous
    if isinstance(weight, PackedWeight):
        tiling, packing = (
            _packed_tiling(tiling, weight, x.dtype, gate != ""),
            kernel_weight(weight, x, dot=True),
        )
    else:
        strides, packing = weight.data.stride(), kernel_weight(weight.data, x)

    pairs = len(groups.order)
    out = torch.empty(pairs, columns, dtype=x.dtype, device=x.device)
    most_blocks = (pairs + min(pairs, experts) * (tiling.block_m - 1)) // tiling.block_m
    launch(
        grouped_kernel, (most_blocks * -(-columns // tiling.block_n),), x, packing.values,
        x if bias is None else bias, x if scales is None else scales, *groups, out,
        x.stride(0), *strides, *packing.others, **packing.constants, EXPERTS=experts,
        EXPERTS_BLOCK=1 << (experts - 1).bit_length(), TOP_K=top_k, COLUMNS=columns, SIZE=size,
        BLOCK_M=tiling.block_m, BLOCK_N=tiling.block_n, BLOCK_K=tiling.block_k,
        STAGES=tiling.stages, GROUP_M=GROUP_M, BIAS=bias is not None, GATE=gate,
        LAST=scales is not None, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip
    return out


def _combine(pairs: Tensor, top_k: int) -> Tensor:
    from .moe_kernels import combine_kernel

    if top_k == 1:
        return pairs
    tokens, size = len(pairs) // top_k, pairs.shape[1]
    out = torch.empty(tokens, size, dtype=pairs.dtype, device=pairs.device)
    launch(
        combine_kernel, (tokens, -(-size // COMBINE_BLOCK)), pairs, out,
        TOP_K=top_k, SIZE=size, BLOCK=COMBINE_BLOCK,
    )  # fmt: skip
    return out


def _check(
    x: Tensor,
    gate_up: Weight,
    down: Weight,
    ids: Tensor,
    weights: Tensor,
    act: Act,
    gate_up_bias: Tensor | None,
    down_bias: Tensor | None,
) -> None:
    first, second = tuple(gate_up.shape), tuple(down.shape)
    shapes = f"x {tuple(x.shape)}, gate_up {first}, down {second}"
    fits = x.dim() == 2 and len(first) == 3 == len(second) and 0 not in first
    if not fits or (*first[::2], x.shape[1]) != (*second[:2], second[1]):
        raise ValueError(f"{shapes}: not [T, H], [E, J, H] and [E, H, I]")

    if isinstance(act, str) and (act not in ACTIVATIONS or first[1] != 2 * second[2]):
        raise ValueError(f"act is {act!r} of {tuple(ACTIVATIONS)}, with {shapes}")
    if ids.dim() != 2 or ids.shape != weights.shape or len(ids) != len(x):
        routing = f"topk_ids {tuple(ids.shape)}, topk_weights {tuple(weights.shape)}"
        raise ValueError(f"{routing}: not [{len(x)}, k] both")
    dense = [each.data.dtype for each in (gate_up, down) if isinstance(each, DenseWeight)]
    if ids.is_floating_point() or x.dtype not in DTYPES or {x.dtype, *dense} != {x.dtype}:
        dtypes = f"x {x.dtype}, dense weights {dense}"
        raise ValueError(f"{dtypes}: not one of {DTYPES}; ids {ids.dtype}")

    biases = {"gate_up_bias": (gate_up_bias, first[:2]), "down_bias": (down_bias, second[:2])}
    for name, (bias, shape) in biases.items():
        if bias is not None and (bias.shape != shape or not bias.is_contiguous()):
            raise ValueError(f"{name} is {tuple(bias.shape)}, not a contiguous {shape}")


class FusedExperts:
    """Forward by `fused_experts` for modules decorated with transformers'
    `use_experts_implementation`; act is the module's gate function if the activation is unknown."""

    def __init__(self, module: Any, act: Act, *, batch_invariant: bool = False) -> None:
        self.module, self.act, self.batch_invariant = module, act, batch_invariant

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Return the experts' output, [T, H], for hidden_states [T, H] and routing [T, k]."""
        module = self.module
        first = "gate_up_proj" if module.has_gate else "up_proj"
        out = fused_experts(
            hidden_states,
            read_experts(module, first),
            read_experts(module, "down_proj"),
            top_k_index,
            top_k_weights,
            self.act,
            gate_up_bias=getattr(module, f"{first}_bias") if module.has_bias else None,
            down_bias=module.down_proj_bias if module.has_bias else None,
            batch_invariant=self.batch_invariant,
        )
        reduce = reduction_of(module)
        return out if reduce is None else reduce(out)


def looks_like_experts(module: nn.Module) -> bool:
    """True if transformers allows a custom experts implementation: weights of all experts in one
    tensor."""
    marks = ("has_gate", "has_bias", "is_transposed", "is_concatenated", "_apply_gate", "down_proj")
    return isinstance(module, QuantizedExperts) or all(hasattr(module, mark) for mark in marks)


def match_experts(module: Any, trace: ModuleTrace) -> FusedExperts | None:
    """Return fused experts, or None if unsupported: no GPU or triton, a norm per expert, weights
    that are distributed or of an unknown format."""
    marks = "has_post_expert_norm", "_is_expert_parallel"
    if any(getattr(module, mark, False) for mark in marks) or find_spec("triton") is None:
        return None
    down = read_experts(module, "down_proj")
    tensor = down.data if isinstance(down, DenseWeight) else down.values
    if tensor.device.type != "cuda":
        return None
    if isinstance(down, DenseWeight) and tensor.dtype not in DTYPES:
        return None
    fused = FusedExperts(module, activation_of(module))
    return fused if trace.agrees(module, fused.forward) else None


def activation_of(module: Any) -> Act:
    """Name of a known activation in the usual arrangement; otherwise the module's gate function."""
    from transformers.integrations.moe import _default_apply_gate

    if not module.has_gate:
        function: Callable[[Tensor], Tensor] = module.act_fn
        return function
    usual = type(module)._apply_gate is _default_apply_gate and module.is_concatenated
    name = activation_name(module.act_fn) if usual else None
    return module._apply_gate if name is None else name
