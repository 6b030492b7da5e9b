"""A transformers decoder made to read and write the KV pool. Knows transformers; knows nothing of
scheduling.

Every decoder in transformers takes its attention function by name and hands extra keyword arguments
down to it. Ours passes each layer's q, k, v to the attention backend that comes as the argument
`sgnb`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from ...errors import ModelError
from ..attention import AttentionBackend, LayerOptions
from ..cache.kv_cache import LayerShape
from ..device.precompile import cancel_unclaimed, load_triton
from ..fusion import Swap, fuse, unfuse
from ..fusion.invariant_model import fuse_invariant
from .compiled import COMPILED, attend, compile_layers
from .loading import first_line, load_module, pick_device, pick_dtype, place_module

ATTENTION = "sgnb"
LAYER_TYPES = {"full_attention", "sliding_attention"}


def _attention(
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
    sgnb: AttentionBackend,
    **ignored: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: q [1, heads, T, dim] in, [1, T, heads, dim] out."""
    options = LayerOptions(
        query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux
    )
    if sgnb is COMPILED:
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return attend(q, k, v, options)[None], None
    layer: int = module.layer_idx  # type: ignore[assignment]
    sgnb.store(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
    return sgnb.attend(layer, query[0].transpose(0, 1), options)[None], None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """The backend decides what a token sees."""


AttentionInterface.register(ATTENTION, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, _no_mask)


@dataclass(frozen=True)
class Decoder:
    """A model ready to run."""

    model: PreTrainedModel
    name: str
    shapes: dict[int, LayerShape]  # KV of each layer
    heads: dict[int, int]  # query heads of each layer
    dtype: torch.dtype
    device: torch.device
    context_length: int  # the positions that it was made for
    vocab_size: int
    eos_token_ids: frozenset[int]
    fused: list[Swap]  # modules whose forward was replaced
    own_attention: str  # what the model used before

    def release(self) -> None:
        """Leave the model as it was found, for whoever else holds it."""
        unfuse(self.fused)
        self.fused.clear()
        self.model.set_attn_implementation(self.own_attention)


class Probe:
    """Takes an attention backend's place for one pass, and learns what each layer stores and asks
    for."""

    def __init__(self) -> None:
        self.shapes: dict[int, LayerShape] = {}
        self.options: dict[int, LayerOptions] = {}
        self.heads: dict[int, int] = {}
        self.dtype = torch.float32

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        self.shapes[layer] = LayerShape(k.shape[1], k.shape[2], v.shape[2])
        self.dtype = k.dtype

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.options[layer] = options
        self.heads[layer] = q.shape[1]
        return q.new_zeros(*q.shape[:2], self.shapes[layer].value_dim)


def load_decoder(
    model: str | Path | PreTrainedModel,
    device: str = "auto",
    dtype: str = "auto",
    fused: bool = True,
    memory_limit: float | None = None,
    deterministic: bool = False,
    compiled: bool = False,
    probed: Callable[[Probe, torch.device], None] = lambda probe, device: None,
) -> Decoder:
    """Read a model from a local folder, by hub id, or take one that is loaded already. Weights from
    safetensors only.

    dtype "auto" is the checkpoint's own on a GPU and float32 on a CPU, where half precision is
    slower. deterministic: the model is batch-invariant. compiled: the layers go through
    torch.compile, and `fused` serves what lies outside them. probed: told as soon as it is known
    what the layers ask for, and on which device.

    Raises ModelError when it cannot be found, read, fit within memory_limit (GiB), or run as a
    decoder on the KV pool; with compiled see `compile_layers`.
    """
    if not isinstance(model, (str, Path, PreTrainedModel)) or model == "":
        hint = "give a folder, a hub id, 'tiny', or a transformers model"
        raise ModelError(f"{model!r} is no model", hint)
    target = pick_device(device)
    torch_dtype = pick_dtype(dtype, target)
    on_gpu = target.type == "cuda"
    if on_gpu:
        load_triton()
    with torch.cuda.device(target) if on_gpu else nullcontext():  # kernels launch on the current
        if isinstance(model, PreTrainedModel):
            name, module = type(model).__name__, place_module(model, target, torch_dtype)
        else:
            name, module = str(model), load_module(str(model), target, torch_dtype, memory_limit)
        return _decoder(name, module, target, fused, deterministic, compiled, probed)


def _decoder(
    name: str,
    module: PreTrainedModel,
    device: torch.device,
    fused: bool,
    deterministic: bool,
    compiled: bool,
    probed: Callable[[Probe, torch.device], None],
) -> Decoder:
    module.eval()
    _check_layers(name, module)
    own_attention, eos = module.config._attn_implementation, _eos_token_ids(name, module)
    try:
        module.set_attn_implementation(ATTENTION)
        probe = _run_probe(module, device)
    except BaseException as error:  # whatever a model's own code raises
        module.set_attn_implementation(own_attention)
        if not isinstance(error, Exception):
            raise
        raise ModelError(
            f"{name} ({type(module).__name__}) cannot use sgnb's attention: {first_line(error)}",
            _DECODERS,
        ) from error
    config = module.config.get_text_config()
    context = getattr(config, "max_position_embeddings", 0) or getattr(config, "n_positions", 0)
    vocab = module.get_input_embeddings().weight.shape[0]  # type: ignore[index]
    try:
        probed(probe, device)
        if deterministic:
            swaps = fuse_invariant(module, probe.options)
        else:
            swaps = fuse(module, probe.options) if fused else []
            swaps = compile_layers(name, module, swaps, probe) if compiled else swaps
    except BaseException:
        cancel_unclaimed()
        module.set_attn_implementation(own_attention)
        raise
    return Decoder(
        module, name, probe.shapes, probe.heads, probe.dtype, device, int(context or 1 << 20),
        int(vocab), eos, swaps, own_attention,
    )  # fmt: skip


_DECODERS = (
    "sgnb runs decoders whose layers keep keys and values, such as Llama, Qwen, Mistral, Gemma, "
    "Mixtral or DeepSeek"
)


def _check_layers(name: str, module: PreTrainedModel) -> None:
    config = module.config.get_text_config()
    unknown = set(getattr(config, "layer_types", None) or ()) - LAYER_TYPES
    if getattr(config, "num_hidden_layers", 1) < 1:
        raise ModelError(f"{name} has no layers", _DECODERS)
    if unknown:
        raise ModelError(f"{name} has layers of kind {', '.join(sorted(unknown))}", _DECODERS)
    if getattr(module.config, "is_encoder_decoder", False) or not module.can_generate():
        raise ModelError(f"{name} ({type(module).__name__}) is not a decoder", _DECODERS)
    if any(getattr(layer, "is_causal", True) is False for layer in module.modules()):
        raise ModelError(f"{name} ({type(module).__name__}) attends in both directions", _DECODERS)


def _run_probe(module: PreTrainedModel, device: torch.device) -> Probe:
    probe = Probe()
    ids, positions = torch.tensor([[[0, 0]], [[0, 1]]], device=device)
    with torch.inference_mode():
        module(input_ids=ids, position_ids=positions, use_cache=False, sgnb=probe)
    layers = getattr(module.config.get_text_config(), "num_hidden_layers", len(probe.shapes))
    if len(probe.shapes) != layers:
        found = len(probe.shapes)
        raise ValueError(f"{found} of {layers} layers use transformers' attention interface")
    return probe


def takes_logits_to_keep(module: PreTrainedModel) -> bool:
    return "logits_to_keep" in inspect.signature(module.forward).parameters


def _eos_token_ids(name: str, module: PreTrainedModel) -> frozenset[int]:
    found: list[Any] = []
    own, generation = module.config, getattr(module, "generation_config", None)
    for config in (generation, own, own.get_text_config()):
        eos = getattr(config, "eos_token_id", None)
        found += eos if isinstance(eos, (list, tuple)) else [] if eos is None else [eos]
    for eos in found:
        if not isinstance(eos, int):
            raise ModelError(f"{name}: {eos!r} in eos_token_id is no token id", "mend its config")
    return frozenset(found)
