"""Small configurations of every causal model type. No two drawn sizes are equal by chance, because
equal sizes hide code that confuses them. Knows transformers' configurations; builds no model.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from .model_settings import CONSTANTS, CONTEXT, NAMES, SPECIAL, VOCAB, Settings, Sizes

DRAWS = 3
"""Shapes per model type."""

MOST_DRAWS = 8
"""Shapes that tell equal sizes by chance from sizes that an architecture ties."""

FOUR_DRAWS = (
    "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "gemma4", "gemma4_text",
    "gemma4_unified", "gemma4_unified_text",
)  # fmt: skip
"""Model types with a fourth shape."""

NO_SIZES = (
    "_id", "_ids", "_index", "_factor", "_scale", "_period", "_offset", "_interval", "_layers_n",
    "_pattern", "_ratio", "_window_layers", "_scalar", "seed", "expand", "_shared_layers",
    "_n_top", "_res_block", "mask_time_length", "mask_feature_length",
)  # fmt: skip
"""Endings of integer settings without a tensor dimension."""

NO_PARTS = "rope", "vision", "audio"
"""Parts without sizes of the text decoder, next to whole models."""

MOST_COUNT = 4
"""Smaller integers count parts (groups, shared experts, factors): families fix many of them."""

LAYER_KINDS = "layer_types", "layers_block_type"
"""Settings with the kind of each layer."""

OPTIONAL = "head_dim", "num_key_value_heads", "n_inner", "use_sliding_window", "is_decoder"
"""Settings that a configuration may reject, in the order in which they are left out."""

ATTEMPTS = 20_000
"""Draws of a shape before the draw gives up; about one in a hundred succeeds."""

PRODUCTS = (
    ("num_attention_heads", "head_dim"), ("num_key_value_heads", "head_dim"),
    ("num_attention_heads", "v_head_dim"), ("linear_num_key_heads", "linear_key_head_dim"),
    ("linear_num_value_heads", "linear_value_head_dim"),
    ("linear_num_heads", "linear_head_dim"), ("mamba_n_heads", "mamba_d_head"),
    ("mamba_num_heads", "mamba_head_dim"),
)  # fmt: skip
"""Settings with the sizes of a projection as their product."""

Pairs = set[tuple[str, str]]

_SIZE_OF = {setting: size for size, settings in NAMES.items() for setting in settings}


def num_draws(name: str) -> int:
    """Return the number of shapes of a model type."""
    return DRAWS + (name in FOUR_DRAWS)


def small_config(
    name: str, draw: int = 0, rope: Settings | None = None, sizes: Settings | None = None
) -> PreTrainedConfig:
    """Return the configuration of a small model.

    Args:
        name: model type of transformers.
        draw: number of the shape, from 0.
        rope: `rope_parameters` of the model.
        sizes: settings by transformers' names that replace drawn ones.

    Raises:
        KeyError: transformers has no such model type.
        Exception: the error of the configuration if no subset of the settings is valid.
    """
    default = CONFIG_MAPPING[name]()
    seed = f"{name} {draw}"
    # A first shape shows the integers that no draw changes.
    unchanged = (
        sizes_of(default).items()
        & sizes_of(_config(default, draw_sizes(seed, set()), draw, rope, sizes)).items()
    )
    drawn = draw_sizes(seed, {size for _, size in unchanged})
    return _config(default, drawn, draw, rope, sizes)


def _config(
    default: PreTrainedConfig,
    drawn: Sizes,
    draw: int,
    rope: Settings | None,
    sizes: Settings | None,
) -> PreTrainedConfig:
    kind = type(default)
    settings: Settings = {}
    for key in getattr(kind, "sub_configs", {}):
        part = getattr(default, key, None)
        if part is not None:
            is_text = "vision" not in key and "audio" not in key
            small = _settings(part, drawn, draw, sizes) if is_text else {}
            settings[key] = {"model_type": part.model_type} | small
    settings |= _settings(default, drawn, draw, sizes)
    if rope:
        settings["rope_parameters"] = rope
    for left_out in (None, *OPTIONAL):
        settings.pop(left_out, None)
        try:
            return kind(**settings)
        except Exception as error:  # checks of configurations raise errors of many types
            failure = error
    raise failure


def _settings(
    default: PreTrainedConfig, drawn: Sizes, draw: int, replaced: Settings | None
) -> Settings:
    """Return the settings that the configuration knows."""
    settings = CONSTANTS | {name: drawn[size] for name, size in _SIZE_OF.items()}
    aliases = default.attribute_map.items()  # Bart's number of layers is the encoder's
    known = {*default.to_dict(), *(name for name, target in aliases if target not in settings)}
    for name in LAYER_KINDS:
        settings[name] = _layer_kinds(getattr(default, name, None), drawn["layers"])
    settings |= replaced or {}
    if "kv_lora_rank" in known:  # each head has keys
        settings["num_key_value_heads"] = settings["num_attention_heads"]
        del settings["head_dim"]
    special = SPECIAL.get(default.model_type, lambda sizes, draw: {})(drawn, draw)
    known_settings = {name: value for name, value in settings.items() if name in known}
    return {k: v for k, v in (known_settings | special).items() if v is not ...}


def _layer_kinds(default: Any, layers: int) -> Any:
    """Return every kind of layer in turns, with the last kind of the default at the end."""
    kinds = list(dict.fromkeys(default or ()))
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        return ...
    start = kinds.index(default[-1]) + 1 - layers
    return [kinds[(start + i) % len(kinds)] for i in range(layers)]


def draw_sizes(seed: str, taken: set[int]) -> Sizes:
    """Draw distinct sizes outside `taken`. Raises ValueError after `ATTEMPTS` draws."""
    for attempt in range(ATTEMPTS):
        if sizes := _draw(random.Random(f"{seed} {attempt}"), taken):
            return sizes
    raise ValueError(f"no distinct sizes for {seed!r} next to {sorted(taken)}")


CHOICES: dict[str, Callable[[Sizes], Iterable[int]]] = {
    "context": lambda s: range(CONTEXT - 12, CONTEXT + 12, 2),
    "kv_heads": lambda s: (2, 3, 4, 5, 7),
    "heads": lambda s: (2 * s["kv_heads"], 3 * s["kv_heads"]),
    "hidden": lambda s: (8 * s["heads"], 16 * s["heads"]),
    "hidden per head": lambda s: (s["hidden"] // s["heads"],),
    "hidden per KV head": lambda s: (s["hidden per head"] * s["kv_heads"],),
    "head_dim": lambda s: (16, 24, 32, 40),
    "queries": lambda s: (s["heads"] * s["head_dim"],),
    "keys": lambda s: (s["kv_heads"] * s["head_dim"],),
    "global head_dim": lambda s: (2 * s["head_dim"],),
    "global queries": lambda s: (2 * s["queries"],),
    "mamba": lambda s: (2 * s["hidden"],),
    "chosen": lambda s: (2, 3),
    "layers": lambda s: (4, 6, 8),
    "kernel": lambda s: range(2, 6),
    "mamba_groups": lambda s: range(2, 12),
    "mamba_heads": lambda s: _mamba_heads(s),
    "mamba per head": lambda s: (s["mamba"] // s["mamba_heads"],),
    "linear_key_heads": lambda s: range(2, 12),
    "linear_value_heads": lambda s: (2 * s["linear_key_heads"], 3 * s["linear_key_heads"]),
    "linear_key_dim": lambda s: range(8, 30, 2),
    "linear_value_dim": lambda s: range(8, 30, 2),
    "linear keys": lambda s: (s["linear_key_heads"] * s["linear_key_dim"],),
    "linear values": lambda s: (s["linear_value_heads"] * s["linear_value_dim"],),
    "rotary_dim": lambda s: (8, 10, 12, 14, 16),
    "plain_dim": lambda s: range(8, 40, 2),
    "value_dim": lambda s: range(8, 40, 2),
    "latent head": lambda s: (s["rotary_dim"] + s["plain_dim"],),
    "latent values": lambda s: (s["heads"] * s["value_dim"],),
    "experts": lambda s: range(5, 14),
    # With fewer layers in the encoder, transformers' generate has no cache for the last layers.
    "encoder_layers": lambda s: range(s["layers"] + 1, s["layers"] + 12),
    "encoder_heads": lambda s: range(8, 30),
    "window": lambda s: range(9, 24),
    "chunk": lambda s: range(8, 24),
    "state": lambda s: range(8, 34),
    "kv_rank": lambda s: range(12, 48, 2),
    "q_rank": lambda s: range(12, 48, 2),
    "layer_width": lambda s: range(8, 48, 2),
    "index_heads": lambda s: range(3, 30),
    "index_dim": lambda s: range(20, 60, 2),
    "time_rank": lambda s: range(8, 60),
    "router": lambda s: range(12, 60, 2),
    "expert_inner": lambda s: range(20, 80, 4),
    "shared_inner": lambda s: range(20, 80, 4),
    "embedding": lambda s: range(30, 90, 4),
    "vocab": lambda s: range(VOCAB, 160),
    "inner": lambda s: range(100, 200, 4),
    "encoder_inner": lambda s: range(100, 200, 4),
}
"""Values of each size, from sizes before it. Names with a space are widths that follow from
sizes."""


def _draw(rng: random.Random, taken: set[int]) -> Sizes:
    """Draw distinct sizes in the order of `CHOICES`; return none if a size has no choice left."""
    sizes: Sizes = {}
    for size, choices in CHOICES.items():
        used = taken | set(sizes.values())
        left = [value for value in choices(sizes) if value not in used]
        if not left:
            return {}
        sizes[size] = rng.choice(left)
    return sizes


def _mamba_heads(sizes: Sizes) -> list[int]:
    groups, inner = sizes["mamba_groups"], sizes["mamba"]
    return [heads for heads in range(2 * groups, inner // 4, groups) if inner % heads == 0]


def sizes_of(config: PreTrainedConfig) -> Sizes:
    """Return the sizes over `MOST_COUNT` in a text configuration, and the products of
    `PRODUCTS`."""
    sizes = dict(_flat(config.get_text_config(decoder=True).to_dict(), ""))
    products = {
        f"{first} x {second}": sizes[first] * sizes[second]
        for first, second in PRODUCTS
        if first in sizes and second in sizes
    }
    return {name: size for name, size in (sizes | products).items() if size > MOST_COUNT}


def _flat(settings: Settings, path: str) -> Iterator[tuple[str, int]]:
    for key, value in settings.items():
        name = str(key)
        if isinstance(value, dict):
            if "num_hidden_layers" in value or any(part in name for part in NO_PARTS):
                continue
            yield from _flat(value, path if name.isdigit() else f"{path}{name}.")
        elif type(value) is int and not name.endswith(NO_SIZES):
            yield f"{path}{name}", value


def equal_sizes(config: PreTrainedConfig) -> Pairs:
    """Return the pairs of equal sizes."""
    pairs = itertools.combinations(sorted(sizes_of(config).items()), 2)
    return {(first, second) for (first, a), (second, b) in pairs if a == b}


def is_tie(name: str, pair: tuple[str, str]) -> bool:
    """Return whether an architecture makes two sizes equal: they are equal in every shape, and vary
    between shapes."""
    values = set()
    for draw in range(MOST_DRAWS):
        sizes = sizes_of(small_config(name, draw))
        if sizes.get(pair[0]) != sizes.get(pair[1]):
            return False
        values.add(sizes.get(pair[0]))
    return len(values) > 1


def chance_pairs(name: str, config: PreTrainedConfig) -> Pairs:
    """Return the pairs of sizes in a configuration of the model type that are equal by chance."""
    return {pair for pair in equal_sizes(config) if not is_tie(name, pair)}
