"""Processors of multimodal model types, built without files: a small tokenizer, an image processor,
a video processor and a feature extractor with the sizes of a small model."""

from __future__ import annotations

import inspect
from typing import Any

import transformers
from transformers import PreTrainedConfig, PreTrainedTokenizerFast, ProcessorMixin
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES
from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

from .exceptions import EXCEPTIONS
from .shapes import SIDE
from .vocabulary import tokenizer_for

Settings = dict[str, Any]

AREA = 2000
"""Edges of at least this size are areas in pixels."""

COPIED = {
    "patch_size": ("patch_size",), "temporal_patch_size": ("temporal_patch_size",),
    "merge_size": ("spatial_merge_size", "merge_size"),
    "image_seq_length": ("image_seq_length",),
    "downsample_factor": ("downsample_factor",), "spatial_merge_size": ("spatial_merge_size",),
    "pooling_kernel_size": ("pooling_kernel_size",),
    "vision_feature_select_strategy": ("vision_feature_select_strategy",),
    "image_grid_pinpoints": ("image_grid_pinpoints",),
    "num_query_tokens": ("num_query_tokens",), "encoder_patch_size": ("patch_size",),
}  # fmt: skip
"""Setting of a processor -> settings of the model with the same meaning."""


def processor_class(kind: str) -> type[ProcessorMixin]:
    name = EXCEPTIONS[kind].processor or PROCESSOR_MAPPING_NAMES.get(kind)
    if not name:
        raise ValueError(f"transformers has no processor for {kind!r}. Name one in EXCEPTIONS.")
    found: type[ProcessorMixin] = getattr(transformers, name)
    return found


def build_processor(
    kind: str, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig | None
) -> ProcessorMixin:
    """Return the processor of a type, with the sizes of `config`, or with defaults."""
    owner = processor_class(kind)
    parts: Settings = {}
    for name in owner.get_attributes():
        if name.endswith("tokenizer"):
            parts[name] = tokenizer
        else:
            parts[name] = _part(kind, name, config)
    accepted = set(inspect.signature(owner.__init__).parameters)
    numbers = {name: value for name, value in _copied(config).items() if name in accepted}
    arguments = EXCEPTIONS[kind].arguments if config is not None else {}
    processor = owner(**parts | numbers | arguments)
    for name, value in EXCEPTIONS[kind].attributes.items():
        setattr(processor, name, value)
    return processor


def _part(kind: str, name: str, config: PreTrainedConfig | None) -> Any:
    """Return the image processor, video processor or feature extractor."""
    exceptions = EXCEPTIONS[kind]
    table, replaced, changes = {
        "image_processor": (
            IMAGE_PROCESSOR_MAPPING_NAMES, exceptions.image_processor, exceptions.image
        ),
        "video_processor": (
            VIDEO_PROCESSOR_MAPPING_NAMES, exceptions.video_processor, exceptions.video
        ),
    }.get(
        name, (FEATURE_EXTRACTOR_MAPPING_NAMES, exceptions.feature_extractor, exceptions.audio)
    )  # fmt: skip
    entry = table.get(kind)
    if isinstance(entry, dict):
        entry = entry.get("pil") or entry.get("torchvision")
    owner = getattr(transformers, replaced or entry or f"missing {name}")
    if config is None:
        return owner(**{key: value for key, value in changes.items() if "font" in key})
    default = owner(**changes)
    settings = _copied(config) | _sizes(default, config, is_video="video" in name)
    if "video" in name:
        settings |= {"do_sample_frames": False, "return_metadata": True}
    known = {key: v for key, v in settings.items() if getattr(default, key, None) is not None}
    return owner(**known | changes)


def encoder_config(config: PreTrainedConfig) -> PreTrainedConfig | None:
    """Return the configuration of the vision encoder."""
    inner = getattr(config, "thinker_config", config)
    vision = getattr(inner, "vision_config", None) or getattr(inner, "vq_config", None)
    return getattr(vision, "sam_config", vision)


def _copied(config: PreTrainedConfig | None) -> Settings:
    if config is None:
        return {}
    settings: Settings = {}
    for owner in (config, encoder_config(config)):
        for name, sources in COPIED.items():
            for source in sources:
                value = getattr(owner, source, None)
                if value is not None:
                    is_pair = isinstance(value, list | tuple) and name != "image_grid_pinpoints"
                    settings[name] = value[0] if is_pair else value
    inner = getattr(config, "thinker_config", config)
    bands = getattr(getattr(inner, "audio_config", None), "num_mel_bins", None)
    return settings | ({"feature_size": bands, "chunk_length": 1} if bands else {})


def _sizes(default: Any, config: PreTrainedConfig, is_video: bool) -> Settings:
    """Return the sizes of pictures that fit the small encoder."""
    encoder = encoder_config(config)
    if encoder is None:
        return {}
    patch = getattr(encoder, "patch_size", None) or 16
    patch = patch if isinstance(patch, int) else patch[0]
    edge = getattr(encoder, "image_size", None) or SIDE * patch
    edge = edge if isinstance(edge, int) else edge[0]
    settings: Settings = {}
    for name in ("size", "crop_size", "max_image_size", "high_res_size"):
        value = getattr(default, name, None)
        if value is not None and not isinstance(value, int):
            settings[name] = _size(dict(value), patch, edge, is_video)
    if isinstance(getattr(default, "patch_size", None), dict):
        settings["patch_size"] = {"height": patch, "width": patch}
    return settings


def _size(size: Settings, patch: int, edge: int, is_video: bool) -> Settings:
    values = {key: value for key, value in size.items() if value}
    largest = max(values.values())
    if largest < AREA:
        return dict.fromkeys(values, edge)
    most = (4 * 2 * patch) ** 2 * (4 if is_video else 1)
    least = (2 * 2 * patch) ** 2
    return {key: least if key in ("shortest_edge", "min_pixels") else most for key in values}


def new_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    return tokenizer_for(processor_class(kind), EXCEPTIONS[kind].tokens)
