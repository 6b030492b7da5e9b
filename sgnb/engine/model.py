"""A transformers decoder made to read and write the KV pool. Knows transformers; knows nothing of scheduling.

Every decoder in transformers takes its attention function by name and hands extra keyword arguments down to it. Ours
passes each layer's q, k, v to the attention backend that comes as the argument `sgnb`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.utils import logging

from .. import models
from ..errors import ModelError, nearest
from .attention import AttentionBackend, LayerOptions
from .fuse import fuse, unfuse
from .kv import LayerShape
from .options import DTYPES

ATTENTION = "sgnb"
SMALL_BYTES = 1 << 30
HUB_SECONDS = 5.0
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
    options = LayerOptions(query.shape[-1] ** -0.5 if scaling is None else scaling, sliding_window, softcap, s_aux)
    return sgnb.run(module.layer_idx, query, key, value, options), None  # type: ignore[arg-type]


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """The backend decides what a token sees."""


AttentionInterface.register(ATTENTION, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, _no_mask)


@dataclass(frozen=True)
class Decoder:
    """A model ready to run: `shapes` gives each layer's KV, `context_length` the positions it was made for.

    fused: modules whose forward was replaced. own_attention: what the model used before.
    """

    model: PreTrainedModel
    name: str
    shapes: dict[int, LayerShape]
    dtype: torch.dtype
    device: torch.device
    context_length: int
    vocab_size: int
    eos_token_ids: frozenset[int]
    fused: list[torch.nn.Module]
    own_attention: str

    def release(self) -> None:
        """Leave the model as it was found, for whoever else holds it."""
        unfuse(self.fused)
        self.fused.clear()
        self.model.set_attn_implementation(self.own_attention)


class _Probe:
    """An attention backend that only learns what each layer stores."""

    def __init__(self) -> None:
        self.shapes: dict[int, LayerShape] = {}
        self.dtype = torch.float32

    def plan(self, chunks: list[Any]) -> None:
        raise NotImplementedError("a probe never runs a batch")

    def run(self, layer: int, q: Tensor, k: Tensor, v: Tensor, options: LayerOptions) -> Tensor:
        self.shapes[layer] = LayerShape(k.shape[1], k.shape[3], v.shape[3])
        self.dtype = k.dtype
        return v.repeat_interleave(q.shape[1] // v.shape[1], 1).transpose(1, 2)


def load_decoder(
    model: str | Path | PreTrainedModel, device: str = "auto", dtype: str = "auto", fused: bool = True
) -> Decoder:
    """Read a model from a local folder, by hub id, or take one that is loaded already. Weights from safetensors only.

    dtype "auto" is the checkpoint's own on a GPU and float32 on a CPU, where half precision is slower.
    Raises ModelError when it cannot be found, read, or run as a decoder on the KV pool.
    """
    if not isinstance(model, (str, Path, PreTrainedModel)) or model == "":
        raise ModelError(f"{model!r} is no model", "give a folder, a hub id, 'tiny', or a transformers model")
    place = pick_device(device)
    kind = _pick_dtype(dtype, place)
    if isinstance(model, PreTrainedModel):
        name, module = type(model).__name__, model
    else:
        name, module = str(model), _from_pretrained(str(model), kind)
    module = module.to(device=place, dtype=module.dtype if kind == "auto" else kind).eval()  # type: ignore[call-arg]
    _check_layers(name, module)
    own_attention = module.config._attn_implementation
    try:
        module.set_attn_implementation(ATTENTION)
        probe = _run_probe(module, place)
    except Exception as error:  # whatever a model's own code raises
        module.set_attn_implementation(own_attention)
        raise ModelError(
            f"{name} ({type(module).__name__}) cannot use sgnb's attention: {_first_line(error)}", _DECODERS
        ) from error
    config = module.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or 1 << 20
    vocab = module.get_input_embeddings().weight.shape[0]
    swapped = fuse(module) if fused else []
    return Decoder(
        module,
        name,
        probe.shapes,
        probe.dtype,
        place,
        int(context),
        int(vocab),
        _eos_token_ids(module),
        swapped,
        own_attention,
    )


_DECODERS = (
    "sgnb runs decoders whose layers keep keys and values, such as Llama, Qwen, Mistral, Gemma, Mixtral or DeepSeek"
)


def pick_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"device {device!r} is not usable: {_first_line(error)}", "use 'auto', 'cpu' or 'cuda'"
        ) from error
    return place


def _pick_dtype(dtype: str, device: torch.device) -> Any:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    return getattr(torch, DTYPES[dtype])


def _from_pretrained(path: str, dtype: Any) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    folder = Path(path).expanduser()
    looks_local = folder.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1
    if looks_local and not folder.is_dir():
        raise ModelError(
            f"no model folder at {path!r}", "give a folder with config.json and safetensors, a hub id, or 'tiny'"
        )
    try:
        with _progress_if_large(folder):
            model = AutoModelForCausalLM.from_pretrained(
                str(folder) if folder.is_dir() else path,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=_no_hub(folder),
            )
    except Exception as error:  # a spoilt config or weights file can raise anything
        raise ModelError(
            f"{path!r} cannot be loaded as a decoder: {_first_line(error)}",
            "give a folder with config.json and safetensors of a causal language model, a hub id, or a bundled one; "
            + nearest(path, models.names()),
        ) from error
    assert isinstance(model, PreTrainedModel)
    return model


def _no_hub(folder: Path) -> bool:
    """Whether the hub is not needed or not there. Without asking first, transformers tries again for half a minute."""
    if folder.is_dir():
        return True
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception:  # kinds of the HTTP library, which changes with the version of huggingface_hub
        return True
    return False


@contextmanager
def _progress_if_large(folder: Path) -> Iterator[None]:
    """transformers' progress bar is worth its place for what takes longer than a moment."""
    shown = logging.is_progress_bar_enabled()
    small = folder.is_dir() and sum(file.stat().st_size for file in folder.glob("*.safetensors")) < SMALL_BYTES
    if shown and small:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown and small:
            logging.enable_progress_bar()


