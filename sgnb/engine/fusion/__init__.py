"""Module fusion: replaces modules of a transformers model by verified fused equivalents.

A trace of the decoder on random tokens, and of encoders on samples, records inputs and outputs of
each module. A module that matches one of `patterns` gets a fused forward if the outputs agree and,
for attention, q, k and v at the backend agree. Any other module keeps its forward. Knows
transformers' conventions; knows nothing of the pool, steps or graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any, Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import LayerOptions
from ..device.precompile import precompiling
from . import reference
from .attention import looks_like_attention, match_attention
from .encoders import (
    CONVOLUTIONS,
    looks_like_encoder_attention,
    match_encoder_attention,
    patch_product,
)
from .layer import looks_like_layer, match_layer
from .mlp import looks_like_mlp, match_mlp
from .module_trace import ModuleTrace
from .moe import looks_like_experts, match_experts
from .norm import looks_like_gated_norm, looks_like_norm, match_gated_norm, match_norm
from .operations import Linear, Operations, pick_operations
from .reduction import Ranks
from .rotary import match_rotary
from .types import SKINNY_ROWS
from .weights import LINEARS, DenseWeight, merge

__all__ = ["Linear", "Swap", "fuse", "unfuse"]

Kind = Literal[
    "rotary", "norm", "gated_norm", "attention", "mlp", "experts", "layer", "linear",
    "patches", "encoder_attention",
    "product",  # see `invariant_model`
    "compiled",  # see `model.compiled_layers`
]  # fmt: skip


class Swap(NamedTuple):
    """Module with a replaced forward."""

    kind: Kind
    module: nn.Module
    # Copies changed weights into derived tensors.
    refresh: Callable[[], None] | None = None


def fuse(
    model: nn.Module,
    options: dict[int, LayerOptions],
    *,
    linear: Linear | None = None,
    encode: Callable[[], object] | None = None,
    ranks: Ranks | None = None,
) -> list[Swap]:
    """Replace forwards of `model` by fused forwards, and return the replaced modules for `unfuse`.

    The model must already use sgnb's attention and have its final device and dtype. options:
    attention options of each layer. Merged weights, and weights of rejected candidates, stay in
    memory once: the modules keep views. linear: computes every GEMM of linear modules, also outside
    patterns; slower, but rounds all rows of any batch alike. encode: runs the encoders of a
    multimodal model on samples; without `encode` they stay unchanged. ranks: processes with
    the other parts of the model, which replace the same modules. Modules with a foreign
    forward or a hook, on the module or inside, stay unchanged, because a fused forward would call
    neither.
    """
    first = next(model.parameters())
    operations = pick_operations(first.device, first.dtype, linear)
    twins = _find(model, options, operations, encode, ranks)
    for swap, forward in twins:
        swap.module.forward = forward
    return [swap for swap, _ in twins]


def unfuse(swaps: list[Swap]) -> None:
    """Restore the original forwards of the `swaps` returned by `fuse`."""
    for swap in swaps:
        del swap.module.forward


_Twin = tuple[Swap, Callable[..., Any]]
_Candidates = dict[Kind, list[nn.Module]]

_LOOKS: dict[Kind, Callable[[nn.Module], bool]] = {
    "norm": looks_like_norm,
    "gated_norm": looks_like_gated_norm,
    "attention": looks_like_attention,
    "mlp": looks_like_mlp,
    "experts": looks_like_experts,
    "encoder_attention": looks_like_encoder_attention,
    "layer": looks_like_layer,
}


def _find(
    model: nn.Module,
    options: dict[int, LayerOptions],
    operations: Operations,
    encode: Callable[[], object] | None,
    ranks: Ranks | None,
) -> list[_Twin]:
    modules = [module for module in model.modules() if not any(map(_is_changed, module.modules()))]
    rotaries = ((module, match_rotary(module)) for module in modules)
    twins: list[_Twin] = [(Swap("rotary", m), fused.forward) for m, fused in rotaries if fused]

    candidates = {kind: list(filter(looks, modules)) for kind, looks in _LOOKS.items()}
    if any(candidates.values()):
        trace = ModuleTrace(model, chain.from_iterable(candidates.values()), encode, ranks)
        if not trace.may_overwrite_inputs(candidates["layer"]):
            candidates["layer"] = []
        if operations.norm is not reference.norm:
            with precompiling():
                _match(_one_of_each(candidates), trace.trustful(), options, operations)
        twins += _match(candidates, trace, options, operations)

    if encode is not None:
        convolutions = [module for module in modules if type(module) in CONVOLUTIONS]
        twins += [(Swap("patches", module), patch_product(module)) for module in convolutions]

    # Fusing a single linear module pays only for skinny GEMMs or a GEMM given by the caller.
    if operations.skinny is not None or operations.multiply is not F.linear:
        linears = [module for module in modules if type(module) in LINEARS]
        twins += [_linear(module, operations) for module in linears]
    return twins


def _is_changed(module: nn.Module) -> bool:
    """True if `module` has a replaced forward or a hook."""
    hooked = module._forward_hooks or module._forward_pre_hooks
    return bool(hooked) or "forward" in vars(module)


def _one_of_each(candidates: _Candidates) -> _Candidates:
    """Remove repeated layers of equal structure and their parts: all need the same kernels."""
    kinds: dict[Hashable, nn.Module] = {}
    for layer in candidates["layer"]:
        made_of = map(type, layer.modules()), (parameter.shape for parameter in layer.parameters())
        kinds.setdefault(tuple(map(tuple, made_of)), layer)
    alike = set(candidates["layer"]) - set(kinds.values())
    left_out = {module for layer in alike for module in layer.modules()}
    return {kind: [m for m in some if m not in left_out] for kind, some in candidates.items()}


def _match(
    candidates: _Candidates,
    trace: ModuleTrace,
    options: dict[int, LayerOptions],
    operations: Operations,
) -> list[_Twin]:
    twins: list[_Twin] = []

    def matched(kind: Kind, match: Callable[..., Any], *more: Any) -> dict[nn.Module, Any]:
        pairs = ((module, match(module, trace, *more)) for module in candidates[kind])
        matches = {module: fused for module, fused in pairs if fused is not None}
        for module, fused in matches.items():
            swap = Swap(kind, module, getattr(fused, "refresh", None))
            twins.append((swap, fused.forward))
        return matches

    norms = matched("norm", match_norm, operations)
    matched("gated_norm", match_gated_norm, operations)
    attentions = matched("attention", match_attention, norms, options, operations)
    mlps = matched("mlp", match_mlp, operations)
    matched("experts", match_experts)
    matched("encoder_attention", match_encoder_attention, operations)
    matched("layer", match_layer, norms, attentions, mlps, operations)
    return twins


def _linear(module: nn.Module, operations: Operations) -> _Twin:
    projection = merge([module])
    weight, bias = projection.weight, projection.bias
    is_plain = projection.reduce is None and operations.multiply is F.linear
    max_skinny = SKINNY_ROWS * weight.shape[1]  # elements of the input

    def forward(input: Tensor) -> Tensor:
        # `Operations.linear` would call F.linear too, after a view of the rows.
        if is_plain and isinstance(weight, DenseWeight) and input.numel() > max_skinny:
            return F.linear(input, weight.data, bias)
        rows = input.reshape(-1, input.shape[-1])
        out = operations.linear(rows, weight, bias, reduce=projection.reduce)
        return out.view(*input.shape[:-1], out.shape[1])

    return Swap("linear", module, projection.refresh), forward
