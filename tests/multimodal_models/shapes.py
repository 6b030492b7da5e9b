"""Small configurations of multimodal model types: rules by the name of a setting, applied to the
configuration's defaults."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from benchmarks.model_shapes import small_config

from .exceptions import EXCEPTIONS

Settings = dict[str, Any]

CONTEXT = 4096
SIDE = 6
"""Patches per side of a square image."""

WIDTHS = (4, 64), (6, 96)
"""Heads and hidden size of an encoder; the second unless a decoder has the first hidden size."""

LAYERS = 3

HIDDEN = "hidden_size", "embed_dim", "d_model", "hidden_dim", "patch_embed_hidden_size"
HEADS = (
    "num_attention_heads", "num_heads", "encoder_attention_heads", "attention_heads",
    "conf_num_attention_heads", "n_heads",
)  # fmt: skip
DEPTHS = (
    "num_hidden_layers", "depth", "encoder_layers", "n_layers", "num_layers", "num_blocks",
    "conf_num_hidden_layers",
)  # fmt: skip
INNER = "intermediate_size", "mlp_dim", "encoder_ffn_dim", "d_ff", "moe_intermediate_size"
DECODER_WIDTH = (
    "out_hidden_size", "output_dim", "text_hidden_size", "projection_dim", "adapter_out_dim",
    "projector_output_dim",
)  # fmt: skip
"""Settings of an encoder with the hidden size of the decoder."""

OTHER: Settings = {
    "window_size": 3, "max_source_positions": 50, "dim_head": 16,
    "head_dim": 16, "projector_hidden_size": 88, "alignment_intermediate_size": 88,
    "projection_intermediate_size": 88, "downsample_hidden_size": 24, "output_channels": 40,
    "num_local_experts": 4, "projection_hidden_dim": 88,
}  # fmt: skip
"""Settings of parts and of the whole model, with their values."""


def tiny_config(kind: str, vocab_size: int) -> PreTrainedConfig:
    """Return the configuration of a small model with `vocab_size` tokens."""
    default = CONFIG_MAPPING[kind]()
    text = _text_config(kind, default, vocab_size)
    return type(default)(**_composite(kind, default, default, text, ""))


def _text_config(kind: str, default: PreTrainedConfig, vocab_size: int) -> PreTrainedConfig:
    """Return the text decoder's configuration; sections of rotary axes fill its head."""
    model_type = default.get_text_config(decoder=True).model_type
    sizes = {
        "vocab_size": vocab_size, "vocab_size_per_layer_input": vocab_size,
        "max_position_embeddings": CONTEXT,
    }  # fmt: skip
    config = small_config(model_type, sizes=sizes | EXCEPTIONS[kind].text)
    axes = EXCEPTIONS[kind].axes or _rotary_axes(default)
    if axes > 0:
        rope = dict(config.rope_parameters or {"rope_type": "default", "rope_theta": 1e4})
        sizes = config.to_dict()
        head = (
            sizes.get("qk_rope_head_dim")
            or sizes.get("head_dim")
            or config.hidden_size // config.num_attention_heads
        )
        half = int(head * rope.get("partial_rotary_factor", 1.0)) // 2
        rest = [half // axes] * (axes - 1)
        config.rope_parameters = rope | {"mrope_section": [half - sum(rest), *rest]}
    return config


def _rotary_axes(default: PreTrainedConfig) -> int:
    """Return 3 if the source of the model's family reads `mrope_section`, otherwise 0."""
    text = default.get_text_config(decoder=True)
    name = type(text).__module__.replace(".configuration_", ".modeling_")
    __import__(name)
    return 3 if '"mrope_section"' in inspect.getsource(sys.modules[name]) else 0


def _composite(
    kind: str,
    root: PreTrainedConfig,
    config: PreTrainedConfig,
    text: PreTrainedConfig,
    path: str,
) -> Settings:
    """Return the settings of a configuration with parts."""
    is_text = config is root.get_text_config(decoder=True)
    settings: Settings = text.to_dict() if is_text else _plain(config)
    own = {} if is_text else _part(config, text, path)
    for name, part in vars(config).items():
        if not isinstance(part, PreTrainedConfig):
            continue
        inner = f"{path}.{name}" if path else name
        if part is root.get_text_config(decoder=True):
            settings[name] = text.to_dict()
        else:
            settings[name] = _composite(kind, root, part, text, inner)
    changes = EXCEPTIONS[kind].config.get(path, {})
    return settings | own | {k: v(text) if callable(v) else v for k, v in changes.items()}


def _plain(config: PreTrainedConfig) -> Settings:
    """Return the settings of a configuration without parts."""
    parts = {name for name, v in vars(config).items() if isinstance(v, PreTrainedConfig)}
    return {name: value for name, value in config.to_dict().items() if name not in parts}


def _part(config: PreTrainedConfig, text: PreTrainedConfig, path: str) -> Settings:
    """Return the shrunk settings of an encoder, or of the whole model's own settings."""
    width = getattr(text, "hidden_size", None) or text.d_model
    heads, hidden = next(pair for pair in WIDTHS if pair[1] != width)
    settings: Settings = {}
    for name, value in config.to_dict().items():
        new = _shrunk(name, value, config, width if path else None)
        if new is not None:
            settings[name] = new
    if path:
        settings |= {name: heads for name in HEADS if _is_count(config, name)}
        settings |= {name: hidden for name in HIDDEN if _is_count(config, name)}
        if _is_count(config, "num_key_value_heads"):
            groups = getattr(config, "num_attention_heads", 1) // config.num_key_value_heads
            settings["num_key_value_heads"] = heads // max(groups, 1)
    else:
        settings["tie_word_embeddings"] = False
        settings |= {name: width for name in HIDDEN if _is_count(config, name)}
        settings |= {name: width for name in DECODER_WIDTH if _is_count(config, name)}
    return settings


def _is_count(config: PreTrainedConfig, name: str) -> bool:
    return type(vars(config).get(name)) is int


def _shrunk(name: str, value: Any, config: PreTrainedConfig, decoder_width: int | None) -> Any:
    """Return the small value of a setting, or None."""
    if name in ("layer_types", "mlp_layer_types") and isinstance(value, list | tuple):
        kinds = list(dict.fromkeys(value))
        return [kinds[i % len(kinds)] for i in range(LAYERS)]
    if name == "window_size" and type(value) is int and value > 50:  # pixels
        return 4 * config.patch_size
    if type(value) is int:
        if name in DEPTHS:
            return min(value, LAYERS)
        if name in INNER:
            return 72
        if name in DECODER_WIDTH and decoder_width:
            return decoder_width
        if name in OTHER:
            return min(value, OTHER[name])
    if name == "image_size":
        return _image_size(value, config)
    if name.endswith(("fullatt_block_indexes", "global_attn_indexes")):
        return [1]
    if name == "deepstack_visual_indexes":
        return [0, 1, 2][: len(value)]
    return None


def _image_size(value: Any, config: PreTrainedConfig) -> Any:
    patch = getattr(config, "patch_size", None)
    if patch is None:
        return None
    if isinstance(value, list | tuple):
        return [SIDE * p for p in (patch if isinstance(patch, list | tuple) else [patch] * 2)]
    return SIDE * (patch if isinstance(patch, int) else patch[0])
