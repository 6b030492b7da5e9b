"""Batch-invariant model: coverage beyond linear modules with `invariant_linear`.

Routers multiply by separate weights, experts use grouped GEMMs, and unmatched modules may compute
anything. The fused model therefore runs once on random tokens, and each GEMM and long reduction of
torch is attributed to the calling module. The operation is replaced, or the model is refused.
Assumption for torch on a GPU: softmax, top-k, layer norms and short sums are computed per row. Not
covered: GEMMs inside operators of other libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...errors import ModelError
from ..attention import LayerOptions
from . import Swap, fuse, unfuse
from .invariant import invariant_linear
from .module_trace import ModuleTrace
from .moe import FusedExperts, activation_of, looks_like_experts

LINEAR = "linear"
"""Names of torch's functions: GEMMs and their like, and reductions."""

PRODUCTS = {
    LINEAR, "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "vdot",
    "inner", "addmm", "addbmm", "baddbmm", "addmv", "einsum", "tensordot", "chain_matmul",
    "multi_dot", "conv1d", "conv2d", "conv3d", "grouped_mm", "_grouped_mm", "grouped_mm_fallback",
    "_scaled_mm", "scaled_dot_product_attention", "multi_head_attention_forward",
}  # fmt: skip
SUMS = {
    "sum", "mean", "var", "std", "var_mean", "std_mean", "norm", "vector_norm", "normalize",
    "logsumexp", "cosine_similarity",
}  # fmt: skip

FEW = 32
"""Maximum length of a sum with an order independent of the number of rows: a single warp holds all
elements."""


def fuse_invariant(model: nn.Module, options: dict[int, LayerOptions]) -> list[Swap]:
    """Fuse `model` like `fuse`, with batch-invariant results.

    Also replaces modules with direct products (routers), kind "product".

    Raises:
        ModelError: A module computes an operation without replacement: experts without a kernel,
            GEMMs by functions other than F.linear, unknown norms. All forwards are then unchanged.
    """
    trace = ModuleTrace(model, [])
    swaps = fuse(model, options, linear=invariant_linear)
    try:
        _make_experts_invariant(model, swaps)
        swaps += _replace_products(model, {swap.module for swap in swaps}, trace)
        trace.run()
    except BaseException as error:
        unfuse(swaps)
        if isinstance(error, ValueError):  # from a product unsupported by `invariant_linear`
            raise _refusal(
                model, f"has a computation without a batch-invariant kernel ({error})"
            ) from error
        raise
    return swaps


def _make_experts_invariant(model: nn.Module, swaps: list[Swap]) -> None:
    swapped = {swap.module for swap in swaps if swap.kind == "experts"}
    for name, module in model.named_modules():
        if looks_like_experts(module):
            if module not in swapped:
                raise _refusal(model, f"has experts that sgnb's kernels do not support ({name})")
            fused = FusedExperts(module, activation_of(module), batch_invariant=True)
            module.forward = fused.forward


def _replace_products(model: nn.Module, swapped: set[nn.Module], trace: ModuleTrace) -> list[Swap]:
    names = {module: name for name, module in model.named_modules()}
    swaps = []
    for module, functions in _computed(model, trace).items():
        if module in swapped:
            continue
        if functions != {LINEAR} or "forward" in vars(module):
            place = f"{names[module] or 'the model'} ({type(module).__name__})"
            listed = ", ".join(sorted(functions))
            raise _refusal(
                model, f"has a computation without a batch-invariant kernel, in {place}: {listed}"
            )
        swaps.append(Swap("product", module))

    for swap in swaps:
        swap.module.forward = _with_products(swap.module.forward)
    return swaps


def _refusal(model: nn.Module, reason: str) -> ModelError:
    message = f"{type(model).__name__} {reason}, which deterministic=True does not cover"
    return ModelError(message, "load without it")


def _computed(model: nn.Module, trace: ModuleTrace) -> dict[nn.Module, set[str]]:
    """GEMMs and long reductions of a run, by innermost active module."""
    watch = _Watch()
    with ExitStack() as hooks:
        for module in model.modules():
            hooks.callback(module.register_forward_pre_hook(watch.enter).remove)
            leave = module.register_forward_hook(watch.leave, always_call=True)
            hooks.callback(leave.remove)
        with watch:
            trace.run()
    return watch.found


class _Watch(TorchFunctionMode):
    """Recorder of torch functions; found[module]: names of the functions called there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[nn.Module, set[str]] = {}
        self._inside: list[nn.Module] = []

    def enter(self, module: nn.Module, args: Any) -> None:
        self._inside.append(module)

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if self._inside and (name in PRODUCTS or name in SUMS) and _has_terms(name, args, out):
            self.found.setdefault(self._inside[-1], set()).add(name.strip("_"))
        return out


def _has_terms(name: str, args: Any, out: Any) -> bool:
    """True if an output has enough terms for the order to matter, or the number of terms is
    unknown."""
    first = args[0] if args else None
    if not isinstance(first, Tensor) or first.dim() == 0:
        return True
    if name in SUMS:
        reduced = isinstance(out, Tensor) and out.shape != first.shape
        return not reduced or first.numel() > FEW * out.numel()
    return name == LINEAR or first.shape[-1] > 1


def _with_products(forward: Callable[..., Any]) -> Callable[..., Any]:
    products = _Products()

    @wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with products:
            return forward(*args, **kwargs)

    return wrapped


class _Products(TorchFunctionMode):
    """Replaces F.linear by `invariant_linear` while active."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_linear if func is F.linear else func)(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return invariant_linear(input, weight, bias)
