"""Attentions that do not hand on the backend that a model is called with, made to find it: by a
hook on the model, and in families older than transformers' attention interface in place of their
`_attn`. Knows nothing of what the backend does.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, PreTrainedModel

_here = threading.local()  # backend: what the thread's model was called with


def handed_over() -> Any:
    """The backend that the running model was called with, on this thread; None for others."""
    return getattr(_here, "backend", None)


def hand_over(model: PreTrainedModel, undo: ExitStack) -> list[RemovableHandle]:
    """Let `handed_over` know the argument `sgnb` of each call of the model, which may not take it
    itself, and attention that is no function of transformers' interface use one that is. The hooks
    on the model, for who finds that it hands the argument on by itself."""
    parameters = inspect.signature(model.forward).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def before(
        module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        _here.backend = kwargs.get("sgnb")
        if takes_all:
            return None
        return args, {name: value for name, value in kwargs.items() if name != "sgnb"}

    def after(module: nn.Module, args: Any, output: Any) -> None:
        _here.backend = None

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, always_call=True),
    ]
    for hook in hooks:
        undo.callback(hook.remove)
    for module in model.modules():
        if hasattr(type(module), "_attn"):
            _adapt(module, model.config, undo)
    return hooks


def set_attention(model: PreTrainedModel, name: str) -> None:
    """As transformers does it, which leaves out models without its attention interface."""
    if any("_attn" in vars(module) for module in model.modules()):
        model.config._attn_implementation = name
    else:
        model.set_attn_implementation(name)


def _adapt(module: Any, config: Any, undo: ExitStack) -> None:
    """Names as in GPT-J, CodeGen and GPT-Neo; the proof at load says whether they mean the same
    elsewhere."""
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
    """[1, heads, T, dim] in and out. own: the name of its own attention, which it has until it gets
    sgnb's."""
    if config._attn_implementation == own:
        found: tuple[Tensor, Any] = type(module)._attn(module, query, key, value, attention_mask)
        return found
    attention = AttentionInterface()[config._attn_implementation]
    query, key = query.to(value.dtype), key.to(value.dtype)
    mask = attention_mask if window is None else None  # which knows nothing of the window
    out, weights = attention(
        module, query, key, value, mask, scaling=scaling, sliding_window=window
    )
    return out.transpose(1, 2), weights
