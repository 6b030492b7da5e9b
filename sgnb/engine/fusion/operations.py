"""Operations of the fused forwards: a GEMM and the operations between GEMMs, selected once per
model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..device.precompile import is_precompiling
from ..quantization.packed import PackedWeight
from . import reference
from .reduction import Reduce
from .scaled_products import SCALED_ROWS, can_scale, is_supported, scaled_linear
from .types import Activation, Angles, AttentionPlan, Backend, GatedNorm, Norm, Rotary
from .weights import DenseWeight, Weight, decoded

ScaledLinear = Callable[[Tensor, PackedWeight, Tensor | None, Norm | None], Tensor]
"""See `scaled_products.scaled_linear`."""

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(x [T, K], weight [N, K], bias [N] or None) -> [T, N]."""

RotateAndStore = Callable[[Tensor, AttentionPlan, Angles | None, Backend], Tensor]


class NormRows(Protocol):
    def __call__(self, x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor: ...


class Skinny(NamedTuple):
    """GEMMs of few rows; see `skinny`, the module."""

    # True if `linear` is the choice for x, weight, gated
    serves: Callable[[Tensor, Tensor | PackedWeight, bool], bool]
    linear: Callable[..., Tensor]
    # True if `project` is the choice for x, weight; only if `can_project`, otherwise `linear`
    projects: Callable[[Tensor, Tensor | PackedWeight], bool]
    project: Callable[..., Tensor]
    can_project: Callable[[AttentionPlan, Angles | None, KVCache], bool]


@dataclass(frozen=True)
class Operations:
    """Selected operations. skinny: single-kernel `linear` and `project` for cases bound by weight
    reads."""

    norm: NormRows = reference.norm
    add_norm: Callable[[Tensor, Tensor, Norm, float], Tensor] = reference.add_norm
    gated_norm: Callable[[Tensor, Tensor, GatedNorm], Tensor] = reference.gated_norm
    gate: Callable[[Tensor, Activation], Tensor] = reference.gate
    rotate: Callable[[Tensor, Angles, Rotary], Tensor] = reference.rotate
    rotate_and_store: RotateAndStore = reference.rotate_and_store
    multiply: Linear = F.linear  # GEMM unless `skinny` serves
    skinny: Skinny | None = None
    scaled: ScaledLinear | None = None  # GEMM with FP8 inputs, if `can_scale`, from SCALED_ROWS

    def linear(
        self,
        x: Tensor,
        weight: Weight,
        bias: Tensor | None = None,
        *,
        norm: Norm | None = None,
        residual: Tensor | None = None,
        scale: float = 1.0,
        gated: Activation | None = None,
        reduce: Reduce | None = None,
    ) -> Tensor:
        """Return x [T, K], normed if asked, times weight [N, K] plus bias [N], as [T, N].

        Args:
            residual: [T, N], may be overwritten. The result is residual + scale * product.
            gated: The rows of weight and bias are gate, then up. The result is
                activation(gate) * up, [T, N / 2].
            reduce: Adds the products of all ranks, before bias and residual.
        """
        if reduce is not None:
            y = reduce(self.linear(x, weight, norm=norm))
            y = y if bias is None else y.add_(bias)
            return y if residual is None else residual.add_(y, alpha=scale)
        skinny, stored = self.skinny, _stored(weight)
        product = self.scaled_product(x, weight, bias, norm)
        if product is None:
            if skinny is not None and scale == 1.0 and skinny.serves(x, stored, gated is not None):
                self._compile_large(x, weight, norm)
                return skinny.linear(x, stored, bias, norm=norm, residual=residual, gated=gated)
            x = x if norm is None else self.norm(x, norm)
            matrix = decoded(weight, x.dtype)
            if residual is not None:
                return self._add_product(residual, x, matrix, bias, scale)
            product = self.multiply(x, matrix, bias)
        elif residual is not None:
            return residual.add_(product, alpha=scale)
        return product if gated is None else self.gate(product, gated)

    def project(
        self,
        x: Tensor,
        weight: Weight,
        bias: Tensor | None,
        plan: AttentionPlan,
        angles: Angles | None,
        backend: Backend,
        *,
        norm: Norm | None = None,
    ) -> Tensor:
        """Project x [T, K], normed if asked, to q, k and v; rotate, and store k and v in the pool.

        Args:
            weight: Rows of q, then k, then v; `bias` in the same order.
            angles: None without a rotary embedding.

        Returns:
            The rotated q, [T, heads, dim].
        """
        skinny, stored = self.skinny, _stored(weight)
        if skinny and skinny.projects(x, stored) and skinny.can_project(plan, angles, backend.kv):
            return skinny.project(x, stored, bias, plan, angles, backend, norm=norm)
        return self.rotate_and_store(self.merged(x, weight, bias, norm), plan, angles, backend)

    def merged(self, x: Tensor, weight: Weight, bias: Tensor | None, norm: Norm | None) -> Tensor:
        """Return q, k and v without a split into heads, [T, sum of widths]."""
        y = self.scaled_product(x, weight, bias, norm)
        if y is not None:
            return y
        skinny, stored = self.skinny, _stored(weight)
        if skinny is not None and (
            skinny.projects(x, stored)
            or (isinstance(stored, PackedWeight) and skinny.serves(x, stored, False))
        ):
            self._compile_large(x, weight, norm)
            return skinny.linear(x, stored, bias, norm=norm)
        x = x if norm is None else self.norm(x, norm)
        return self.multiply(x, decoded(weight, x.dtype), bias)

    def scaled_product(
        self, x: Tensor, weight: Weight, bias: Tensor | None, norm: Norm | None
    ) -> Tensor | None:
        """Return the product with FP8 inputs; None if unsupported, and for few rows."""
        return self._scaled(x, weight, bias, norm) if len(x) >= SCALED_ROWS else None

    def _scaled(
        self, x: Tensor, weight: Weight, bias: Tensor | None, norm: Norm | None
    ) -> Tensor | None:
        if self.scaled is None or isinstance(weight, DenseWeight) or not can_scale(weight):
            return None
        return self.scaled(x, weight, bias, norm)

    def _compile_large(self, x: Tensor, weight: Weight, norm: Norm | None) -> None:
        """Record the kernels of a packed weight for more rows, in a `precompiling` block."""
        if not is_precompiling() or isinstance(weight, DenseWeight):
            return
        if self._scaled(x, weight, None, norm) is None:
            decoded(weight, x.dtype)

    def _add_product(
        self, residual: Tensor, x: Tensor, matrix: Tensor, bias: Tensor | None, scale: float
    ) -> Tensor:
        if self.multiply is not F.linear:
            return residual.add_(self.multiply(x, matrix, bias), alpha=scale)
        residual.addmm_(
            x, matrix.t(), alpha=scale
        )  # a single rounding and a single pass over the residual
        return residual if bias is None else residual.add_(bias, alpha=scale)


def _stored(weight: Weight) -> Tensor | PackedWeight:
    return weight.data if isinstance(weight, DenseWeight) else weight


def pick_operations(device: torch.device, dtype: torch.dtype, linear: Linear | None) -> Operations:
    """Select the fastest operations for `device` and `dtype`. linear: replacement of every GEMM."""
    if device.type != "cuda" or find_spec("triton") is None:
        return Operations(multiply=linear or F.linear)
    from . import kernels

    fast = Operations(
        norm=kernels.norm,
        add_norm=kernels.add_norm,
        gated_norm=kernels.gated_norm,
        gate=kernels.gate,
        rotate=kernels.rotate,
        rotate_and_store=kernels.rotate_and_store,
        multiply=linear or F.linear,
    )
    if linear is not None or dtype not in (torch.bfloat16, torch.float16):
        return fast
    from .skinny import can_project, projects, serves, skinny_linear, skinny_project

    skinny = Skinny(
        serves=serves,
        linear=skinny_linear,
        projects=projects,
        project=skinny_project,
        can_project=can_project,
    )
    scaled = partial(scaled_linear, quantize=kernels.quantize_rows)
    usable = dtype == torch.bfloat16 and is_supported(device)  # the only dtype of such products
    return replace(fast, skinny=skinny, scaled=scaled if usable else None)
