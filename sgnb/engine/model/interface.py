"""sgnb's attention behind transformers' attention interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ..attention import LayerOptions
from ..fusion.types import LayerBackend, given
from .backend_injection import injected_backend, layer_of
from .compiled_layers import COMPILED, attend

ATTENTION = "sgnb"


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sgnb: LayerBackend | None = None,
    **ignored: Any,
) -> tuple[Tensor, None]:
    """Attend with q [1, heads, T, dim]; return [1, T, heads, dim], as transformers' interface
    requires."""
    options = LayerOptions(
        query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux
    )
    if sgnb is COMPILED:
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return attend(q, k, v, options)[None], None
    layer = layer_of(module)
    backend: LayerBackend = given(injected_backend() if sgnb is None else sgnb)
    backend.store(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
    return backend.attend(layer, query[0].transpose(0, 1), options)[None], None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """Return no mask: the backend applies causality and windows."""


AttentionInterface.register(ATTENTION, attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, _no_mask)
