"""Swaps modules of a transformers decoder for fused ones that compute the same, found by patterns
and checked by use.

A trace of the model on random tokens keeps what goes in and out of each module. A module that looks
like one of `patterns` then gets a fused forward if that gives what the module gave, and, for
attention, hands the same q, k and v to the attention backend. What does not match, or has a twist
that no pattern knows, keeps its own forward. Knows transformers' conventions; knows nothing of the
pool, steps or graphs.
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
from .layer import looks_like_layer, match_layer
from .mlp import looks_like_mlp, match_mlp
from .moe import looks_like_experts, match_experts
from .norm import looks_like_norm, match_norm
from .operations import Linear, Operations, pick_operations
from .rotary import match_rotary
from .trace import Trace

__all__ = ["Linear", "Swap", "fuse", "unfuse"]

Kind = Literal[
    "rotary", "norm", "attention", "mlp", "experts", "layer", "linear",
    "product",  # see `invariant_model`
    "compiled",  # see `model.compiled`
]  # fmt: skip


class Swap(NamedTuple):
    """A module whose forward was replaced."""

    kind: Kind
    module: nn.Module
    # Copies changed weights into derived tensors.
    refresh: Callable[[], None] | None = None


def fuse(
    model: nn.Module, options: dict[int, LayerOptions], *, linear: Linear | None = None
) -> list[Swap]:
    """Replace the forward of every module that has a faster twin, and return what was replaced; see
    `unfuse`.

    The model must use sgnb's attention already, and be on its device, in its dtype. options: those
    of each layer. Merged weights, and those of what only looked like it could be merged, stay in
    memory once: the modules keep views of them. linear: computes every GEMM with a linear module's
    weights, also of those that match no pattern; slower, for who needs all rows of any batch
    rounded alike. A module stays as it is where someone else has replaced a forward already, or put
    a hook, on it or inside it: a twin would call neither.
    """
    first = next(model.parameters())
    operations = pick_operations(first.device, first.dtype, linear)
    twins = _find(model, options, operations)
    for swap, forward in twins:
        swap.module.forward = forward
    return [swap for swap, _ in twins]


def unfuse(swaps: list[Swap]) -> None:
    """Give the modules that `fuse` returned their own forward back."""
    for swap in swaps:
        del swap.module.forward


_Twin = tuple[Swap, Callable[..., Any]]
_Candidates = dict[Kind, list[nn.Module]]

_LOOKS: dict[Kind, Callable[[nn.Module], bool]] = {
    "norm": looks_like_norm,
    "attention": looks_like_attention,
    "mlp": looks_like_mlp,
    "experts": looks_like_experts,
    "layer": looks_like_layer,
}


def _find(
    model: nn.Module, options: dict[int, LayerOptions], operations: Operations
) -> list[_Twin]:
    modules = [module for module in model.modules() if not any(map(_is_changed, module.modules()))]
    rotaries = ((module, match_rotary(module)) for module in modules)
    found: list[_Twin] = [(Swap("rotary", m), twin.forward) for m, twin in rotaries if twin]

    candidates = {kind: list(filter(looks, modules)) for kind, looks in _LOOKS.items()}
    if any(candidates.values()):
        trace = Trace(model, chain.from_iterable(candidates.values()))
        if not trace.may_overwrite_inputs(candidates["layer"]):
            candidates["layer"] = []
        if operations.norm is not reference.norm:
            with precompiling():
                _match(_one_of_each(candidates), trace.trustful(), options, operations)
        found += _match(candidates, trace, options, operations)

    # A lone linear module gains where there are skinny GEMMs, or must go through the caller's.
    if operations.skinny is not None or operations.multiply is not F.linear:
        linears = [module for module in modules if type(module) is nn.Linear]
        found += [(Swap("linear", module), _linear(module, operations)) for module in linears]
    return found


def _is_changed(module: nn.Module) -> bool:
    """Whether someone gave `module` a forward of its own, or is to be told when it is called."""
    hooked = module._forward_hooks or module._forward_pre_hooks
    return bool(hooked) or "forward" in vars(module)


def _one_of_each(candidates: _Candidates) -> _Candidates:
    """Without layers built as one before them, and what is in these: they need the same kernels."""
    kinds: dict[Hashable, nn.Module] = {}
    for layer in candidates["layer"]:
        made_of = map(type, layer.modules()), (parameter.shape for parameter in layer.parameters())
        kinds.setdefault(tuple(map(tuple, made_of)), layer)
    alike = set(candidates["layer"]) - set(kinds.values())
    left_out = {module for layer in alike for module in layer.modules()}
    return {kind: [m for m in some if m not in left_out] for kind, some in candidates.items()}


def _match(
    candidates: _Candidates, trace: Trace, options: dict[int, LayerOptions], operations: Operations
) -> list[_Twin]:
    twins: list[_Twin] = []

    def matched(kind: Kind, match: Callable[..., Any], *more: Any) -> dict[nn.Module, Any]:
        pairs = ((module, match(module, trace, *more)) for module in candidates[kind])
        found = {module: fused for module, fused in pairs if fused is not None}
        for module, fused in found.items():
            swap = Swap(kind, module, getattr(fused, "refresh", None))
            twins.append((swap, fused.forward))
        return found

    norms = matched("norm", match_norm, operations)
    attentions = matched("attention", match_attention, norms, options, operations)
    mlps = matched("mlp", match_mlp, operations)
    matched("experts", match_experts)
    matched("layer", match_layer, norms, attentions, mlps, operations)
    return twins


def _linear(module: nn.Linear, operations: Operations) -> Callable[[Tensor], Tensor]:
    def forward(input: Tensor) -> Tensor:
        out = operations.linear(input.reshape(-1, input.shape[-1]), module.weight, module.bias)
        return out.view(*input.shape[:-1], out.shape[1])

    return forward
