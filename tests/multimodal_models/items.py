"""Pictures, videos and sounds for the models, and their placeholder text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from PIL import Image
from transformers import ProcessorMixin

Array = np.ndarray[Any, Any]

ENCLOSING = (
    ("vision_start_token", "vision_end_token"), ("vision_bos_token", "vision_eos_token"),
)  # fmt: skip

PATTERNS = {
    ("Blip2Processor", "image"): "",
    ("InstructBlipProcessor", "image"): "",
    **{
        (f"{family}Processor", modality): f"<|vision_start|><|{modality}|><|vision_end|>"
        for family in ("Qwen2VL", "Qwen2_5_VL", "PaddleOCRVL")
        for modality in ("image", "video")
    },
    ("Kimi_K25Processor", "image"): (
        "<|media_begin|>image<|media_content|>{image_token}<|media_end|>"
    ),
    ("Gemma3Processor", "image"): "{boi_token}",
    **{
        (
            f"{family}Processor",
            modality,
        ): f"<|begin_of_{modality}|><|{modality}|><|end_of_{modality}|>"
        for family in ("Glm4v", "Glm46V", "Glm5Next")
        for modality in ("image", "video")
    },
    ("HunYuanVLProcessor", "image"): "{image_start_token}{image_token}{image_end_token}",
    ("PPChart2TableProcessor", "image"): "<img>" + 9 * "<imgpad>" + "</img>",
    ("QianfanOCRProcessor", "image"): "<image>",
}
"""Placeholder text by class of the processor and modality, with attributes of the processor."""


def picture(seed: int, width: int = 90, height: int = 70) -> Image.Image:
    """Return a picture of coarse random blocks, which survive every resize."""
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 7, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def clip(seed: int, frames: int = 4, width: int = 84, height: int = 56) -> Array:
    """Return a video [frames, H, W, 3]."""
    return np.stack([np.asarray(picture(seed + 97 * i, width, height)) for i in range(frames)])


def sound(seed: int, seconds: float = 0.8, rate: int = 16000) -> Array:
    """Return a mono sound [samples] of random tones."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    tones = [
        rng.uniform(0.1, 0.4) * np.sin(2 * np.pi * f * time) for f in rng.uniform(100, 3000, 5)
    ]
    return np.sum(tones, axis=0).astype(np.float32)


def modalities(processor: ProcessorMixin) -> list[str]:
    """Return the kinds of items that the processor takes."""
    parts = {
        "image": "image_processor", "video": "video_processor",
        "audio": "feature_extractor",
    }  # fmt: skip
    names = [name for name, part in parts.items() if getattr(processor, part, None) is not None]
    if getattr(processor, "audio_processor", None) is not None:
        names.append("audio")
    return names


def item_text(processor: ProcessorMixin, modality: str) -> str:
    """Return the placeholder text of an item."""
    pattern = PATTERNS.get((type(processor).__name__, modality))
    if pattern is not None:
        names = re.findall(r"{(\w+)}", pattern)
        return pattern.format(**{name: getattr(processor, name) for name in names})
    token = getattr(processor, f"{modality}_token", None)
    if token is None:
        raise ValueError(f"{type(processor).__name__} has no token for {modality}.")
    names = ENCLOSING if modality != "audio" else (("audio_bos_token", "audio_eos_token"),)
    for first, last in names:
        start, end = getattr(processor, first, None), getattr(processor, last, None)
        if isinstance(start, str) and isinstance(end, str):
            return f"{start}{token}{end}"
    return str(token)
