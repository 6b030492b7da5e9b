"""Swaps modules of a transformers decoder for faster ones that compute the same, found by patterns
and checked by use.

The model runs once on random tokens, and what goes in and out of each module is kept. A module that
looks like one of `patterns` then gets a fused forward if that gives what the module gave, and, for
attention, hands the same q, k and v to the attention backend. What does not match, or has a twist
that no pattern knows, keeps its own forward. Knows transformers' conventions; knows nothing of the
pool, steps or graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import LayerOptions
from ..device.precompile import precompiling
from . import reference
from .attention import looks_like_attention, match_attention
from .layer import looks_like_layer, match_layer
from .mlp import looks_like_mlp, match_mlp
from .moe import FusedExperts, looks_like_experts, match_experts
from .norm import looks_like_norm, match_norm
from .operations import Linear, Operations, pick_operations
from .rotary import match_rotary
from .trace import Trace

__all__ = ["Linear", "Swap", "fuse", "unfuse"]


class Swap(NamedTuple):
    """A module whose forward was replaced. kind: "rotary", "norm", "attention", "mlp", "experts",
    "layer", "linear", "product" (see `invariant_model`) or "compiled" (see `compiled`)."""

    kind: str
    module: nn.Module


def fuse(
    model: nn.Module, options: dict[int, LayerOptions], *, linear: Linear | None = None
) -> list[Swap]:
    """Replace the forward of every module that has a faster twin, and return what was replaced; see
    `unfuse`.

    The model must use sgnb's attention already, and be on its device, in its dtype. options: those
    of each layer. The weights of merged products, and of what only looked like one, stay in memory
    once: the modules keep views of them. linear: computes every product with a linear module's
    weights, also of those that match no pattern; slower, for who needs all rows of any batch
    rounded alike. A forward that someone else has replaced already stays as it is.
    """
    first = next(model.parameters())
    operations = pick_operations(first.device, first.dtype, linear)
    forwards = _find(model, options, operations)
    for _, module, forward in forwards:
        module.forward = forward
    return [Swap(kind, module) for kind, module, _ in forwards]


def unfuse(swaps: list[Swap]) -> None:
    """Give the modules that `fuse` returned their own forward back."""
    for swap in swaps:
        del swap.module.forward


_Forward = tuple[str, nn.Module, Callable[..., Any]]


class _Candidates(NamedTuple):
    """Modules that look like something."""

    norms: list[nn.Module]
    attentions: list[nn.Module]
    mlps: list[nn.Module]
    experts: list[nn.Module]
    layers: list[nn.Module]


def _find(
    model: nn.Module, options: dict[int, LayerOptions], operations: Operations
) -> list[_Forward]:
    modules = [module for module in model.modules() if "forward" not in vars(module)]
    looks = (
        looks_like_norm,
        looks_like_attention,
        looks_like_mlp,
        looks_like_experts,
        looks_like_layer,
    )
    candidates = _Candidates(
        *([module for module in modules if looks_like(module)] for looks_like in looks)
    )
    found = _rotaries(modules)
    if any(candidates):
        trace = Trace(model, chain.from_iterable(candidates))
        if not trace.may_overwrite_inputs(candidates.layers):
            candidates = candidates._replace(layers=[])
        if operations.norm is not reference.norm:
            with precompiling():
                _match(_one_of_each(candidates), trace.trustful(), options, operations)
        found += _match(candidates, trace, options, operations)
    linears = [module for module in modules if type(module) is nn.Linear and _is_worth(operations)]
    return found + [("linear", module, _linear_forward(module, operations)) for module in linears]


def _one_of_each(candidates: _Candidates) -> _Candidates:
    """Without the layers that are made as one before them, and what is in these: they need the same
    kernels."""
    kinds: dict[Hashable, nn.Module] = {}
    for layer in candidates.layers:
        made_of = map(type, layer.modules()), (parameter.shape for parameter in layer.parameters())
        kinds.setdefault(tuple(map(tuple, made_of)), layer)
    alike = set(candidates.layers) - set(kinds.values())
    left_out = {module for layer in alike for module in layer.modules()}
    return _Candidates(
        *([module for module in some if module not in left_out] for some in candidates)
    )


def _match(
    candidates: _Candidates, trace: Trace, options: dict[int, LayerOptions], operations: Operations
) -> list[_Forward]:
    norms = _matched(candidates.norms, lambda module: match_norm(module, trace, operations))
    attentions = _matched(
        candidates.attentions,
        lambda module: match_attention(module, trace, norms, options, operations),
    )
    mlps = _matched(candidates.mlps, lambda module: match_mlp(module, trace, operations))
    experts = _matched(
        candidates.experts, lambda module: _agreeing(match_experts(module), module, trace)
    )
    layers = _matched(
        candidates.layers,
        lambda module: match_layer(module, trace, norms, attentions, mlps, operations),
    )
    kinds = {
        "norm": norms,
        "attention": attentions,
        "mlp": mlps,
        "experts": experts,
        "layer": layers,
    }
    return [
        (kind, module, fused.forward)
        for kind, matched in kinds.items()
        for module, fused in matched.items()
    ]


def _agreeing(fused: FusedExperts | None, module: nn.Module, trace: Trace) -> FusedExperts | None:
    return fused if fused is not None and trace.agrees(module, fused.forward) else None


def _rotaries(modules: list[nn.Module]) -> list[_Forward]:
    matched = ((module, match_rotary(module)) for module in modules)
    return [("rotary", module, fused.forward) for module, fused in matched if fused is not None]


def _matched(modules: list[nn.Module], match: Callable[[nn.Module], Any]) -> dict[nn.Module, Any]:
    found = ((module, match(module)) for module in modules)
    return {module: fused for module, fused in found if fused is not None}


def _is_worth(operations: Operations) -> bool:
    """Whether a lone linear module gains: there are kernels for few rows, or products must go
    through the caller's."""
    return operations.skinny is not None or operations.multiply is not F.linear


def _linear_forward(module: nn.Linear, operations: Operations) -> Callable[[Tensor], Tensor]:
    def forward(input: Tensor) -> Tensor:
        out = operations.linear(input.reshape(-1, input.shape[-1]), module.weight, module.bias)
        return out.view(*input.shape[:-1], out.shape[1])

    return forward
