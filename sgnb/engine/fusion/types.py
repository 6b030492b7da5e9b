"""What fused forwards and kernels both speak of, as small values: norms, heads, rotations. Knows no
module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from ..attention import LayerOptions
from ..cache.kv_cache import KVCache


class Norm(NamedTuple):
    """Root mean square norm: x / sqrt(mean(x²) + eps) * factor, computed in float32.

    factor: float32[n], with Gemma's 1 added already. early: what is normed is rounded to the dtype
    of x before the factor is applied, as Llama does and Gemma does not.
    """

    factor: Tensor
    eps: float
    early: bool


class Heads(NamedTuple):
    """A row of a merged projection: `query` heads, then `kv` heads of keys, then `kv` of values,
    each `dim` numbers."""

    query: int
    kv: int
    dim: int

    @property
    def widths(self) -> list[int]:
        return [self.query * self.dim, self.kv * self.dim, self.kv * self.dim]


Angles = tuple[Tensor, Tensor]
"""cos and sin of a step's tokens, [T, n] each."""


class Rotary(NamedTuple):
    """How a head is rotated by `Angles` (Su et al., arXiv 2104.09864); dimensions past the pairs
    stay.

    interleaved: a pair is (2i, 2i + 1), else (i, i + number of pairs). step: pair i has the angle i
    * step. twice: each angle is there twice, so there are n / 2 pairs, else n.
    """

    interleaved: bool
    step: int
    twice: bool

    def pairs(self, n: int) -> int:
        return n // 2 if self.twice else n


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What happens to one layer's q, k and v before attention. Norms here are those of single
    heads: factor[dim]."""

    layer: int
    heads: Heads
    options: LayerOptions
    rotary: Rotary | None
    q_norm: Norm | None
    k_norm: Norm | None


class Backend(Protocol):
    """What a fused attention needs of an `AttentionBackend`."""

    kv: KVCache
    new_slots: Tensor

    def store(self, layer: int, k: Tensor, v: Tensor) -> None: ...

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor: ...