def _check_layers(name: str, module: PreTrainedModel) -> None:
    config = module.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - LAYER_TYPES:
        raise ModelError(f"{name} has layers of kind {', '.join(sorted(kinds - LAYER_TYPES))}", _DECODERS)
    if getattr(module.config, "is_encoder_decoder", False) or not module.can_generate():
        raise ModelError(f"{name} ({type(module).__name__}) is not a decoder", _DECODERS)
    if any(getattr(layer, "is_causal", True) is False for layer in module.modules()):
        raise ModelError(f"{name} ({type(module).__name__}) attends in both directions", _DECODERS)


def _run_probe(module: PreTrainedModel, device: torch.device) -> _Probe:
    probe = _Probe()
    ids = torch.zeros(1, 2, dtype=torch.long, device=device)
    with torch.inference_mode():
        module(input_ids=ids, position_ids=torch.arange(2, device=device)[None], use_cache=False, sgnb=probe)
    layers = getattr(module.config.get_text_config(), "num_hidden_layers", len(probe.shapes))
    if len(probe.shapes) != layers:
        raise ValueError(f"{len(probe.shapes)} of {layers} layers use transformers' attention interface")
    return probe


def takes_logits_to_keep(module: PreTrainedModel) -> bool:
    return "logits_to_keep" in inspect.signature(module.forward).parameters


def _eos_token_ids(module: PreTrainedModel) -> frozenset[int]:
    found: set[int] = set()
    for config in (getattr(module, "generation_config", None), module.config, module.config.get_text_config()):
        eos = getattr(config, "eos_token_id", None)
        found.update(eos if isinstance(eos, (list, tuple)) else [] if eos is None else [eos])
    return frozenset(found)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def load_tokenizer(path: str) -> Any:
    """The tokenizer that lies beside a model, or None when there is none."""
    from transformers import AutoTokenizer

    folder = Path(path).expanduser()
    if folder.is_dir() and not any(
        (folder / name).exists()
        for name in ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json")
    ):
        return None
    try:
        return AutoTokenizer.from_pretrained(
            str(folder) if folder.is_dir() else path, trust_remote_code=False, local_files_only=_no_hub(folder)
        )
    except Exception as error:  # the tokenizers library raises plain ones
        raise ModelError(
            f"the tokenizer of {path!r} cannot be read: {_first_line(error)}",
            "give Engine(..., tokenizer=...) one that works",
        ) from error
