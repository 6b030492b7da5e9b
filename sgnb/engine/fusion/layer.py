"""A whole decoder layer over its fused parts, with the residual added where the products are
written."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .attention import FusedAttention, Positions
from .mlp import FusedMLP
from .norm import FusedNorm
from .operations import Operations
from .patterns import ATTENTION, LAYERS, MLP, RESIDUAL_MULTIPLIER, LayerPattern
from .trace import Trace
from .types import Backend, Norm


class FusedLayer:
    """In a step of one row a layer like Llama's is four kernels and attention itself: each product
    has in it what comes before and after. Norms of heads, norms after a product and other kinds of
    MLPs add theirs.

    mlp is a `FusedMLP`, or a module of another kind (mixture of experts), which is called as it is.
    norms: before and after attention, before and after the MLP. scale: factor of what is added to
    the residual.
    """

    def __init__(
        self,
        attention: FusedAttention,
        mlp: FusedMLP | nn.Module,
        norms: tuple[Norm | None, ...],
        scale: float,
        operations: Operations,
    ) -> None:
        self._attention, self._mlp, self._scale, self._operations = (
            attention,
            mlp,
            scale,
            operations,
        )
        self._before_attention, self._after_attention, self._before_mlp, self._after_mlp = norms

    def forward(
        self,
        hidden_states: Tensor,
        *,
        position_embeddings: Positions = None,
        sgnb: Backend,
        **ignored: Any,
    ) -> Tensor:
        """hidden_states [1, T, K], which may be overwritten: no one reads a layer's input after the
        layer."""
        x = hidden_states[0]
        mixed = self._attention.attend(x, self._before_attention, position_embeddings, sgnb)
        x = self._add_product(x, mixed, self._attention.output, self._after_attention)
        x = (
            self._add_mlp(x, self._mlp)
            if isinstance(self._mlp, FusedMLP)
            else self._add_module(x, self._mlp)
        )
        return x[None]

    def _add_mlp(self, x: Tensor, mlp: FusedMLP) -> Tensor:
        merged = mlp.merged
        inner = self._operations.linear(
            x, merged.weight, merged.bias, norm=self._before_mlp, gated=mlp.activation
        )
        return self._add_product(x, inner, mlp.output, self._after_mlp)

    def _add_module(self, x: Tensor, mlp: nn.Module) -> Tensor:
        out = mlp(
            (x if self._before_mlp is None else self._operations.norm(x, self._before_mlp))[None]
        )
        out = (out[0] if isinstance(out, tuple) else out)[
            0
        ]  # some give the router's scores besides
        if self._after_mlp is None:
            return x.add_(out, alpha=self._scale)
        return self._operations.norm(out, self._after_mlp, residual=x)

    def _add_product(
        self, x: Tensor, inner: Tensor, output: nn.Linear, after: Norm | None
    ) -> Tensor:
        linear = self._operations.linear
        if after is None:
            return linear(inner, output.weight, output.bias, residual=x, scale=self._scale)
        return self._operations.norm(linear(inner, output.weight, output.bias), after, residual=x)


def looks_like_layer(module: nn.Module) -> bool:
    return isinstance(getattr(module, ATTENTION, None), nn.Module) and isinstance(
        getattr(module, MLP, None), nn.Module
    )


def match_layer(
    module: nn.Module,
    trace: Trace,
    norms: dict[nn.Module, FusedNorm],
    attentions: dict[nn.Module, FusedAttention],
    mlps: dict[nn.Module, FusedMLP],
    operations: Operations,
) -> FusedLayer | None:
    """The first pattern whose names the layer has and that agrees with it."""
    attention, mlp = attentions.get(getattr(module, ATTENTION)), getattr(module, MLP)
    scale = getattr(module, RESIDUAL_MULTIPLIER, 1.0)
    if attention is None or not isinstance(scale, (int, float)):
        return None
    for pattern in LAYERS:
        found = _pattern_norms(module, pattern, norms)
        if found is None:
            continue
        fused = FusedLayer(attention, mlps.get(mlp, mlp), found, float(scale), operations)
        if trace.agrees(module, fused.forward, attention.layer, median=mlp not in mlps):
            return fused
    return None


def _pattern_norms(
    module: nn.Module, pattern: LayerPattern, norms: dict[nn.Module, FusedNorm]
) -> tuple[Norm | None, ...] | None:
    found: list[Norm | None] = []
    for name in pattern:
        fused = None if name is None else norms.get(getattr(module, name, None))  # type: ignore[arg-type]
        if name is not None and fused is None:
            return None
        found.append(None if fused is None else fused.norm)
    return tuple(found)
