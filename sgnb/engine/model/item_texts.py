"""Placeholder texts and arguments of transformers' processors for images, videos and sounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from transformers.video_utils import VideoMetadata

from ...media import Audio, Image, MediaItem, Video

PARTS = {
    "image": ("image_processor",),
    "video": ("video_processor",),
    "audio": ("feature_extractor", "audio_processor"),
}
"""Kind of an item -> part of a processor that reads items of the kind."""

BEFORE, AFTER = "BEGIN", "FINISH"
"""Texts around an item in a rendered chat template."""


def item_texts(processor: Any) -> dict[str, str]:
    """Return the placeholder text of each kind of item: as in the chat template of the processor,
    otherwise the placeholder token."""
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
    except Exception:  # raised for unknown parts
        return None


def _token(processor: Any, kind: str) -> str | None:
    for name in (f"{kind}_token", f"{kind}_placeholder", "boi_token" if kind == "image" else ""):
        token = getattr(processor, name, None)
        if isinstance(token, str) and token:
            return token
    return None


def processor_options(processor: Any) -> str:
    """Return the present options of a processor and its parts, without arrays and tokenizer."""
    return repr(
        [
            {
                name: value
                for name, value in vars(part).items()
                if name not in ("tokenizer", "chat_template") and not isinstance(value, np.ndarray)
            }
            for part in _parts(processor)
        ]
    )


def processor_types(processor: Any) -> list[str]:
    """Return the names of the types of a processor and its parts."""
    return [f"{type(part).__module__}.{type(part).__name__}" for part in _parts(processor)]


def _parts(processor: Any) -> list[Any]:
    """Return a processor and its parts."""
    names = chain.from_iterable(PARTS.values())
    parts = (getattr(processor, name, None) for name in names)
    return [part for part in (processor, *parts) if part is not None]


def processor_arguments(processor: Any, contents: Sequence[MediaItem]) -> dict[str, Any]:
    """Return the arguments of a processor for items, in the order of the prompt."""
    images = [PIL.Image.fromarray(item.pixels) for item in contents if isinstance(item, Image)]
    videos = [item for item in contents if isinstance(item, Video)]
    sounds = [item for item in contents if isinstance(item, Audio)]
    arguments: dict[str, Any] = {"images": images} if images else {}
    if videos:
        arguments["videos"] = [video.frames.copy() for video in videos]
        metadata = [_metadata(video) for video in videos]
        arguments["videos_kwargs"] = {"video_metadata": metadata, "do_sample_frames": False}

    if sounds:
        rate = sampling_rate(processor)
        arguments["audio"] = [resample(s.samples, s.rate, rate or s.rate) for s in sounds]
        arguments["audio_kwargs"] = {"sampling_rate": rate or sounds[0].rate}
    return arguments


def _metadata(video: Video) -> VideoMetadata:
    """Return the metadata of a video with regular times."""
    count = len(video.times)
    seconds = float(video.times[-1] - video.times[0])
    fps = (count - 1) / seconds if seconds > 0 else 1.0
    _, height, width, _ = video.frames.shape
    return VideoMetadata(
        total_num_frames=count, fps=fps, width=width, height=height, duration=count / fps,
        frames_indices=list(range(count)),
    )  # fmt: skip


def sampling_rate(processor: Any) -> int | None:
    """Return the sampling rate of a processor in samples per second; None if unknown."""
    for part in PARTS["audio"]:
        rate = getattr(getattr(processor, part, None), "sampling_rate", None)
        if rate is not None:
            return int(rate)
    return None


def resample(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    """Resample a sound through its Fourier transform: frequencies of both rates are kept."""
    if rate == wanted:
        return samples
    count = max(1, round(len(samples) * wanted / rate))
    changed = np.fft.irfft(np.fft.rfft(samples), count) * (count / len(samples))
    return changed.astype(np.float32)
