"""Images, videos and sounds as data."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np

from ...media.items import Audio, Image, MediaItem, Video
from .wire import SAME_VERSION, WireError


class WireItem(msgspec.Struct, array_like=True):
    """A `MediaItem` as data."""

    kind: Literal["image", "video", "audio"]
    shape: list[int]
    content: bytes
    times: bytes = b""  # of a video
    rate: int = 0  # of a sound


def write_item(item: MediaItem) -> WireItem:
    """Return an image, video or sound as data."""
    if isinstance(item, Image):
        return WireItem("image", list(item.pixels.shape), item.pixels.tobytes())
    if isinstance(item, Video):
        times = item.times.tobytes()
        return WireItem("video", list(item.frames.shape), item.frames.tobytes(), times)
    assert isinstance(item, Audio)
    samples = item.samples
    return WireItem("audio", list(samples.shape), samples.tobytes(), rate=item.rate)


def read_item(wire: WireItem) -> MediaItem:
    """Return the image, video or sound of received data. Raises WireError for other data."""
    try:
        if any(size < 0 for size in wire.shape):
            raise ValueError("a negative size")
        dtype: Any = "<f4" if wire.kind == "audio" else "|u1"
        array = np.frombuffer(wire.content, dtype).reshape(wire.shape)
        if wire.kind == "image":
            return Image(array)
        if wire.kind == "video":
            return Video(array, np.frombuffer(wire.times, "<f8"))
        return Audio(array, wire.rate)
    except (ValueError, IndexError) as error:
        message = f"an invalid {wire.kind} was received: {error}"
        raise WireError(message, SAME_VERSION) from None
