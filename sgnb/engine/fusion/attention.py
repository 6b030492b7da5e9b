"""Fused attention: a GEMM for q, k and v together, and an operation up to the KV pool."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from torch import Tensor, nn

from ..attention import LayerOptions
from .module_patterns import ATTENTION_OUTPUTS, KEY_NORM, PROJECTIONS, QUERY_NORM, ROTARIES
from .module_trace import ModuleTrace
from .norm import FusedNorm
from .operations import Operations
from .types import AttentionPlan, Backend, Heads, Norm, given
from .weights import Projection, find_linears, merge

Positions = tuple[Tensor, Tensor] | None
"""cos and sin [1, T, n] in the format of transformers' layers; None for models with positions in
the embeddings."""

_OUTPUTS = [(name,) for name in ATTENTION_OUTPUTS]


class FusedAttention:
    """Fused attention module: `attend`, then a GEMM with `output`. A fused layer calls both
    directly."""

    def __init__(
        self,
        merged: Projection,
        output: Projection,
        plan: AttentionPlan,
        wide_norms: list[Norm],  # of all of q and of all of k, before heads are cut (OLMo2)
        operations: Operations,
    ) -> None:
        self.output, self.layer = output, plan.layer
        self._merged, self._plan, self._wide_norms = merged, plan, wide_norms
        self._operations = operations

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Positions = None,
        *,
        sgnb: Backend | None = None,
        **ignored: Any,
    ) -> tuple[Tensor, None]:
        """Compute attention; hidden_states [1, T, K] are not modified."""
        mixed = self.attend(hidden_states[0], None, position_embeddings, given(sgnb))
        output, linear = self.output, self._operations.linear
        return linear(mixed, output.weight, output.bias, reduce=output.reduce)[None], None

    def attend(
        self, x: Tensor, norm: Norm | None, position_embeddings: Positions, backend: Backend
    ) -> Tensor:
        """Return the attention output of all heads, [T, q], for x [T, K], normed first if `norm` is
        given."""
        operations, plan, (weight, bias, *_) = self._operations, self._plan, self._merged
        cos, sin = position_embeddings or (None, None)
        angles = None if cos is None or sin is None else (cos[0], sin[0])
        if self._wide_norms:
            qkv = operations.merged(x, weight, bias, norm)
            for part, wide in zip(qkv.split(plan.heads.widths, -1), self._wide_norms, strict=False):
                part.copy_(operations.norm(part, wide))
            q = operations.rotate_and_store(qkv, plan, angles, backend)
        else:
            q = operations.project(x, weight, bias, plan, angles, backend, norm=norm)
        return backend.attend(plan.layer, q, plan.options).flatten(1)

    def refresh(self) -> None:
        self._merged.refresh()
        self.output.refresh()


def looks_like_attention(module: nn.Module) -> bool:
    numbered = isinstance(getattr(module, "layer_idx", None), int)
    return numbered and all(find_linears(module, names) for names in (PROJECTIONS, _OUTPUTS))


def match_attention(
    module: nn.Module,
    trace: ModuleTrace,
    norms: dict[nn.Module, FusedNorm],
    options: dict[int, LayerOptions],
    operations: Operations,
) -> FusedAttention | None:
    """Return the first combination of norm and rotation with the module's q, k, v and output."""
    layer: Any = module.layer_idx
    heads, angles = _heads(module, trace), _angles(module, trace)
    merged = merge(find_linears(module, PROJECTIONS))
    if heads is None or angles is None or sum(heads.widths) != merged.out_features:
        return None

    output = merge(find_linears(module, _OUTPUTS))
    rotaries = [r for r in ROTARIES if r is None or 0 < 2 * r.pairs(angles) <= heads.dim]
    for (q_norm, k_norm, wide), rotary in product(_norms(module, norms, heads.dim), rotaries):
        plan = AttentionPlan(layer, heads, options[layer], rotary, q_norm, k_norm)
        fused = FusedAttention(merged, output, plan, wide, operations)
        if trace.agrees(module, fused.forward, layer):
            merged.adopt()
            return fused
    return None


def _heads(module: nn.Module, trace: ModuleTrace) -> Heads | None:
    """Head sizes from the trace; None if the module did not run, or keys and values differ in
    width."""
    backend = trace.calls[module][0].kwargs.get("sgnb") if trace.calls[module] else None
    if backend is None or module.layer_idx not in backend.queries:
        return None
    q, k, v = backend.handed(module.layer_idx)
    same = k.shape == v.shape and q.shape[2] == k.shape[2]
    return Heads(q.shape[1], k.shape[1], q.shape[2]) if same else None


def _angles(module: nn.Module, trace: ModuleTrace) -> int | None:
    """Last dimension of cos and sin, 0 without rotation; None if the angles are not per token."""
    embeddings = {call.kwargs.get("position_embeddings") for call in trace.calls[module]}
    if embeddings == {None}:
        return 0
    sizes = {(a.dim(), len(a), a.shape[-1]) for pair in embeddings for a in pair or ()}
    dim, batch, size = sizes.pop() if len(sizes) == 1 else (0, 0, 0)
    return size if (dim, batch) == (3, 1) else None


def _norms(
    module: nn.Module, norms: dict[nn.Module, FusedNorm], dim: int
) -> Iterator[tuple[Norm | None, Norm | None, list[Norm]]]:
    """(norm of each head of q, of k, norms of all of q and k) as the module's parts suggest."""
    matches = [norms.get(getattr(module, name, None)) for name in (QUERY_NORM, KEY_NORM)]  # type: ignore[arg-type]
    pair = [fused.norm for fused in matches if fused is not None]
    if len(pair) < 2:
        yield None, None, []
    elif all(len(norm.factor) == dim for norm in pair):
        yield pair[0], pair[1], []
    else:
        yield None, None, pair
