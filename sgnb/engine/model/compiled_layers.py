"""Decoder layers through `torch.compile`: one compiled function per kind of layer, before serving.

torch compiles the layers of transformers unchanged. Attention is an opaque custom operator;
thread-local variables hold the backend and the layer, to keep both out of the compiled code. Two
variants are compiled: for one row, and for a dynamic number of rows. Knows transformers'
conventions; knows no pool, steps or graphs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from types import FunctionType, NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

from ...errors import ModelError, OptionError, SgnbError, first_line
from ..attention import LayerOptions
from ..fusion import Swap, unfuse
from ..fusion.types import LayerBackend, given

ROWS = 61
"""Number of rows of the dynamic compile pass: no dimension of a model has this size."""

NO_COMPILER = ("InvalidCxxCompiler", "TritonMissing", "GPUTooOldForTriton")
"""Names of torch's errors on machines without a compiler: the classes move between modules."""

NUMBER = "layer_idx"
SETTINGS = (bool, int, float, str, NoneType)
"""Types of module attributes compared to distinguish kinds of layers."""

COMPILED = object()
"""Placeholder for the attention backend inside a compiled layer; see `attend`."""


_HINT = "load without compile"
_here = threading.local()  # backend, layer: targets of the thread's operator
_numbers = itertools.count()

# Use a free name: operators survive a second import of this module in the same process.
_NAME = next(name for i in itertools.count() if not hasattr(torch.ops.sgnb, name := f"attend_{i}"))

_OPTIONS = "float scaling, int? window, float? softcap, Tensor? sinks"
torch.library.define(
    f"sgnb::{_NAME}",
    f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> Tensor",
    tags=torch.Tag.needs_fixed_stride_order,
)


@torch.library.impl(f"sgnb::{_NAME}", "default")
def _attend(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Tensor:
    backend: LayerBackend = _here.backend
    backend.store(_here.layer, k, v)
    return backend.attend(_here.layer, q, LayerOptions(*options)).contiguous()


@torch.library.register_fake(f"sgnb::{_NAME}")
def _shape(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Tensor:
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2])


_OPERATOR = getattr(torch.ops.sgnb, _NAME)


def attend(q: Tensor, k: Tensor, v: Tensor, options: LayerOptions) -> Tensor:
    """Store k and v [T, kv heads, dim] and attend with q [T, heads, dim] inside a compiled layer;
    see `AttentionBackend`."""
    out: Tensor = _OPERATOR(q, k, v, *options)
    return out


def compile_layers(
    name: str, model: PreTrainedModel, swaps: list[Swap], backend: LayerBackend
) -> list[Swap]:
    """Compile the forward of every decoder layer by running the model with `backend`.

    The model must already use sgnb's attention on its device, in its dtype. The first compilation
    of a kind of layer takes seconds to minutes; later runs load the code from disk.

    Args:
        swaps: Replacements by the fusion pass. Undone inside the layers, kept outside.

    Returns:
        The replacements now in effect.

    Raises:
        OptionError: torch cannot compile on this machine.
        ModelError: The model cannot be compiled. All replacements are undone.
    """
    layers = _find_layers(model, {swap.module for swap in swaps})
    inside = {part for layer in layers for part in layer.modules()}
    replaced = list(swaps)
    try:
        for swap in [swap for swap in swaps if swap.module in inside]:
            unfuse([swap])
            replaced.remove(swap)
        if not layers:
            message = f"{name} ({type(model).__name__}) has no list of layers to compile"
            raise ModelError(message, _HINT)

        functions: dict[Hashable, Callable[..., Any]] = {}
        for layer, index in layers.items():
            kind = _kind(layer)
            if kind not in functions:
                functions[kind] = torch.compile(_own_function(), fullgraph=True)
            layer.forward = _CompiledLayer(layer, index, functions[kind]).forward
            replaced.append(Swap("compiled", layer))

        for rows in (ROWS, 1):
            _run(model, list(layers), rows, backend)
    except BaseException as error:
        unfuse(replaced)
        if isinstance(error, SgnbError) or not isinstance(error, Exception):
            raise
        raise _failure(name, error) from error
    return replaced


class _CompiledLayer:
    """Compiled forward of a layer: sets the thread-local layer, then calls the function shared by
    all layers."""

    def __init__(self, layer: nn.Module, index: int, compiled: Callable[..., Any]) -> None:
        self._layer, self._index, self._compiled = layer, index, compiled

    def forward(self, *args: Any, sgnb: LayerBackend | None = None, **kwargs: Any) -> Any:
        _here.backend, _here.layer = given(sgnb), self._index
        try:
            return self._compiled(self._layer, *args, sgnb=COMPILED, **kwargs)
        finally:
            _here.backend = None


def _call(layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return type(layer).forward(layer, *args, **kwargs)


def _own_function() -> Callable[..., Any]:
    """Copy `_call` with a distinct code object: torch caches compiled code and shapes by code name
    and place, and engines must not share or outlive the cache."""
    code = _call.__code__.replace(co_name=f"layer_{next(_numbers)}")
    return FunctionType(code, globals(), code.co_name)


def _find_layers(model: nn.Module, ours: set[nn.Module]) -> dict[nn.Module, int]:
    """Return decoder layer -> index: list items with one numbered attention, without foreign
    forwards."""
    layers = {}
    for parts in model.modules():
        for part in parts if isinstance(parts, nn.ModuleList) else ():
            indices = (getattr(module, NUMBER, None) for module in part.modules())
            numbers = {index for index in indices if isinstance(index, int)}
            if len(numbers) == 1 and (part in ours or "forward" not in vars(part)):
                layers[part] = numbers.pop()
    return layers


def _run(model: PreTrainedModel, layers: list[nn.Module], rows: int, backend: LayerBackend) -> None:
    ids = torch.zeros(1, rows, dtype=torch.long, device=model.device)
    with ExitStack() as stack, torch.inference_mode():
        for layer in layers:
            hook = layer.register_forward_pre_hook(_mark_rows, with_kwargs=True)
            stack.callback(hook.remove)
        model(
            input_ids=ids,
            position_ids=ids,
            use_cache=False,
            attention_mask=torch.zeros(1, 1, 1, 1, device=model.device),
            sgnb=backend,
        )


def _mark_rows(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Mark the dimension of rows as dynamic."""
    for value in tree_leaves((args, kwargs)):
        if isinstance(value, Tensor):
            for dimension, size in enumerate(value.shape):
                if size == ROWS:
                    torch._dynamo.mark_dynamic(value, dimension)


def _kind(layer: nn.Module) -> Hashable:
    """Return the kind of a layer. Layers of a kind share a compiled function; torch's guards detect
    remaining differences and recompile."""

    def made_of(part: nn.Module) -> Hashable:
        settings = ((k, v) for k, v in vars(part).items() if k != NUMBER)
        weights = part.named_parameters(recurse=False)
        return (
            type(part),
            tuple((key, value) for key, value in settings if isinstance(value, SETTINGS)),
            tuple((key, weight.shape, weight.dtype) for key, weight in weights),
        )

    return tuple((name, made_of(part)) for name, part in layer.named_modules())


def _failure(name: str, error: Exception) -> SgnbError:
    reason = first_line(error)
    if any(word in str(error) for word in NO_COMPILER):
        return OptionError(
            f"compile=True is not available: {reason}",
            "install a C++ compiler (g++), and on a GPU triton; or load without compile",
        )
    return ModelError(f"{name} cannot be compiled by torch: {reason}", _HINT)
