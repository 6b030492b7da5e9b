"""RMSNorm, matched by class name; the variant is determined by comparison."""

from __future__ import annotations

from torch import Tensor, nn

from .module_patterns import NORM_EPS, NORM_SUFFIX, NORM_VARIANTS
from .module_trace import ModuleTrace, tolerance
from .operations import Operations
from .types import Norm


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


def looks_like_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    one_row = isinstance(weight, nn.Parameter) and weight.dim() == 1
    return type(module).__name__.endswith(NORM_SUFFIX) and one_row and _eps(module) is not None


def match_norm(module: nn.Module, trace: ModuleTrace, operations: Operations) -> FusedNorm | None:
    """Return the closest variant with agreeing output, or None."""
    weight, eps = module.weight, _eps(module)
    assert isinstance(weight, nn.Parameter) and eps is not None
    variants = [FusedNorm(module, *variant, eps, operations) for variant in NORM_VARIANTS]
    errors = [trace.error(module, variant.forward) for variant in variants]
    best = min(range(len(variants)), key=errors.__getitem__)
    return variants[best] if errors[best] <= tolerance(weight.dtype) else None


def _eps(module: nn.Module) -> float | None:
    values = (getattr(module, name, None) for name in NORM_EPS)
    return next((eps for eps in values if isinstance(eps, float)), None)
