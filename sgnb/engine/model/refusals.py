"""Models that sgnb refuses, by their configuration or after a failed check."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from ...errors import ModelError, first_line
from ..device.faults import is_out_of_memory
from .layer_probe import STATELESS_TYPES
from .shared_model import ModelSetup

ATTENTION_TYPES = {"full_attention", "sliding_attention"}
STATE_TYPES = {"linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "recurrent"}
CHUNKS = {"chunked_attention"}


def model_title(name: str, module: PreTrainedModel) -> str:
    """Return the name, with the family if different."""
    family = type(module).__name__
    return name if name == family else f"{name} ({family})"


def refusal(name: str, module: PreTrainedModel, error: Exception) -> Exception:
    """Return the error for a refused model. Out of memory does not blame the model."""
    if is_out_of_memory(error):
        return error
    return ModelError(
        f"{model_title(name, module)} cannot use sgnb's attention: {first_line(error)}", _DECODERS
    )


_DECODERS = (
    "sgnb runs decoders whose layers keep keys and values, such as Llama, Qwen 3, Mistral, Gemma, "
    "Mixtral or DeepSeek V3, or states in transformers' cache, such as Qwen 3 Next, Mamba, Falcon "
    "H1 or LFM2; others generate with transformers: model.generate(...)"
)


def check_options(name: str, module: PreTrainedModel, setup: ModelSetup, recurrent: bool) -> None:
    """Refuse options unsupported by recurrent layers."""
    for option, asked in (("compile", setup.compile), ("deterministic", setup.deterministic)):
        if recurrent and asked:
            raise ModelError(
                f"{model_title(name, module)} has recurrent layers, which {option}=True does not"
                " support",
                f"load without {option}",
            )


def check_layers(name: str, module: PreTrainedModel) -> None:
    """Refuse unsupported configurations early."""
    config, who = module.config.get_text_config(), model_title(name, module)
    supported = ATTENTION_TYPES | STATE_TYPES | STATELESS_TYPES
    unknown = set(getattr(config, "layer_types", None) or ()) - supported
    kinds = f"layers of kind {', '.join(sorted(unknown))}"
    if getattr(config, "num_hidden_layers", 1) < 1:
        raise ModelError(f"{who} has no layers", _DECODERS)

    if unknown == CHUNKS:
        raise ModelError(
            f"{who} uses chunked attention ({kinds}); sgnb supports full attention and "
            "sliding windows",
            _DECODERS,
        )
    if unknown:
        raise ModelError(
            f"{who} uses sparse attention ({kinds}); sgnb supports full attention and "
            "sliding windows",
            _DECODERS,
        )
    if _has_alibi(config):
        raise ModelError(
            f"{who} uses ALiBi position biases, which sgnb does not support",
            _DECODERS,
        )
    if getattr(module.config, "is_encoder_decoder", False) or not module.can_generate():
        raise ModelError(f"{who} is not a decoder of text alone", _DECODERS)


def _has_alibi(config: Any) -> bool:
    inner = getattr(config, "attn_config", None)
    return config.model_type == "bloom" or any(getattr(c, "alibi", False) for c in (config, inner))
