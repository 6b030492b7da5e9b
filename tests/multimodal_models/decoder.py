"""The text decoder of a multimodal model, and the decoder's arguments."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Arguments = dict[str, Any]


class _Stop(Exception):
    """Ends a forward at the decoder."""


def find_decoder(model: PreTrainedModel, inputs: Arguments) -> nn.Module | None:
    """Return the innermost module with layers that receives the prompt's `inputs_embeds` when the
    model runs, or None if the model computes embeddings and layers in the same module."""
    called: list[nn.Module] = []

    def note(module: nn.Module, arguments: tuple[Any, ...], options: Arguments) -> None:
        embeddings = options.get("inputs_embeds")
        if embeddings is not None and embeddings.shape[:2] == inputs["input_ids"].shape:
            called.append(module)

    takers = [
        module
        for module in model.modules()
        if "inputs_embeds" in inspect.signature(module.forward).parameters and _has_layers(module)
    ]
    hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in takers]
    try:
        with torch.no_grad():
            model(**inputs, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    innermost = [
        module
        for module in called
        if not any(inner is not module and inner in called for inner in module.modules())
    ]
    return innermost[-1] if innermost else None


def _has_layers(module: nn.Module) -> bool:
    return any(isinstance(inner, nn.ModuleList) and len(inner) > 1 for inner in module.modules())


def captured(model: PreTrainedModel, decoder: nn.Module, inputs: Arguments) -> Arguments:
    """Return the keyword arguments of the decoder; the forward stops there."""
    found: list[Arguments] = []

    def stop(module: nn.Module, arguments: tuple[Any, ...], options: Arguments) -> None:
        found.append(options)
        raise _Stop

    hook = decoder.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        with torch.no_grad():
            model(**inputs, use_cache=False)
    except _Stop:
        pass
    finally:
        hook.remove()
    return found[0]


def hidden_states(decoder: nn.Module, options: Arguments) -> Tensor:
    """Return the decoder's last hidden states for captured arguments."""
    with torch.no_grad():
        output = decoder(**options)
    states: Tensor = output[0]
    return states
