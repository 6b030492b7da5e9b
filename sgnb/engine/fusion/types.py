"""Values shared by fused forwards and kernels: norms, heads, rotary embeddings, tilings. Knows no
module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import EngineError
from ..attention import LayerOptions
from ..cache.kv_cache import KVCache

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Dtypes supported by the GEMM kernels."""

SKINNY_ROWS = 16
"""Maximum rows of GEMMs of few rows with a dense weight; see `skinny`."""

Activation = Literal["silu", "gelu", "gelu_tanh"]
"""Activation of a gated MLP: SiLU (SwiGLU), GELU by the error function, GELU by tanh."""


class Norm(NamedTuple):
    """RMSNorm, x / sqrt(mean(x²) + eps) * factor, computed in float32."""

    factor: Tensor  # float32[n], with Gemma's 1 added already
    eps: float
    early: bool  # round to x's dtype before the factor is applied, as Llama does and Gemma does not


class Heads(NamedTuple):
    """Layout of a row of a merged QKV projection: `query` heads, `kv` heads of keys, `kv` heads of
    values, with `dim` elements each."""

    query: int
    kv: int
    dim: int

    @property
    def widths(self) -> list[int]:
        return [self.query * self.dim, self.kv * self.dim, self.kv * self.dim]


class GatedNorm(NamedTuple):
    """RMSNorm of groups of `group` elements, times SiLU of a gate, as in Mamba-2 and gated
    DeltaNet."""

    norm: Norm  # factor float32[n] of all groups together
    group: int
    gate_first: bool  # the gate multiplies the input, as in Mamba-2; otherwise the result


Angles = tuple[Tensor, Tensor]
"""cos and sin of a step's tokens, [T, n] each."""


class Rotary(NamedTuple):
    """Rotary embedding of a head by `Angles` (Su et al., arXiv 2104.09864). Dimensions after the
    pairs are unchanged."""

    interleaved: bool  # pairs (2i, 2i + 1); otherwise (i, i + number of pairs)
    step: int  # pair i has the angle i * step
    twice: bool  # each angle is stored twice: n / 2 pairs; otherwise n

    def pairs(self, n: int) -> int:
        return n // 2 if self.twice else n


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Operations on q, k and v of a layer before attention."""

    layer: int
    heads: Heads
    options: LayerOptions
    rotary: Rotary | None
    q_norm: Norm | None  # of single heads: factor[dim]
    k_norm: Norm | None


class GemmTiling(NamedTuple):
    """Tile of a program (CTA) in a GEMM with tensor cores."""

    block_m: int  # rows of x
    block_n: int  # output columns; with a gate, columns of gate and up each
    block_k: int  # terms of the sum per iteration
    warps: int
    stages: int  # of software pipelining


class LayerBackend(Protocol):
    """Methods of an `AttentionBackend` called by layers."""

    def store(self, layer: int, k: Tensor, v: Tensor) -> None: ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor: ...


class Backend(LayerBackend, Protocol):
    """Members of an `AttentionBackend` used by fused attention."""

    kv: KVCache
    new_slots: Tensor


AnyBackend = TypeVar("AnyBackend", bound=LayerBackend)


def given(backend: AnyBackend | None) -> AnyBackend:
    """Return `backend`. Raises EngineError for None: the call does not come from the engine."""
    if backend is None:
        raise EngineError(
            "an engine uses the model: it cannot be called directly, nor its `generate`",
            "use engine.generate, or close the engine first",
        )
    return backend
