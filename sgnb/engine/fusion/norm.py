"""RMSNorm: found by the name of its class, its variant by trying."""

from __future__ import annotations

from torch import Tensor, nn

from .operations import Operations
from .patterns import NORM_EPS, NORM_SUFFIX, NORM_VARIANTS
from .trace import Trace, tolerance
from .types import Norm


class FusedNorm:
    """A norm module's forward as one operation."""

    def __init__(self, norm: Norm, operations: Operations) -> None:
        self.norm = norm
        self._operations = operations

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self._operations.norm(hidden_states, self.norm)


def looks_like_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    one_row = isinstance(weight, nn.Parameter) and weight.dim() == 1
    return type(module).__name__.endswith(NORM_SUFFIX) and one_row and _eps(module) is not None


def match_norm(module: nn.Module, trace: Trace, operations: Operations) -> FusedNorm | None:
    """The variant that comes closest, where one agrees."""
    weight, eps = module.weight, _eps(module)
    assert isinstance(weight, nn.Parameter) and eps is not None
    norms = [Norm(weight.data.float() + add, eps, early) for add, early in NORM_VARIANTS]
    variants = [FusedNorm(norm, operations) for norm in norms]
    errors = [trace.error(module, variant.forward) for variant in variants]
    best = min(range(len(variants)), key=errors.__getitem__)
    return variants[best] if errors[best] <= tolerance(weight.dtype) else None


def _eps(module: nn.Module) -> float | None:
    found = (getattr(module, name, None) for name in NORM_EPS)
    return next((eps for eps in found if isinstance(eps, float)), None)
