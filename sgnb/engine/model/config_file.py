"""Reading and checks of a model's `config.json`, before transformers builds the model."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig

from ...errors import ModelError, shown

NAME = "config.json"
MAX_LAYERS = 2000
LAYER_COUNTS = {"num_hidden_layers", "num_layers", "n_layer", "n_layers"}

_COPY_HINT = "download or copy config.json again"


def read_config(folder: Path) -> Any:
    """Return the transformers config of a folder.

    Raises:
        ModelError: `config.json` is missing or damaged, or names a model type, dtype, number of
            layers or context length that cannot be loaded.
    """
    file = folder / NAME
    if not file.is_file():
        hint = "give the folder of a causal language model"
        raise ModelError(f"{str(folder)!r} has no {NAME}", hint)
    try:
        settings = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{str(file)!r} is not valid JSON: {error}", _COPY_HINT) from error
    if not isinstance(settings, dict):
        kind = type(settings).__name__
        raise ModelError(f"{str(file)!r} holds a {kind} instead of an object", _COPY_HINT)

    _check_type(file, settings)
    _check_dtype(file, settings)
    _check_depth(file, settings)
    quantization = settings.get("quantization_config")
    if quantization and not isinstance(quantization, dict):
        raise ModelError(
            f"{str(file)!r} has a quantization_config without quant_method: {shown(quantization)}",
            "give the config.json that was saved with the quantized weights",
        )
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    check_positions(str(file), config)
    return config


def check_positions(source: str, config: Any) -> None:
    """Raise ModelError if the config names a context without a position. A computed limit of -1
    means an unlimited context, as in XLNet's config class."""
    config = config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    is_computed = isinstance(getattr(type(config), "max_position_embeddings", None), property)
    is_unlimited = is_computed and limit == -1
    if isinstance(limit, int) and limit <= 0 and not is_unlimited:
        raise ModelError(
            f"max_position_embeddings={limit} of {source!r} is not a valid context length: "
            "a model has at least one position",
            "correct max_position_embeddings",
        )


def _check_type(file: Path, settings: dict[str, Any]) -> None:
    name = settings.get("model_type")
    if name is None or name in CONFIG_MAPPING:
        return
    if settings.get("auto_map"):
        raise ModelError(
            f"{str(file)!r} needs code of the repository (auto_map), which sgnb does not run",
            f"give a model of a type that transformers {transformers.__version__} has",
        )

    close = difflib.get_close_matches(str(name), CONFIG_MAPPING, n=1)
    similar = f"; did you mean {close[0]!r}?" if close else ""
    raise ModelError(
        f"{str(file)!r} has model_type {shown(name)}, which transformers "
        f"{transformers.__version__} does not have",
        f"install a newer transformers, or correct model_type{similar}",
    )


def _check_dtype(file: Path, settings: dict[str, Any]) -> None:
    for key in ("dtype", "torch_dtype"):
        name = settings.get(key)
        if not isinstance(name, str) or name == "auto":
            continue
        if not isinstance(getattr(torch, name.removeprefix("torch."), None), torch.dtype):
            raise ModelError(
                f"{str(file)!r} has {key} {shown(name)}, which torch does not have",
                "use bfloat16, float16 or float32",
            )


def _check_depth(file: Path, settings: dict[str, Any]) -> None:
    """Refuse a number of layers too large to construct."""
    text = settings.get("text_config")
    for part in (settings, text if isinstance(text, dict) else {}):
        for key in LAYER_COUNTS & part.keys():
            if isinstance(part[key], int) and part[key] > MAX_LAYERS:
                raise ModelError(
                    f"{str(file)!r} asks for {part[key]:,} layers",
                    f"sgnb builds at most {MAX_LAYERS:,}; correct {key}",
                )
