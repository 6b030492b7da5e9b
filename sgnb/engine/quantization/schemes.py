"""Storage schemes of quantized checkpoints as data: config entries, names of tensors, unpacking.

A scheme maps the tensors of a matrix in a checkpoint to a `PackedWeight`. Recorded scales of
activations are unused: rounded activations have a scale per row, computed in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import ModelError, nearest, shown
from . import unpacking
from .packed import PackedWeight

Pack = Callable[[dict[str, Tensor], tuple[int, ...]], PackedWeight]
"""(tensors by role, shape [N, K] or [E, N, K] of the matrix) -> the matrix. ValueError for tensors
that do not fit. On the meta device, the result has shapes and dtypes only."""


class Scheme(NamedTuple):
    """Storage of one quantized matrix in a checkpoint."""

    name: str  # for messages.
    roles: Mapping[str, tuple[str, ...]]  # role -> endings of names, the first present counts.
    required: frozenset[str]  # roles without which a matrix cannot be decoded.
    stored: frozenset[torch.dtype]  # dtypes of a quantized tensor of role "values".
    dense: str  # ending of the unquantized tensor's name.
    pack: Pack
    unused: tuple[str, ...] = ()  # endings of scales of activations.
    in_model_layout: bool = False  # dense values, as transformers arranges the matrices of experts.


UNUSED = (".input_scale", ".output_scale", ".activation_scale", ".k_scale", ".v_scale")
"""Endings of recorded scales of activations."""

METHODS_HINT = (
    "give a checkpoint in awq, gptq, compressed-tensors (int4 or fp8), fp8 or mxfp4, or a bfloat16 "
    'checkpoint with quantize="int4" or quantize="fp8"'
)


def read_scheme(settings: Any, source: str) -> Scheme:
    """Return the scheme of a `quantization_config`. source: name of the file, for messages.

    Raises:
        ModelError: The format, or an entry of the config, is not supported.
    """
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    if isinstance(settings, dict) and (
        settings.get("load_in_4bit") or settings.get("load_in_8bit")
    ):
        method = "bitsandbytes"
    if method is None:
        raise ModelError(
            f"{source} has a quantization_config without quant_method: {shown(settings)}",
            "give the config.json that was saved with the quantized weights",
        )
    if method not in METHODS:
        raise ModelError(
            f"{source} has quant_method {shown(method)}, which sgnb does not support",
            f"{METHODS_HINT}; {nearest(str(method), METHODS)}",
        )
    try:
        return METHODS[method](settings)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ModelError(
            f"{source} has a quantization_config of {method} that sgnb does not support: {error}",
            METHODS_HINT,
        ) from error


def _require(settings: Mapping[str, Any], key: str, *supported: Any, default: Any = None) -> None:
    """Raise ValueError if the entry `key` has a value that is not supported."""
    value = settings.get(key, default)
    if value not in supported:
        listed = " or ".join(map(repr, supported))
        raise ValueError(f"{key} is {shown(value)}, and sgnb supports {listed}")


def _group(size: Any) -> int | None:
    """Return columns per scale, None for the whole row. ValueError for an invalid size."""
    if size in (None, -1):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"group_size is {shown(size)}, not a positive number or -1")
    return size


def _awq(settings: Mapping[str, Any]) -> Scheme:
    _require(settings, "bits", 4, default=settings.get("w_bit"))
    _require(settings, "version", "gemm", "GEMM", default="gemm")
    group = _group(settings.get("group_size", settings.get("q_group_size")))
    zero_point = bool(settings.get("zero_point", True))
    return Scheme(
        name=f"AWQ int4 in groups of {group or 'a row'}",
        roles={"values": (".qweight",), "scales": (".scales",), "zeros": (".qzeros",)},
        required=frozenset({"values", "scales", *(["zeros"] if zero_point else [])}),
        stored=frozenset({torch.int32}),
        dense=".weight",
        pack=partial(unpacking.awq, group=group),
    )


def _gptq(settings: Mapping[str, Any]) -> Scheme:
    _require(settings, "bits", 4)
    version = settings.get("checkpoint_format", settings.get("format")) or "gptq"
    if version not in ("gptq", "gptq_v2"):
        raise ValueError(f"checkpoint_format is {shown(version)}, not 'gptq' or 'gptq_v2'")
    group = _group(settings.get("group_size"))
    ordered = bool(settings.get("desc_act", False))
    roles = {"values": (".qweight",), "scales": (".scales",), "zeros": (".qzeros",)}
    return Scheme(
        name=f"GPTQ int4 in groups of {group or 'a row'}{' with act-order' if ordered else ''}",
        roles=roles | {"groups": (".g_idx",)},
        required=frozenset({"values", "scales", "zeros", *(["groups"] if ordered else [])}),
        stored=frozenset({torch.int32}),
        dense=".weight",
        pack=partial(
            unpacking.gptq, group=group, ordered=ordered, added=1 if version == "gptq" else 0
        ),
    )


def _fp8(settings: Mapping[str, Any]) -> Scheme:
    _require(settings, "expert_dtype", "fp8", None)
    block = settings.get("weight_block_size")
    return _fp8_scheme(
        None if block is None else _block(block),
        (".weight_scale_inv",) if block else (".weight_scale", ".weight_scale_inv"),
        fp8_inputs=True,
    )


def _block(size: Any) -> tuple[int, int]:
    numbers = list(size)
    if len(numbers) != 2 or any(not isinstance(n, int) or n < 1 for n in numbers):
        raise ValueError(f"the block size is {shown(size)}, not two positive numbers")
    return numbers[0], numbers[1]


def _fp8_scheme(
    block: tuple[int, int] | None, scales: tuple[str, ...], *, fp8_inputs: bool
) -> Scheme:
    return Scheme(
        name="FP8" if block is None else f"FP8 in blocks of {block[0]} x {block[1]}",
        roles={"values": (".weight",), "scales": scales},
        required=frozenset({"values", "scales"}),
        stored=frozenset({torch.float8_e4m3fn}),
        dense=".weight",
        pack=partial(unpacking.fp8, block=block, fp8_inputs=fp8_inputs),
        unused=UNUSED,
    )


def _compressed_tensors(settings: Mapping[str, Any]) -> Scheme:
    groups = list((settings.get("config_groups") or {}).values())
    weights = [group.get("weights") for group in groups]
    if not weights or weights[0] is None or any(other != weights[0] for other in weights):
        raise ValueError("config_groups does not describe one format of weights")
    formats = {group.get("format") or settings.get("format") for group in groups}
    sparsity = settings.get("sparsity_config") or {}
    _require(sparsity, "format", "dense", None)
    name = formats.pop() if len(formats) == 1 else sorted(map(str, formats))
    if name == "pack-quantized":
        return _compressed_int4(weights[0])
    if name in ("float-quantized", "naive-quantized"):
        inputs = [group.get("input_activations") for group in groups]
        return _compressed_fp8(weights[0], fp8_inputs=all(inputs))
    raise ValueError(
        f"format is {shown(name)}, and sgnb supports 'pack-quantized', 'float-quantized' or "
        "'naive-quantized'"
    )


def _compressed_int4(weights: Mapping[str, Any]) -> Scheme:
    _require(weights, "num_bits", 4)
    _require(weights, "type", "int", default="int")
    _require(weights, "strategy", "group", "channel")
    group = _group(weights.get("group_size")) if weights["strategy"] == "group" else None
    ordered = weights.get("actorder") == "group"
    symmetric = bool(weights.get("symmetric", True))
    required = {"values", "scales", *([] if symmetric else ["zeros"])}
    return Scheme(
        name=f"compressed-tensors int4 in groups of {group or 'a row'}",
        roles={
            "values": (".weight_packed",),
            "scales": (".weight_scale",),
            "zeros": (".weight_zero_point",),
            "groups": (".weight_g_idx",),
            "shape": (".weight_shape",),
        },
        required=frozenset({*required, *(["groups"] if ordered else [])}),
        stored=frozenset({torch.int32}),
        dense=".weight",
        pack=partial(unpacking.compressed_int4, group=group, ordered=ordered),
        unused=UNUSED,
    )


def _compressed_fp8(weights: Mapping[str, Any], *, fp8_inputs: bool) -> Scheme:
    _require(weights, "num_bits", 8)
    _require(weights, "type", "float")
    _require(weights, "strategy", "tensor", "channel", "block")
    block = _block(weights.get("block_structure")) if weights["strategy"] == "block" else None
    return _fp8_scheme(block, (".weight_scale",), fp8_inputs=fp8_inputs)


def _mxfp4(settings: Mapping[str, Any]) -> Scheme:
    return Scheme(
        name="MXFP4",
        roles={"values": ("_blocks",), "scales": ("_scales",)},
        required=frozenset({"values", "scales"}),
        stored=frozenset({torch.uint8}),
        dense="",
        pack=unpacking.mxfp4,
    )


METHODS: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "awq": _awq,
    "gptq": _gptq,
    "compressed-tensors": _compressed_tensors,
    "fp8": _fp8,
    "mxfp4": _mxfp4,
}
"""quant_method of a config -> reader of the config."""
