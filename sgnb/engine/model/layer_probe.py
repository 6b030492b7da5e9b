"""Attention requirements of each layer, measured by one pass over two tokens. Knows transformers'
masks; knows no pool.

transformers passes a layer's window as an attention argument (missing in some families) and as a
mask. The probe evaluates the mask. In service, the backend replaces masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, DynamicCache, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ..attention import LayerOptions
from ..cache.kv_cache import LayerShape
from .backend_injection import injected_backend, layer_of, set_attention
from .interface import attention

PROBING = "sgnb_probe"
"""Name of the probing attention."""

STATELESS_TYPES = {"mlp", "moe"}
"""Layer types without attention and without a recurrent state."""

DEPTH_NAMES = "num_decoder_layers", "decoder_layers", "num_hidden_layers"
"""Config names of the number of decoder layers, by priority; `num_hidden_layers` may count the
layers of an encoder."""

FAR_POSITIONS = (1 << 20) - 1, (1 << 20) - 30_000
"""Positions of the probed masks: a sliding window shows the same number of tokens at both."""


class LayerProbe:
    """Stand-in for an attention backend during one pass. dtype: fallback for a model without
    attention."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.shapes: dict[int, LayerShape] = {}
        self.options: dict[int, LayerOptions] = {}
        self.heads: dict[int, int] = {}
        self.dtype = dtype
        self.windows: dict[Callable[..., Tensor], int | None] = {}  # window of each mask
        self.was_injected = False  # the argument `sgnb` did not reach some layer
        self.masked: dict[nn.Module, int | None] = {}  # windows visible only in masks

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        self.shapes[layer] = LayerShape(k.shape[1], k.shape[2], v.shape[2])
        self.dtype = k.dtype

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.options[layer] = options
        self.heads[layer] = q.shape[1]
        return q.new_zeros(*q.shape[:2], self.shapes[layer].value_dim)


def run_probe(
    module: PreTrainedModel, recurrent: set[int]
) -> tuple[LayerProbe, list[RemovableHandle]]:
    """Run the probe; return the probe and hooks that pass on windows visible only in masks.

    The model's attention is `PROBING` afterwards.

    Args:
        recurrent: Indices of recurrent layers, exempt from attention.

    Raises:
        ValueError: The backends do not support a layer. Errors of the model's code pass through.
    """
    set_attention(module, PROBING)
    hooks: list[RemovableHandle] = []
    try:
        probe = _probe(module, recurrent)
        for layer, window in probe.masked.items():
            hooks.append(_with_window(layer, window))
        if hooks:
            probe = _probe(module, recurrent)
        for layer in probe.masked:
            raise ValueError(f"the window of {type(layer).__name__} appears only in the mask")
    except BaseException:
        for hook in hooks:
            hook.remove()
        raise
    return probe, hooks


def check_cache(probe: LayerProbe, module: PreTrainedModel, context: int) -> None:
    """Raise ValueError if transformers' cache drops tokens visible in the masks: outputs of the
    model would depend on the use of a cache."""
    config = module.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    if window is None or window >= context:
        return
    for layer, kept in enumerate(DynamicCache(config=config).layers):
        if (
            getattr(kept, "is_sliding", False)
            and layer in probe.options
            and probe.options[layer].window is None
        ):
            raise ValueError(f"layer {layer} attends to more tokens than transformers' cache keeps")


def _probe(module: PreTrainedModel, recurrent: set[int]) -> LayerProbe:
    probe = LayerProbe(module.dtype)
    ids, positions = torch.tensor([[[0, 0]], [[0, 1]]], device=module.device)
    with torch.inference_mode():
        module(input_ids=ids, position_ids=positions, use_cache=False, sgnb=probe)

    config = module.config.get_text_config(decoder=True)
    types = getattr(config, "layer_types", None) or ()
    neither = {layer for layer, kind in enumerate(types) if kind in STATELESS_TYPES}
    depths = (getattr(config, name, None) for name in DEPTH_NAMES)
    layers = next((depth for depth in depths if depth is not None), len(probe.shapes))

    found = len(probe.shapes.keys() | recurrent | neither)
    if found != layers:
        raise ValueError(
            f"only {found} of {layers} layers compute attention through transformers' attention "
            "interface, where sgnb takes its place, or keep a state in transformers' cache"
        )
    return probe


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    sliding_window: int | None = None,
    sgnb: LayerProbe | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Record the layer's arguments and mask; return a valid attention output."""
    probe: LayerProbe = injected_backend() if sgnb is None else sgnb
    probe.was_injected |= sgnb is None

    layer = layer_of(module)
    if layer in probe.shapes:
        raise ValueError(f"layer {layer} has more than one attention")
    if attention_mask is not None:
        visible = getattr(attention_mask, "visible", None)
        if visible is None:
            raise ValueError(f"layer {layer} uses a custom attention mask")
        if visible not in probe.windows:
            probe.windows[visible] = _window(visible, layer, attention_mask.device)
        window = probe.windows[visible]
        if window != sliding_window:
            probe.masked[module] = window
    elif getattr(module, "is_causal", True) is False:
        raise ValueError(f"layer {layer} attends in both directions")

    return attention(
        module, query, key, value, None, sliding_window=sliding_window, sgnb=probe, **more
    )


class _TracedMask(Tensor):
    """Mask with its function; slices of the mask have the same function."""

    visible: Callable[..., Tensor] | None = None  # None after arithmetic

    def __getitem__(self, index: Any) -> Tensor:
        part: Any = super().__getitem__(index)
        part.visible = self.visible
        return part


class _ClampMode(TorchFunctionMode):
    """Clamps indices beyond the end of a tensor: mask functions may look up token properties, and
    the probe's text is short."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and isinstance(args[1], tuple):
            tensor, index = args
            index = tuple(
                part.clamp(max=size - 1) if isinstance(part, Tensor) else part
                for part, size in zip(index, tensor.shape, strict=False)
            )
            return tensor[index]
        return func(*args, **(kwargs or {}))


def _mask(
    *args: Any, mask_function: Callable[..., Tensor], dtype: torch.dtype, device: Any, **more: Any
) -> Tensor:
    """Return a mask that shows all tokens and records transformers' mask function."""
    mask = torch.zeros(1, 1, 1, 1, dtype=dtype, device=device).as_subclass(_TracedMask)
    mask.visible = mask_function
    return mask


AttentionInterface.register(PROBING, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(PROBING, _mask)


def _window(visible: Callable[..., Tensor], layer: int, device: torch.device) -> int | None:
    """Return the number of tokens that a mask shows up to each token, None for all."""
    shown = set()
    positions = torch.arange(max(FAR_POSITIONS) + 2, device=device)
    for position in FAR_POSITIONS:
        tokens = positions[: position + 2]
        with _ClampMode():
            seen = visible(0, 0, tokens[position], tokens).expand(len(tokens))
        count = int(seen.count_nonzero())
        if count < 1 or not bool(seen[position + 1 - count : position + 1].all()):
            raise ValueError(f"the mask of layer {layer} shows other tokens than a window's")
        shown.add(None if count == position + 1 else count)
    if len(shown) > 1:
        raise ValueError(f"the mask of layer {layer} shows other tokens than a window's")
    return shown.pop()


def _with_window(layer: nn.Module, window: int | None) -> RemovableHandle:
    def add(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"sliding_window": window}

    return layer.register_forward_pre_hook(add, with_kwargs=True)
