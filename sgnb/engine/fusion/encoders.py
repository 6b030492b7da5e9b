"""Modules of image encoders: the embedding of patches, and attention with a fused rotary
embedding."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .module_patterns import ENCODER_ROTATION, HALVES
from .module_trace import ModuleTrace
from .operations import Operations

CONVOLUTIONS = nn.Conv2d, nn.Conv3d


def patch_product(module: Any) -> Callable[[Tensor], Tensor]:
    """Return a forward of a module of `CONVOLUTIONS` that computes patches of the kernel's own size
    by a GEMM: convolutions have no fast kernel for them."""
    convolve, size = module.forward, module.weight.shape[1:]

    def forward(input: Tensor) -> Tensor:
        if input.shape[1:] != size or any(module.padding):
            return convolve(input)
        out = F.linear(input.flatten(1), module.weight.flatten(1), module.bias)
        return out.view(*out.shape, *[1] * (input.dim() - 2))

    return forward


class EncoderAttention:
    """The forward of an encoder's attention, with another function for the rotary embedding."""

    def __init__(self, module: nn.Module, operations: Operations) -> None:
        own: Any = type(module).forward
        names = own.__globals__ | {ENCODER_ROTATION: self._rotate}
        forward = FunctionType(own.__code__, names, own.__name__, own.__defaults__, own.__closure__)
        forward.__kwdefaults__ = own.__kwdefaults__
        self.forward = forward.__get__(module)
        self._operations = operations

    def _rotate(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k [T, heads, dim] rotated by cos and sin [T, dim]."""
        rotate, angles = self._operations.rotate, (cos.contiguous(), sin.contiguous())
        return rotate(q, angles, HALVES), rotate(k, angles, HALVES)


def looks_like_encoder_attention(module: nn.Module) -> bool:
    code = getattr(type(module).forward, "__code__", None)
    return code is not None and ENCODER_ROTATION in code.co_names


def match_encoder_attention(
    module: nn.Module, trace: ModuleTrace, operations: Operations
) -> EncoderAttention | None:
    fused = EncoderAttention(module, operations)
    return fused if trace.agrees(module, fused.forward) else None
