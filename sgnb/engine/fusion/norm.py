"""RMSNorm, also gated, matched by class name; the variant is determined by comparison."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

from torch import Tensor, nn

from .module_patterns import GATED_NORM_SUFFIXES, NORM_EPS, NORM_SUFFIX, NORM_VARIANTS
from .module_trace import ModuleTrace, tolerance
from .operations import Operations
from .types import GatedNorm, Norm


class FusedNorm:
    """Fused norm module: a single operation."""

    def __init__(
        self, module: nn.Module, added: float, early: bool, eps: float, operations: Operations
    ) -> None:
        self._module, self._added, self._operations = module, added, operations
        self.norm = Norm(self._factor(), eps, early)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self._operations.norm(hidden_states, self.norm)

    def refresh(self) -> None:
        """Compute the factor again from the module's weight, in place."""
        self.norm.factor.copy_(self._factor())

    def _factor(self) -> Tensor:
        weight = self._module.weight
        assert isinstance(weight, nn.Parameter)
        return weight.data.float() + self._added


class FusedGatedNorm:
    """Fused module of an RMSNorm with a gate: a single operation."""

    def __init__(
        self, module: nn.Module, gate_first: bool, early: bool, eps: float, operations: Operations
    ) -> None:
        ungated = FusedNorm(module, 0.0, early, eps, operations)
        size = len(ungated.norm.factor)
        group = getattr(module, "group_size", size // getattr(module, "n_groups", 1))
        self._plan = GatedNorm(ungated.norm, group, gate_first)
        self._operations, self.refresh = operations, ungated.refresh

    def forward(self, hidden_states: Tensor, gate: Tensor) -> Tensor:
        return self._operations.gated_norm(hidden_states, gate, self._plan)


AnyNorm = TypeVar("AnyNorm", FusedNorm, FusedGatedNorm)


def looks_like_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith(NORM_SUFFIX) and _has_one_row(module)


def looks_like_gated_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith(GATED_NORM_SUFFIXES) and _has_one_row(module)


def match_norm(module: nn.Module, trace: ModuleTrace, operations: Operations) -> FusedNorm | None:
    """Return the closest variant with agreeing output, or None."""
    eps = _eps(module)
    variants = [FusedNorm(module, *variant, eps, operations) for variant in NORM_VARIANTS]
    return _closest(variants, module, trace)


def match_gated_norm(
    module: nn.Module, trace: ModuleTrace, operations: Operations
) -> FusedGatedNorm | None:
    """Return the closest variant with agreeing output, or None."""
    eps, choices = _eps(module), (True, False)
    kinds = product(choices, choices)
    variants = [FusedGatedNorm(module, *kind, eps, operations) for kind in kinds]
    return _closest(variants, module, trace)


def _closest(variants: Sequence[AnyNorm], module: nn.Module, trace: ModuleTrace) -> AnyNorm | None:
    weight = module.weight
    assert isinstance(weight, nn.Parameter)
    errors = [trace.error(module, variant.forward) for variant in variants]
    best = min(range(len(variants)), key=errors.__getitem__)
    return variants[best] if errors[best] <= tolerance(weight.dtype) else None


def _has_one_row(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.dim() == 1 and _eps(module) > 0


def _eps(module: nn.Module) -> float:
    """Return the constant below the square root, or 0."""
    values = (getattr(module, name, None) for name in NORM_EPS)
    return next((eps for eps in values if isinstance(eps, float)), 0.0)
