"""Checks of a finished load: every tensor of the model has a stored value, and no stored layer or
scale is unused."""

from __future__ import annotations

import re
from typing import Any

import torch
from transformers import PreTrainedModel

from ...errors import ModelError
from .checkpoint import Checkpoint

Report = dict[str, Any]
"""Missing, unexpected and mismatched tensors in transformers' format."""

WEIGHT_SCALE = re.compile(
    r"(?!(input|output|activation|prob|q|k|v)_)"  # excludes scales of activations
    r"\w*(scale|zero|absmax|quant_map|quant_state|SCB|g_idx)\w*"
)
"""Names of tensors required to interpret a quantized weight."""

LAYER = re.compile(r"(.+?)\.(\d+)\.")
"""Name of a tensor in a list of layers: name of the list, index of the layer."""


def check_report(
    path: str, checkpoint: Checkpoint, module: PreTrainedModel, report: Report
) -> None:
    """Raise ModelError for missing tensors, different shapes, unused layers, and unused scales of
    quantized weights."""
    mismatched = sorted(report["mismatched_keys"])
    if mismatched:
        name, saved, wanted = mismatched[0]
        more = f", and so on for {len(mismatched) - 1} more" if len(mismatched) > 1 else ""
        raise ModelError(
            f"{path!r} cannot be loaded: {name} has shape {list(saved)} in its checkpoint and "
            f"{list(wanted)} by its config.json{more}",
            "give a checkpoint with its own config.json",
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{path!r} cannot be loaded: its checkpoint has no {_listed(missing)}, which would "
            "have random values",
            "give the whole checkpoint of a causal language model, with its own config",
        )

    unexpected = set(report["unexpected_keys"])
    _check_depth(path, module, unexpected)
    used = {*checkpoint.entries, *module.state_dict()} - unexpected
    parents = {name.rpartition(".")[0] for name in used}
    split = ((name, *name.rpartition(".")[::2]) for name in sorted(unexpected))
    scales = [
        name for name, parent, leaf in split if parent in parents and WEIGHT_SCALE.fullmatch(leaf)
    ]
    if scales:
        raise ModelError(
            f"{path!r} cannot be loaded: its config.json does not use {_listed(scales)}, which "
            "quantized weights need",
            "give the config.json, with its quantization_config, that was saved with the weights",
        )


def _check_depth(path: str, module: PreTrainedModel, unexpected: set[str]) -> None:
    """Raise ModelError for a checkpoint with more layers than the model. Layers for multi-token
    prediction, stored after the model's layers, may be unused."""
    lists = {
        name: len(part)
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.ModuleList)
    }
    ends = dict(lists)
    for name, index in (match.groups() for match in map(LAYER.match, unexpected) if match):
        if name in lists:
            ends[name] = max(ends[name], int(index) + 1)

    num_draft_layers = getattr(module.config, "num_nextn_predict_layers", None) or 0
    for name, count in lists.items():
        if ends[name] > count + num_draft_layers:
            raise ModelError(
                f"{path!r} cannot be loaded: its checkpoint has {ends[name]} layers ({name}), and "
                f"its config.json {count}",
                "give the config.json that was saved with the weights, or correct the number of "
                "layers in config.json (num_hidden_layers in most models)",
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
