"""Sums over the ranks of a tensor-parallel model: a module with a part of the inputs computes a
part of the sum. Knows no processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

Reduce = Callable[[Tensor], Tensor]
"""Replaces a contiguous tensor by the sum of the tensors of all ranks, in place; returns the
tensor."""


class Ranks(Protocol):
    """Processes with the parts of one model. All ranks call the methods in the same order."""

    rank: int
    size: int

    def reduce(self, x: Tensor) -> Tensor:
        """See `Reduce`."""

    def broadcast(self, x: Tensor) -> None:
        """Replace a contiguous tensor by the tensor of rank 0."""

    def largest(self, value: float) -> float:
        """Return the largest value of all ranks."""

    def smallest(self, value: int) -> int:
        """Return the smallest value of all ranks."""


class RowParallelLinear(nn.Linear):
    """Linear module with a part of the input columns. The result is the sum of all ranks."""

    reduce: Reduce

    def forward(self, input: Tensor) -> Tensor:
        out = self.reduce(F.linear(input, self.weight))
        return out if self.bias is None else out.add_(self.bias)


def reduction_of(module: nn.Module) -> Reduce | None:
    """Return the sum over the ranks for the result of a module; None for a whole module."""
    return vars(module).get("reduce")


def add_reduction(module: nn.Module, reduce: Reduce) -> None:
    """Let a module return the sum of all ranks, in place."""
    family: Any = type(module)
    if family is nn.Linear:
        module.__class__ = RowParallelLinear
    else:

        def forward(self: Any, *args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = self.reduce(family.forward(self, *args, **kwargs))
            return out

        module.__class__ = type(family.__name__, (family,), {"forward": forward})
    module.reduce = reduce  # type: ignore[assignment]
