"""Decoder layers through `torch.compile`: one function for all layers of a kind, compiled before
the engine serves.

What torch compiles is a layer as transformers wrote it. Attention is one custom operator in it,
opaque to torch: it asks the running thread which backend and which layer it works for, so neither
is part of what is compiled. A pass over one row and a pass over several, of dynamic number, are
compiled apart, and nothing else is. Knows transformers' conventions; knows nothing of the pool,
steps or graphs.
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

from ...errors import ModelError, OptionError, SgnbError
from ..attention import LayerOptions
from ..fusion import Swap, unfuse
from ..fusion.types import LayerBackend, given
from .loading import first_line

ROWS = 61
"""Of the pass that is compiled for several: no other dimension of a model has this size."""

NO_COMPILER = ("InvalidCxxCompiler", "TritonMissing", "GPUTooOldForTriton")
"""torch's errors where nothing can be compiled on this machine, as names: they move between its
modules."""

NUMBER = "layer_idx"
SETTINGS = (bool, int, float, str, NoneType)
"""Attributes of a module by which layers are told apart."""

COMPILED = object()
"""Stands for the attention backend inside a compiled layer; see `attend`."""


_HINT = "load it without compile"
_here = threading.local()  # backend, layer: what the thread's operator works for
_numbers = itertools.count()

# A name that is free: this module may be imported again in the same process, and operators stay.
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
    """Inside a compiled layer: store k and v [T, kv heads, dim] and attend with q [T, heads, dim];
    see `AttentionBackend`."""
    out: Tensor = _OPERATOR(q, k, v, *options)
    return out


def compile_layers(
    name: str, model: PreTrainedModel, swaps: list[Swap], backend: LayerBackend
) -> list[Swap]:
    """Compile the forward of every decoder layer, by running the model with `backend`, and return
    what is replaced now.

    The model must use sgnb's attention already, and be on its device, in its dtype. swaps: what the
    fusion pass has replaced; inside the layers that is undone, outside it stays. Takes seconds to
    minutes the first time that torch meets a kind of layer; later it finds the compiled code on the
    disk.

    Raises OptionError where torch cannot compile anything, and ModelError for a model that it
    cannot compile; then nothing is replaced any more.
    """
    layers = _find_layers(model, {swap.module for swap in swaps})
    inside = {part for layer in layers for part in layer.modules()}
    replaced = list(swaps)
    try:
        for swap in [swap for swap in swaps if swap.module in inside]:
            unfuse([swap])
            replaced.remove(swap)
        if not layers:
            said = f"{name} ({type(model).__name__}) has no list of layers to compile"
            raise ModelError(said, _HINT)
        functions: dict[Hashable, Callable[..., Any]] = {}
        for layer, index in layers.items():
            kind = _kind(layer)
            if kind not in functions:
                functions[kind] = torch.compile(_own_function(), fullgraph=True)
            layer.forward = _Layer(layer, index, functions[kind]).forward
            replaced.append(Swap("compiled", layer))
        for rows in (ROWS, 1):
            _run(model, list(layers), rows, backend)
    except BaseException as error:
        unfuse(replaced)
        if isinstance(error, SgnbError) or not isinstance(error, Exception):
            raise
        raise _failure(name, error) from error
    return replaced


class _Layer:
    """A layer's compiled forward: says who is running, and leaves the rest to the function that all
    layers share."""

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
    """`_call` with code of its own: torch keeps what it compiles, and what it learns of shapes, by
    the code's name and place, and an engine's must neither count against the next one's nor outlive
    it."""
    code = _call.__code__.replace(co_name=f"layer_{next(_numbers)}")
    return FunctionType(code, globals(), code.co_name)


def _find_layers(model: nn.Module, ours: set[nn.Module]) -> dict[nn.Module, int]:
    """Decoder layer -> its number: what is in a list and holds one numbered attention. Not those
    that someone else has given a forward."""
    found = {}
    for parts in model.modules():
        for part in parts if isinstance(parts, nn.ModuleList) else ():
            indices = (getattr(module, NUMBER, None) for module in part.modules())
            numbers = {index for index in indices if isinstance(index, int)}
            if len(numbers) == 1 and (part in ours or "forward" not in vars(part)):
                found[part] = numbers.pop()
    return found


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
    """Tell torch which dimension is that of the rows: a dynamic one."""
    for value in tree_leaves((args, kwargs)):
        if isinstance(value, Tensor):
            for dimension, size in enumerate(value.shape):
                if size == ROWS:
                    torch._dynamo.mark_dynamic(value, dimension)


def _kind(layer: nn.Module) -> Hashable:
    """Layers of one kind share a function, so that each kind is compiled once, however many layers
    it has. Where they still differ, torch's guards notice, and it compiles for each."""

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
            f"compile=True cannot be had here: {reason}",
            "install a C++ compiler (g++), and on a GPU triton; or load without compile",
        )
    return ModelError(f"{name} cannot be compiled by torch: {reason}", _HINT)
