"""Gated MLPs: gate and up from one product, with the activation on top, then down."""

from __future__ import annotations

from torch import Tensor, nn

from .operations import Operations
from .patterns import GATES, MLP_ACTIVATIONS, MLP_OUTPUT
from .reference import activation_name
from .trace import Trace
from .weights import Merged, find_linears, merge


class FusedMLP:
    """activation: one of `reference.ACTIVATIONS`. A fused layer does the two products itself."""

    def __init__(
        self, merged: Merged, output: nn.Linear, activation: str, operations: Operations
    ) -> None:
        self.merged, self.output, self.activation = merged, output, activation
        self._operations = operations

    def forward(self, hidden_states: Tensor) -> Tensor:
        """hidden_states [..., K]; they stay as they are."""
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        inner = self._operations.linear(
            rows, self.merged.weight, self.merged.bias, gated=self.activation
        )
        out = self._operations.linear(inner, self.output.weight, self.output.bias)
        return out.view(*hidden_states.shape[:-1], out.shape[1])


def looks_like_mlp(module: nn.Module) -> bool:
    return bool(find_linears(module, GATES)) and bool(find_linears(module, [(MLP_OUTPUT,)]))


def match_mlp(module: nn.Module, trace: Trace, operations: Operations) -> FusedMLP | None:
    merged = merge(find_linears(module, GATES))
    (output,) = find_linears(module, [(MLP_OUTPUT,)])
    activation = _activation(module)
    if activation is None or len(merged.weight) != 2 * output.in_features:
        return None
    fused = FusedMLP(merged, output, activation, operations)
    if not trace.agrees(module, fused.forward):
        return None
    merged.adopt()
    return fused


def _activation(module: nn.Module) -> str | None:
    """The name of the function that the module's own computes."""
    own = next(
        (
            part
            for part in (getattr(module, name, None) for name in MLP_ACTIVATIONS)
            if callable(part)
        ),
        None,
    )
    return None if own is None else activation_name(own)
