"""Greedy tokens of a multimodal model by transformers alone: the processor is called once with the
whole prompt, and the model's own forward computes every step without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import BatchFeature, PreTrainedModel, ProcessorMixin
from transformers.video_utils import VideoMetadata

from .items import Array, item_text

Part = str | Image.Image | Array
"""Text, a picture, a video [frames, H, W, 3], or a sound [samples]."""

UNUSED = "labels", "video_metadata"
"""Outputs of processors that are no inputs of a forward that computes logits."""


class Reference(NamedTuple):
    """Continuation of a prompt."""

    ids: list[int]  # of the prompt, items expanded
    tokens: list[int]
    logits: Tensor  # [new tokens, vocabulary]

    @property
    def gap(self) -> float:
        """Least difference between the best logit of a step and the second."""
        best = self.logits.topk(2).values
        return float((best[:, 0] - best[:, 1]).min())


def modality_of(part: Part) -> str:
    """Return the kind of a part: text, image, video or audio."""
    if isinstance(part, str):
        return "text"
    if isinstance(part, np.ndarray):
        return "video" if part.ndim == 4 else "audio"
    return "image"


def encode(processor: ProcessorMixin, parts: Sequence[Part], **options: Any) -> BatchFeature:
    """Return the model's inputs for a prompt; floating-point inputs are float32."""
    texts = [
        part if isinstance(part, str) else item_text(processor, modality_of(part)) for part in parts
    ]
    items: dict[str, list[Part]] = {}
    for part in parts:
        if not isinstance(part, str):
            name = {"image": "images", "video": "videos"}.get(modality_of(part), "audio")
            items.setdefault(name, []).append(part)
    if "videos" in items:
        frames = [len(video) for video in items["videos"]]  # type: ignore[arg-type]
        options["videos_kwargs"] = {"video_metadata": [metadata(count) for count in frames]}
    inputs: BatchFeature = processor(text="".join(texts), return_tensors="pt", **items, **options)
    for name in UNUSED:
        inputs.pop(name, None)
    return inputs.to(torch.float32)


def metadata(frames: int) -> VideoMetadata:
    """Return the metadata of a video with a frame each half second."""
    return VideoMetadata(total_num_frames=frames, fps=2.0, frames_indices=list(range(frames)))


def reference(
    model: PreTrainedModel, processor: ProcessorMixin, parts: Sequence[Part], new_tokens: int
) -> Reference:
    """Return greedy tokens and logits. No token ends the text."""
    inputs = encode(processor, parts)
    prompt = inputs["input_ids"][0].tolist()
    tokens: list[int] = []
    logits: list[Tensor] = []
    for _ in range(new_tokens):
        step = extended(inputs, tokens)
        with torch.no_grad():
            last = model(**step, use_cache=False).logits[0, -1]
        logits.append(last)
        tokens.append(int(last.argmax()))
    return Reference(prompt, tokens, torch.stack(logits))


def extended(inputs: BatchFeature, tokens: list[int]) -> dict[str, Any]:
    """Return the inputs with generated tokens behind the prompt. Inputs with one number per token
    get 1 in the attention mask, and the type of text, 0, otherwise."""
    step = dict(inputs)
    shape = step["input_ids"].shape
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.shape == shape and not value.is_floating_point():
            more = tokens if name == "input_ids" else [int("attention_mask" in name)] * len(tokens)
            step[name] = torch.cat([value, torch.tensor([more], dtype=value.dtype)], dim=1)
    return step
