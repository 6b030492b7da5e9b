"""Handover of call arguments inside models that do not forward keyword arguments.

A hook on the model passes the backend to attentions, and positions to embeddings with an internal
counter. Families older than transformers' attention interface get replaced attentions. Knows
nothing about the backend.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, PreTrainedModel

from .text_decoder import text_decoder

_here = threading.local()
"""backend, positions: arguments of the thread's running model; layer: argument of the running
attention without a layer index."""


def injected_backend() -> Any:
    """Return the backend passed to the model running on this thread, or None."""
    return getattr(_here, "backend", None)


def layer_of(module: Any) -> int:
    """Return the layer index of an attention: an attribute, or the call argument of a shared
    attention."""
    own: int | None = module.layer_idx
    number: int = own if own is not None and own >= 0 else _here.layer
    return number


def inject_backend(model: PreTrainedModel, undo: ExitStack) -> list[RemovableHandle]:
    """Record the argument `sgnb` of each model call for `injected_backend`, and replace attentions
    outside transformers' interface. Returns the hooks only needed by models that do not forward
    `sgnb`."""
    parameters = inspect.signature(model.forward).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def before(
        module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        _here.backend, _here.positions = kwargs.get("sgnb"), kwargs.get("position_ids")
        if takes_all:
            return None
        return args, {name: value for name, value in kwargs.items() if name != "sgnb"}

    def after(module: nn.Module, args: Any, output: Any) -> None:
        _here.backend = _here.positions = None

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, always_call=True),
    ]
    for hook in hooks:
        undo.callback(hook.remove)
    needed = False
    for module in text_decoder(model).modules():
        if hasattr(type(module), "_attn"):
            _adapt(module, model.config, undo)
        elif type(module).__name__ in FORWARDS and not getattr(model.config, "alibi", False):
            module.forward = partial(_forward, module, model.config)
            undo.callback(delattr, module, "forward")
        elif _is_shared(module):
            undo.callback(_with_layer(module).remove)
        elif _counts_for_itself(module):
            undo.callback(_with_positions(module).remove)
            needed = True
    return [] if needed else hooks


def set_attention(model: PreTrainedModel, name: str) -> None:
    """Set the attention as transformers does, including models without the attention interface."""
    decoder = text_decoder(model)
    if any(_is_adapted(module) for module in decoder.modules()):
        decoder.config._attn_implementation = name
    else:
        decoder.set_attn_implementation(name)


def _is_adapted(module: nn.Module) -> bool:
    own = vars(module)
    return "_attn" in own or getattr(own.get("forward"), "func", None) is _forward


def _is_shared(module: nn.Module) -> bool:
    """True for an attention shared by several layers, as in Zamba; calls pass the layer index."""
    own = getattr(module, "layer_idx", 0)
    return (own is None or own == -1) and "layer_idx" in inspect.signature(
        module.forward
    ).parameters


def _with_layer(attention: nn.Module) -> RemovableHandle:
    names = list(inspect.signature(attention.forward).parameters)

    def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        given = dict(zip(names, args, strict=False)) | kwargs
        _here.layer = given["layer_idx"]

    return attention.register_forward_pre_hook(before, with_kwargs=True)


def _counts_for_itself(module: nn.Module) -> bool:
    """True for a position embedding that counts from the cache length, as in BART's decoder."""
    if not type(module).__name__.endswith("PositionalEmbedding"):
        return False
    return "position_ids" in list(inspect.signature(module.forward).parameters)[1:]


def _with_positions(embedding: nn.Module) -> RemovableHandle:
    def add(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        positions, found = getattr(_here, "positions", None), kwargs.get("position_ids")
        # the model received positions
        if positions is None or (found is not None and found.dim() > 1):
            return args, kwargs
        return args, kwargs | {"position_ids": positions[0]}

    return embedding.register_forward_pre_hook(add, with_kwargs=True)


def _adapt(module: Any, config: Any, undo: ExitStack) -> None:
    """Adapt attributes named as in GPT-J, CodeGen and GPT-Neo; the proof at load checks the meaning
    in all families."""
    if not hasattr(module, "layer_idx"):
        module.layer_idx = getattr(module, "layer_id", None)
        undo.callback(delattr, module, "layer_idx")
    if not isinstance(module.layer_idx, int):
        return
    window = config.window_size if getattr(module, "attention_type", "") == "local" else None
    scaling = 1 / float(getattr(module, "scale_attn", 1.0))
    module._attn = partial(_attn, module, config, config._attn_implementation, scaling, window)
    undo.callback(delattr, module, "_attn")


def _attn(
    module: Any,
    config: Any,
    own: str,
    scaling: float,
    window: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
) -> tuple[Tensor, Any]:
    """Replace `_attn`; tensors are [1, heads, T, dim]. own: name of the original attention, active
    until sgnb's is set."""
    if config._attn_implementation == own:
        found: tuple[Tensor, Any] = type(module)._attn(module, query, key, value, attention_mask)
        return found
    attention = AttentionInterface()[config._attn_implementation]
    query, key = query.to(value.dtype), key.to(value.dtype)
    mask = attention_mask if window is None else None  # the given mask ignores the window
    out, weights = attention(
        module, query, key, value, mask, scaling=scaling, sliding_window=window
    )
    return out.transpose(1, 2), weights


def _forward(module: Any, config: Any, hidden_states: Tensor, **kwargs: Any) -> tuple[Tensor, Any]:
    """Replace the forward of a whole attention; cross-attention keeps the original."""
    if injected_backend() is None or kwargs.get("key_value_states") is not None:
        own: tuple[Tensor, Any] = type(module).forward(module, hidden_states, **kwargs)
        return own
    q, k, v, project = FORWARDS[type(module).__name__](module, hidden_states, kwargs)
    attention = AttentionInterface()[config._attn_implementation]
    mask = kwargs.get("attention_mask")
    out, weights = attention(module, q, k, v, mask, scaling=module.head_dim**-0.5)
    return project(out.flatten(2)), weights


def _falcon(module: Any, hidden_states: Tensor, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Compute keys and values once per group of heads; the original copies both for each head."""
    groups = module.num_heads // module.num_kv_heads
    fused = module.query_key_value(hidden_states)
    fused = fused.unflatten(-1, (module.num_kv_heads, groups + 2, module.head_dim))
    q, k, v = fused[..., :-2, :].flatten(2, 3), fused[..., -2, :], fused[..., -1, :]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    rotate = inspect.getmodule(type(module)).apply_rotary_pos_emb  # type: ignore[union-attr]
    return *rotate(q, k, *kwargs["position_embeddings"]), v, module.dense


def _projected(module: Any, hidden_states: Tensor, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    parts = (module.q_proj, module.k_proj, module.v_proj)
    q, k, v = (
        part(hidden_states).unflatten(-1, (module.num_heads, module.head_dim)).transpose(1, 2)
        for part in parts
    )
    return q, k, v, module.out_proj


FORWARDS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "FalconAttention": _falcon,
    "MvpAttention": _projected,
    "TrOCRAttention": _projected,
    "XGLMAttention": _projected,
}
"""Attentions without an inner function: computation of q, k, v [1, heads, T, dim], and the output
projection."""
