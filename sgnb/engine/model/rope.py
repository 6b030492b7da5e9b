"""Rotary factors made independent of the longest text in a call.

A step batches many texts and the cache shares keys: factors must not depend on the batch. Knows
transformers' rotary modules.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ...errors import SgnbWarning

LONGROPE = "longrope"
FIXED = "default"
"""Rope type with constant factors."""


def fixed_length(model: PreTrainedModel, context_length: int | None) -> int | None:
    """Return the maximum text length under the factors of `fix_factors`, or None for constant
    factors.

    Uses the exact factors of short texts unless `context_length` is longer.
    """
    lengths = [_original_length(module, key) for module, key, _ in _changing(model)]
    if not lengths:
        return None
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    asked = min(context_length or 0, context or 0)
    return max(asked, min(lengths))


def fix_factors(model: PreTrainedModel, length: int) -> Callable[[], None]:
    """Fix the factors for texts of `length` tokens. Returns a function that undoes the change."""
    undo: list[Callable[[], None]] = []
    for module, key, kind in list(_changing(model)):
        undo.append(_fix(module, key, kind, length))

    def restore() -> None:
        for step in reversed(undo):
            step()

    return restore


def warn_of_factors(name: str, model: PreTrainedModel, length: int) -> None:
    """Warn about the effect of fixed factors if different from the model's factors."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", 0)
    originals = [_original_length(module, key) for module, key, _ in _changing(model)]
    if not originals or context <= min(originals):
        return

    original = min(originals)
    if length == original:
        message = (
            f"{name} has other rotary factors for texts above {original} tokens. sgnb uses the "
            f"factors up to {original} and refuses longer texts; "
            f"Engine(..., context_length={context}) uses the factors for long texts in all texts"
        )
    else:
        message = (
            f"{name} has other rotary factors for texts up to {original} tokens. With "
            f"context_length={length} sgnb uses the factors for long texts in all texts"
        )
    warnings.warn(message, SgnbWarning, stacklevel=2)


def _changing(model: nn.Module) -> Iterator[tuple[Any, str | None, str]]:
    """Yield rotary modules, layer kinds (None for a module with a single kind) and rope types."""
    for module in model.modules():
        types = getattr(module, "rope_type", None)
        for key, kind in types.items() if isinstance(types, dict) else [(None, types)]:
            if isinstance(kind, str) and (kind == LONGROPE or "dynamic" in kind):
                yield module, key, kind


def _original_length(module: Any, key: str | None) -> int:
    parameters = module.config.rope_parameters
    parameters = parameters if key is None else parameters[key]
    if parameters.get("rope_type") == LONGROPE:
        return int(parameters["original_max_position_embeddings"])
    return int(module.original_max_seq_len)


def _fix(module: Any, key: str | None, kind: str, length: int) -> Callable[[], None]:
    prefix = "" if key is None else f"{key}_"
    name, types, scaling = f"{prefix}inv_freq", module.rope_type, module.attention_scaling
    before = getattr(module, name)
    factors = getattr(module, f"{prefix}original_inv_freq")
    if length > _original_length(module, key):
        factors, module.attention_scaling = ROPE_INIT_FUNCTIONS[kind](
            module.config, before.device, seq_len=length, layer_type=key
        )
    module.register_buffer(name, factors.to(before.device, torch.float32), persistent=False)
    module.rope_type = FIXED if key is None else types | {key: FIXED}

    def restore() -> None:
        module.register_buffer(name, before, persistent=False)
        module.rope_type, module.attention_scaling = types, scaling

    return restore
