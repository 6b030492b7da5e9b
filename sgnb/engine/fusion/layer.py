"""Fused decoder layer, with the residual added in the epilogue of the GEMMs."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .attention import FusedAttention, Positions
from .mlp import FusedMLP
from .module_patterns import ATTENTION, LAYERS, MLP, RESIDUAL_MULTIPLIER
from .module_trace import ModuleTrace
from .norm import FusedNorm
from .operations import Operations
from .types import Backend, Norm, given
from .weights import Projection


class FusedLayer:
    """Fused decoder layer. In a step of one row, a Llama layer needs four kernels plus attention:
    each GEMM includes the neighbouring operations. Head norms, norms after a GEMM and other MLPs
    add kernels."""

    def __init__(
        self,
        attention: FusedAttention,
        mlp: FusedMLP | nn.Module,  # a mixture of experts is called unchanged
        norms: list[Norm | None],  # before and after attention, before and after the MLP
        scale: float,  # factor of the outputs added to the residual
        operations: Operations,
    ) -> None:
        self._attention, self._mlp = attention, mlp
        self._before_attention, self._after_attention, self._before_mlp, self._after_mlp = norms
        self._scale, self._operations = scale, operations

    def forward(
        self,
        hidden_states: Tensor,
        *,
        position_embeddings: Positions = None,
        sgnb: Backend | None = None,
        **ignored: Any,
    ) -> Tensor:
        """Compute the layer; hidden_states [1, T, K] may be overwritten, because a layer's input is
        not read after the layer."""
        x, backend = hidden_states[0], given(sgnb)
        mixed = self._attention.attend(x, self._before_attention, position_embeddings, backend)
        output, norm, mlp = self._attention.output, self._before_mlp, self._mlp
        if output.reduce is None or self._after_attention is not None or norm is None:
            x = rows = self._add_product(x, mixed, output, self._after_attention)
        else:  # the sum of all ranks ends the GEMM, so its epilogue cannot add the residual
            linear, add_norm = self._operations.linear, self._operations.add_norm
            product = linear(mixed, output.weight, output.bias, reduce=output.reduce)
            rows, norm = add_norm(x, product, norm, self._scale), None

        if isinstance(mlp, FusedMLP):
            return self._add_mlp(x, rows, norm, mlp)[None]
        return self._add_module(x, rows, norm, mlp)[None]

    def _add_mlp(self, x: Tensor, rows: Tensor, norm: Norm | None, mlp: FusedMLP) -> Tensor:
        """Return x plus the MLP of `rows`, normed first if `norm` is given."""
        weight, bias, *_ = mlp.merged
        inner = self._operations.linear(rows, weight, bias, norm=norm, gated=mlp.activation)
        return self._add_product(x, inner, mlp.output, self._after_mlp)

    def _add_module(self, x: Tensor, rows: Tensor, norm: Norm | None, mlp: nn.Module) -> Tensor:
        """`_add_mlp` for an MLP that is not fused."""
        norm_rows = self._operations.norm
        out = mlp((rows if norm is None else norm_rows(rows, norm))[None])
        out = (out[0] if isinstance(out, tuple) else out)[0]  # some give router scores besides
        if self._after_mlp is None:
            return x.add_(out, alpha=self._scale)
        return norm_rows(out, self._after_mlp, residual=x)

    def _add_product(
        self, x: Tensor, inner: Tensor, output: Projection, after: Norm | None
    ) -> Tensor:
        linear = self._operations.linear
        if after is None:
            return linear(
                inner, output.weight, output.bias, residual=x, scale=self._scale,
                reduce=output.reduce,
            )  # fmt: skip
        out = linear(inner, output.weight, output.bias, reduce=output.reduce)
        return self._operations.norm(out, after, residual=x)


def looks_like_layer(module: nn.Module) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in (ATTENTION, MLP))


def match_layer(
    module: nn.Module,
    trace: ModuleTrace,
    norms: dict[nn.Module, FusedNorm],
    attentions: dict[nn.Module, FusedAttention],
    mlps: dict[nn.Module, FusedMLP],
    operations: Operations,
) -> FusedLayer | None:
    """Return the first pattern with matching names and matching output."""
    attention, mlp = attentions.get(getattr(module, ATTENTION)), getattr(module, MLP)
    scale = getattr(module, RESIDUAL_MULTIPLIER, 1.0)
    if attention is None or not isinstance(scale, (int, float)):
        return None

    for pattern in LAYERS:
        matches = [norms.get(getattr(module, name or "", None)) for name in pattern]  # type: ignore[arg-type]
        if any(name and norm is None for name, norm in zip(pattern, matches, strict=True)):
            continue
        layer_norms = [None if norm is None else norm.norm for norm in matches]
        fused = FusedLayer(attention, mlps.get(mlp, mlp), layer_norms, float(scale), operations)
        if trace.agrees(module, fused.forward, attention.layer, median=mlp not in mlps):
            return fused
    return None
