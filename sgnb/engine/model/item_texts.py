"""Placeholder texts and arguments of transformers' processors for images, videos and sounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image

ARGUMENTS = {"image": "images", "video": "videos", "audio": "audio"}
"""Kind of an item -> argument of a processor."""

PARTS = {
    "image": ("image_processor",),
    "video": ("video_processor",),
    "audio": ("feature_extractor", "audio_processor"),
}
"""Kind of an item -> part of a processor that reads items of the kind."""

BEFORE, AFTER = "BEGIN", "FINISH"
"""Texts around an item in a rendered chat template."""


def item_texts(processor: Any) -> dict[str, str]:
    """Return the placeholder text of each kind of item that a processor takes: as in its chat
    template, otherwise its placeholder token."""
    texts = {}
    for kind, parts in PARTS.items():
        if not any(getattr(processor, part, None) is not None for part in parts):
            continue
        text = _from_template(processor, kind) or _token(processor, kind)
        if text:
            texts[kind] = text
    return texts


def _from_template(processor: Any, kind: str) -> str | None:
    if not getattr(processor, "chat_template", None):
        return None
    content = [{"type": "text", "text": BEFORE}, {"type": kind}, {"type": "text", "text": AFTER}]
    try:
        text = processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False)
        return str(text).split(BEFORE, 1)[1].split(AFTER, 1)[0]
    except Exception:  # templates raise for parts that they do not know
        return None


def _token(processor: Any, kind: str) -> str | None:
    for name in (f"{kind}_token", f"{kind}_placeholder", "boi_token" if kind == "image" else ""):
        token = getattr(processor, name, None)
        if isinstance(token, str) and token:
            return token
    return None


def processor_arguments(processor: Any, contents: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a processor for items, in the order of the prompt."""
    arguments: dict[str, Any] = {}
    for content in contents:
        name = ARGUMENTS[content.kind]
        if content.kind == "image":
            value: Any = PIL.Image.fromarray(content.pixels)
        elif content.kind == "video":
            value = np.asarray(content.frames)
        else:
            value = np.asarray(content.samples)
            arguments["sampling_rate"] = content.rate
        arguments.setdefault(name, []).append(value)
    return arguments
