"""What fused forwards and kernels both speak of, as small values: norms, heads, rotary embeddings,
tilings. Knows no module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import EngineError
from ..attention import LayerOptions
from ..cache.kv_cache import KVCache

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""What the GEMM kernels multiply."""

Activation = Literal["silu", "gelu", "gelu_tanh"]
"""Of a gated MLP: SwiGLU's SiLU, GELU by the error function, GELU by tanh."""


class Norm(NamedTuple):
    """RMSNorm, x / sqrt(mean(x²) + eps) * factor, computed in float32."""

    factor: Tensor  # float32[n], with Gemma's 1 added already
    eps: float
    early: bool  # round to x's dtype before the factor is applied, as Llama does and Gemma does not


class Heads(NamedTuple):
    """A row of a merged QKV projection: `query` heads, then `kv` heads of keys, then `kv` of
    values, each `dim` numbers."""

    query: int
    kv: int
    dim: int

    @property
    def widths(self) -> list[int]:
        return [self.query * self.dim, self.kv * self.dim, self.kv * self.dim]


Angles = tuple[Tensor, Tensor]
"""cos and sin of a step's tokens, [T, n] each."""


class Rotary(NamedTuple):
    """Rotary embedding of a head by `Angles` (Su et al., arXiv 2104.09864); dimensions past the
    pairs stay."""

    interleaved: bool  # a pair is (2i, 2i + 1), else (i, i + number of pairs)
    step: int  # pair i has the angle i * step
    twice: bool  # each angle is there twice, so there are n / 2 pairs, else n

    def pairs(self, n: int) -> int:
        return n // 2 if self.twice else n


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What happens to one layer's q, k and v before attention."""

    layer: int
    heads: Heads
    options: LayerOptions
    rotary: Rotary | None
    q_norm: Norm | None  # of single heads: factor[dim]
    k_norm: Norm | None


class GemmTiling(NamedTuple):
    """The tile of a program (CTA) in a GEMM with tensor cores."""

    block_m: int  # rows of x
    block_n: int  # output columns, of gate and up each where there are both
    block_k: int  # terms of the sum at a time
    warps: int
    stages: int  # of software pipelining


class LayerBackend(Protocol):
    """What a layer needs of an `AttentionBackend`."""

    def store(self, layer: int, k: Tensor, v: Tensor) -> None: ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor: ...


class Backend(LayerBackend, Protocol):
    """What a fused attention needs of one."""

    kv: KVCache
    new_slots: Tensor


AnyBackend = TypeVar("AnyBackend", bound=LayerBackend)


def given(backend: AnyBackend | None) -> AnyBackend:
    """EngineError for None: someone calls the model who is not its engine."""
    if backend is None:
        raise EngineError(
            "the model cannot be called by itself, nor its `generate`, while an engine has it",
            "use engine.generate, or first close the engine, which gives the model back",
        )
    return backend
