"""How the fused forwards compute: one way to multiply by weights, and the operations between, chosen once a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from . import plain
from .parts import AttentionPlan, Backend, Norm

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(x [T, K], weight [N, K], bias [N] or None) -> [T, N]."""


class RotateAndStore(Protocol):
    def __call__(
        self, qkv: Tensor, plan: AttentionPlan, cos: Tensor | None, sin: Tensor | None, backend: Backend
    ) -> Tensor: ...


class NormRows(Protocol):
    def __call__(self, x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True)
class Operations:
    """norm, gate, rotate_and_store: see `plain`. multiply: the product with weights where `skinny` does not serve.

    skinny: `linear` below in one kernel, for at most `skinny_rows` rows, where reading the weights is all that counts.
    """

    norm: NormRows = plain.norm
    gate: Callable[[Tensor, str], Tensor] = plain.gate
    rotate_and_store: RotateAndStore = plain.rotate_and_store
    multiply: Linear = F.linear
    skinny: Callable[..., Tensor] | None = None
    skinny_rows: int = 0

    def linear(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        norm: Norm | None = None,
        residual: Tensor | None = None,
        scale: float = 1.0,
        gated: str | None = None,
    ) -> Tensor:
        """x [T, K], normed first if asked, times weight [N, K]: [T, N].

        residual [T, N]: the result is residual + scale * product, and may take the place of `residual`. gated: weight
        and bias are those of gate and up, one after the other; the result is activation(gate) * up, [T, N / 2].
        """
        if self.skinny is not None and len(x) <= self.skinny_rows and scale == 1.0:
            fused_norm = None if norm is None else (norm.factor, norm.eps, 0.0)
            return self.skinny(x, weight, bias, norm=fused_norm, residual=residual, gated=gated)
        if norm is not None:
            x = self.norm(x, norm)
        if residual is not None:
            return self._add_product(residual, x, weight, bias, scale)
        y = self.multiply(x, weight, bias)
        return y if gated is None else self.gate(y, gated)

    def _add_product(self, residual: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, scale: float) -> Tensor:
        if self.multiply is not F.linear:
            return residual.add_(self.multiply(x, weight, bias), alpha=scale)
        residual.addmm_(x, weight.t(), alpha=scale)  # one rounding, one pass over the residual
        return residual if bias is None else residual.add_(bias, alpha=scale)


def pick_operations(device: torch.device, dtype: torch.dtype, linear: Linear | None) -> Operations:
    """The fastest that work there. linear: takes the place of every product, for who needs its rounding."""
    if device.type != "cuda" or find_spec("triton") is None:
        return Operations(multiply=linear or F.linear)
    from . import kernels

    fast = (kernels.norm, kernels.gate, kernels.rotate_and_store)
    if linear is not None or dtype not in (torch.bfloat16, torch.float16):
        return Operations(*fast, multiply=linear or F.linear)
    from .skinny import SKINNY_ROWS, skinny_linear

    return Operations(*fast, skinny=skinny_linear, skinny_rows=SKINNY_ROWS)
