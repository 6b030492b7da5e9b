"""Modules with packed weights, placed instead of transformers' modules before a load.

The forwards decode the whole matrix and multiply: correct on every device. Fusion replaces them.
Packed tensors are buffers, because a cast of a model casts parameters only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .packed import PARTS, Kind, PackedWeight, from_parts


class QuantizedLinear(nn.Module):
    """Linear module [in_features -> out_features] with a packed weight."""

    def __init__(
        self,
        layout: PackedWeight,
        bias: nn.Parameter | None,
        dtype: torch.dtype = torch.float32,  # of `weight`
    ) -> None:
        super().__init__()
        self._dtype = dtype
        self.out_features, self.in_features = layout.shape
        self.kind, self.block, self.fp8_inputs = layout.kind, layout.block, layout.fp8_inputs
        for name, tensor in layout.parts().items():
            self.register_buffer(name, tensor)
        self.register_parameter("bias", bias)

    def packed(self) -> PackedWeight:
        """Return the present weight, sharing its memory."""
        return from_parts(self.kind, self.block, self._buffers, self.fp8_inputs)

    @property
    def weight(self) -> Tensor:
        """Decoded matrix, for code of transformers that reads the weight of a linear module."""
        return self.packed().reference(self._dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.packed().reference(input.dtype), self._parameters["bias"])

    def extra_repr(self) -> str:
        shape = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{shape}, kind={self.kind!r}, bias={self.bias is not None}"


class QuantizedExperts(nn.Module):
    """Part of experts modules with packed matrices [E, N, K]. Names of matrices, such as
    `down_proj`, are properties that decode the matrices for the module's own forward."""

    formats: dict[str, tuple[Kind, tuple[int, int]]]  # kind and block by name of the matrix
    is_transposed: bool
    dtype: torch.dtype = torch.float32  # of the last input

    def packed(self, matrix: str) -> PackedWeight:
        """Return the present matrices by their name, sharing the memory."""
        parts = {name: self._buffers.get(f"{matrix}_{name}") for name in PARTS}
        return from_parts(*self.formats[matrix], parts)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.dtype = hidden_states.dtype
        return super().forward(hidden_states, *args, **kwargs)

    def decoded(self, matrix: str) -> Tensor:
        """Return the decoded matrices in the module's own layout."""
        dense = self.packed(matrix).reference(self.dtype)
        return dense.transpose(1, 2) if self.is_transposed else dense


def quantize_experts(module: Any, matrix: str, layout: PackedWeight) -> None:
    """Replace the parameter `matrix` of an experts module by packed tensors, in place."""
    own: Any = type(module)
    if issubclass(own, QuantizedExperts):
        own = own.__mro__[2]  # of transformers
    else:
        module.formats = {}
    del module._parameters[matrix]
    module.formats[matrix] = layout.kind, layout.block
    for name, tensor in layout.parts().items():
        module.register_buffer(f"{matrix}_{name}", tensor)
    module.__class__ = _quantized_class(own, tuple(sorted(module.formats)))


@cache
def _quantized_class(own: Any, matrices: tuple[str, ...]) -> type[nn.Module]:
    """Return the class of experts of class `own` with these packed matrices."""
    properties = {matrix: _decoding_property(matrix) for matrix in matrices}
    return type(f"Quantized{own.__name__}", (QuantizedExperts, own), properties)


def _decoding_property(matrix: str) -> property:
    def decode(self: QuantizedExperts) -> Tensor:
        return self.decoded(matrix)

    return property(decode)
