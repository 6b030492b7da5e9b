"""Gated MLP, such as SwiGLU: a GEMM for gate and up with the activation in the epilogue, then a
GEMM for down."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .module_patterns import GATES, MLP_ACTIVATIONS, MLP_OUTPUT
from .module_trace import ModuleTrace
from .operations import Operations
from .reference import activation_name
from .types import Activation
from .weights import DenseWeight, Projection, find_linears, merge, padded

ALIGNED = 8
"""Sizes that are a multiple of this are not padded: 16 bytes in half precision."""

TILE = 64
"""Padded sizes are a multiple of this."""


class FusedMLP:
    """Fused MLP module. A fused layer runs both GEMMs directly."""

    def __init__(
        self, merged: Projection, output: Projection, activation: Activation, operations: Operations
    ) -> None:
        self.merged, self.output, self.activation = merged, output, activation
        self._operations = operations

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute the MLP; hidden_states [..., K] are not modified."""
        linear, (weight, bias, *_) = self._operations.linear, self.merged
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        inner = linear(rows, weight, bias, gated=self.activation)
        output = self.output
        out = linear(inner, output.weight, output.bias, reduce=output.reduce)
        return out.view(*hidden_states.shape[:-1], out.shape[1])

    def refresh(self) -> None:
        self.merged.refresh()
        self.output.refresh()


def looks_like_mlp(module: nn.Module) -> bool:
    return bool(find_linears(module, GATES)) and bool(find_linears(module, [(MLP_OUTPUT,)]))


def match_mlp(module: nn.Module, trace: ModuleTrace, operations: Operations) -> FusedMLP | None:
    merged, output = (
        merge(find_linears(module, GATES)),
        merge(find_linears(module, [(MLP_OUTPUT,)])),
    )
    inner = output.sources[0].in_features
    functions = (getattr(module, name, None) for name in MLP_ACTIVATIONS)
    function: Any = next(filter(callable, functions), None)
    activation = None if function is None else activation_name(function)
    if activation is None or merged.out_features != 2 * inner:
        return None
    if (
        inner % ALIGNED
        and len(merged.sources) == 2
        and isinstance(merged.weight, DenseWeight)
        and isinstance(output.weight, DenseWeight)
    ):
        # Slow kernels compute products of sizes that are no multiple of 16 bytes.
        merged, output = (
            padded(merged, rows=_round_up(inner)),
            padded(output, columns=_round_up(inner)),
        )

    fused = FusedMLP(merged, output, activation, operations)
    if not trace.agrees(module, fused.forward):
        return None
    merged.adopt()
    output.adopt()
    return fused


def _round_up(size: int) -> int:
    return -(-size // TILE) * TILE
