"""Detection of recurrent layers, by a pass over a few tokens and by calls with random states."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from ..cache.state_pool import StateShape
from .mixer import LayerStates, Mixer, OneLayerCache, joined

CACHE_NAMES = ("cache", "cache_params", "past_key_values")
"""Names of the cache argument; transformers 5.24 renamed the other two to `cache`."""

TOKENS = 5
"""Length of the test text, computed at once and token by token."""

SCALES = (1.0, 1e2, 1e4)
SHOWS = 0.1
"""Random states are scaled up until the relative change of the output reaches this share."""

DIFFERS = 0.3
"""Tolerated difference between both computations relative to the change; an ignored state gives 1.
"""

PADDING_ERROR = 0.05
"""Tolerated relative error of a padded text in half precision."""


def find_mixers(model: PreTrainedModel) -> list[Mixer]:
    """Return the model's mixers by layer. Raises ValueError for a state outside transformers'
    cache; errors of the model's code pass through."""
    call_arguments = own_cache(model)
    (cache,) = call_arguments.values()
    stateful = {
        layer: states
        for layer, states in enumerate(cache.layers)
        if isinstance(states, LinearAttentionCacheLayerMixin)
    }
    if not stateful:
        return []
    running: list[nn.Module] = []
    by_layer: dict[int, nn.Module] = {}
    widths: dict[nn.Module, int] = {}

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(module)
        widths[module] = _input_width(module, args, kwargs)

    with ExitStack() as undo:
        for module in model.modules():
            if _cache_name(module) is not None:
                pre_hook = module.register_forward_pre_hook(begin, with_kwargs=True)
                post_hook = module.register_forward_hook(lambda m, *_: _pop(running))
                undo.callback(pre_hook.remove)
                undo.callback(post_hook.remove)
        for layer, states in stateful.items():
            _watch(states, partial(_note, by_layer, running, layer))
        ids = torch.zeros(1, TOKENS, dtype=torch.long, device=model.device)
        with torch.inference_mode():
            model(input_ids=ids, use_cache=True, **call_arguments)
    mixers = []
    found: dict[type, tuple[bool, str]] = {}
    for layer, module in sorted(by_layer.items()):
        shapes, kind = _shapes(stateful[layer]), type(module)
        name = _cache_name(module) or ""
        if kind not in found:
            probe = module, name, shapes, widths[module]
            found[kind] = _continues(*probe), _padding_mask(*probe)
        mixers.append(Mixer(module, layer, name, shapes, *found[kind]))
    return mixers


def own_cache(model: PreTrainedModel) -> dict[str, DynamicCache]:
    """Return an empty transformers cache under the model's argument name."""
    name = _cache_name(model) or "past_key_values"
    return {name: DynamicCache(config=model.config.get_text_config(decoder=True))}


def _continues(module: nn.Module, name: str, shapes: list[StateShape], width: int) -> bool:
    """Compare one call over several tokens with single-token calls, by the output change due to
    random states. A split text would not show a difference, because some layers forget early
    tokens. width: last dimension of the module's input."""
    weight = next(module.parameters())
    generator = torch.Generator().manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(weight.device)

    text = draw(1, TOKENS, width).to(weight.dtype)
    random = [draw(1, *shape.shape) for shape in shapes]

    def compute(kind: str, scale: float, *parts: Tensor) -> Tensor:
        states = [
            (state * (scale if shape.kind == kind else 0)).to(shape.dtype)
            for shape, state in zip(shapes, random, strict=True)
        ]
        cache = OneLayerCache(LayerStates(shapes, states, True))
        outputs = joined([module(part, **{name: cache}) for part in parts])
        every = outputs if isinstance(outputs, tuple) else (outputs,)
        return torch.cat([each.float().flatten(2) for each in every if isinstance(each, Tensor)], 2)

    with torch.inference_mode():
        for kind in {shape.kind for shape in shapes}:
            for scale in SCALES:
                expected = compute(kind, scale, *text.split(1, 1))
                effect = (expected - compute(kind, 0, *text.split(1, 1))).norm()
                if effect > SHOWS * expected.norm():
                    break
            if not (compute(kind, scale, text) - expected).norm() < DIFFERS * effect:
                return False
    return True


def _padding_mask(module: nn.Module, name: str, shapes: list[StateShape], width: int) -> str:
    """Return the name of the mask argument with which padding on the left changes neither output
    nor states, or an empty name. Arguments as of `_continues`."""
    names = inspect.signature(module.forward).parameters
    mask_name = next((name for name in names if name.endswith("mask")), "")
    if not mask_name:
        return ""
    weight = next(module.parameters())
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(2, TOKENS, width, generator=generator).to(weight.device, weight.dtype)
    length = 2  # of the second text, shorter than a convolution
    batch[1, :-length] *= 10  # an ignored mask shows

    def compute(texts: Tensor, padding: int) -> list[Tensor]:
        states = [
            torch.zeros(len(texts), *shape.shape, dtype=shape.dtype, device=texts.device)
            for shape in shapes
        ]
        layer = LayerStates(shapes, states, False)
        mask = torch.ones(texts.shape[:2], dtype=torch.int64, device=texts.device)
        mask[-1, :padding] = 0
        output = module(texts, **{name: OneLayerCache(layer), mask_name: mask})
        every = output if isinstance(output, tuple) else (output,)
        outputs = [each[-1:, -length:] for each in every if isinstance(each, Tensor)]
        return [*outputs, *(state[-1:] for state in layer.now(shapes))]

    try:
        with torch.inference_mode():
            expected = compute(batch[1:, -length:], 0)
            masked = compute(batch, TOKENS - length)
    except Exception:  # the module runs without a mask
        return ""
    for alone, padded in zip(expected, masked, strict=True):
        if not (padded.float() - alone.float()).norm() <= PADDING_ERROR * alone.float().norm():
            return ""
    return mask_name


def _input_width(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the last dimension of the first argument: a module's first projection can be
    narrower or wider than its input."""
    first = next(iter(inspect.signature(module.forward).parameters))
    hidden = args[0] if args else kwargs.get(first)
    return hidden.shape[-1] if isinstance(hidden, Tensor) else 0


def _shapes(states: LinearAttentionCacheLayerMixin) -> list[StateShape]:
    kinds = (("conv", states.conv_states), ("recurrent", states.recurrent_states))
    return [
        StateShape(kind, index, tuple(tensor.shape[1:]), tensor.dtype)
        for kind, tensors in kinds
        for index, tensor in tensors.items()
        if tensor is not None
    ]


def _watch(states: Any, note: Callable[[], None]) -> None:
    """Call `note` whenever the layer's states are updated."""

    def noting(update: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        note()
        return update(*args, **kwargs)

    for name in ("update_conv_state", "update_recurrent_state"):
        setattr(states, name, partial(noting, getattr(states, name)))


def _note(by_layer: dict[int, nn.Module], running: list[nn.Module], layer: int) -> None:
    if not running:
        raise ValueError(f"layer {layer} keeps its state outside of its modules")
    if by_layer.setdefault(layer, running[-1]) is not running[-1]:
        raise ValueError(f"layer {layer} has more than one module with a state")


def _pop(running: list[nn.Module]) -> None:
    running.pop()


def _cache_name(module: nn.Module) -> str | None:
    return next((name for name in CACHE_NAMES if _takes(module, name)), None)


def _takes(module: nn.Module, name: str) -> bool:
    return name in inspect.signature(module.forward).parameters
