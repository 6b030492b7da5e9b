"""Models with processors, by model type."""

from __future__ import annotations

import inspect

import torch
from transformers import (
    AutoModelForMultimodalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ProcessorMixin,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

from .exceptions import EXCEPTIONS
from .left_out import WHY_NOT
from .processors import build_processor, new_tokenizer
from .shapes import tiny_config
from .weights import widen

why_not = WHY_NOT
TYPES = [kind for kind in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES if kind not in why_not]
SUFFIXES = "_token_id", "_token_index", "_id"


def multimodal_model(kind: str) -> tuple[PreTrainedModel, ProcessorMixin]:
    """Return a new float32 model on the CPU, with the same weights every time, and its
    processor."""
    tokenizer = new_tokenizer(kind)
    first = build_processor(kind, tokenizer, None)
    config = tiny_config(kind, len(tokenizer))
    set_ids(config, kind, first, tokenizer)
    processor = build_processor(kind, tokenizer, config)
    if getattr(config, "vocabulary_map", None):
        config.image_token_id = token_of("image_token_id", kind, processor, tokenizer)
        config.vocabulary_map["<image>"] = config.image_token_id
    torch.manual_seed(0)
    model = AutoModelForMultimodalLM.from_config(config, attn_implementation="eager")
    widen(model)
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        processor.return_mm_token_type_ids = True
    return model.float().eval(), processor


def set_ids(
    config: PreTrainedConfig,
    kind: str,
    processor: ProcessorMixin,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Set the ids of special tokens, in the configuration and in parts."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            set_ids(value, kind, processor, tokenizer)
        elif isinstance(EXCEPTIONS[kind].ids.get(name), list):
            setattr(config, name, tokenizer.convert_tokens_to_ids(EXCEPTIONS[kind].ids[name]))
        elif name.endswith(SUFFIXES) and (type(value) is int or name in EXCEPTIONS[kind].ids):
            token = token_of(name, kind, processor, tokenizer)
            if token is not None:
                setattr(config, name, token)


def token_of(
    name: str, kind: str, processor: ProcessorMixin, tokenizer: PreTrainedTokenizerFast
) -> int | None:
    """Return the id of the token that a setting of the configuration names, if one is found."""
    if name in EXCEPTIONS[kind].ids:
        return int(tokenizer.convert_tokens_to_ids(EXCEPTIONS[kind].ids[name]))
    suffix = next(suffix for suffix in SUFFIXES if name.endswith(suffix))
    stem = name.removesuffix(suffix)
    for owner in (processor, tokenizer):
        for attribute in (f"{stem}_token_id", f"{stem}_id"):
            token = getattr(owner, attribute, None)
            if isinstance(token, int):
                return token
        text = getattr(owner, f"{stem}_token", None)
        if text is not None:
            return int(tokenizer.convert_tokens_to_ids(str(text)))
    return None
