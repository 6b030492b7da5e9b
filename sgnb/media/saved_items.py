"""JSON form of media items: PNG for images and frames, WAV for sounds, with the digest."""

from __future__ import annotations

import base64
import io
import struct
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ..errors import MediaError, shown
from .file_limits import check_bytes, check_frames
from .items import Audio, Image, MediaItem, Video
from .pictures import decode_image
from .sounds import decode_audio
from .sources import EncodedMedia


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels, uint8 [height, width, 3], as a PNG file without metadata."""
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def wav(audio: Audio, bits: int = 32) -> bytes:
    """Return a sound as a WAV file with float32 samples, or with 16-bit integers."""
    if bits == 16:
        values = (np.clip(audio.samples, -1, 1) * np.float32(32767)).round().astype("<i2")
    else:
        values = audio.samples.astype("<f4", copy=False)
    data, size = values.tobytes(), bits // 8
    form = struct.pack(
        "<HHIIHH", 1 if bits == 16 else 3, 1, audio.rate, size * audio.rate, size, bits
    )
    chunks = b"fmt " + struct.pack("<I", len(form)) + form
    chunks += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


def to_plain(item: MediaItem) -> dict[str, Any]:
    """Return an item as plain data for JSON, without loss."""
    if isinstance(item, Image):
        content: Any = _text(png(item.pixels))
    elif isinstance(item, Audio):
        content = _text(wav(item))
    else:
        assert isinstance(item, Video)
        content = {
            "frames": [_text(png(frame)) for frame in item.frames],
            "times": item.times.tolist(),
        }
    return {"kind": item.kind, "digest": item.digest.hex(), "content": content}


def from_plain(plain: Any) -> MediaItem:
    """Return the item of `to_plain`.

    Raises:
        ValueError: The data is damaged, or does not have its digest.
    """
    if not isinstance(plain, dict) or not {"kind", "digest", "content"} <= plain.keys():
        raise ValueError("media without 'kind', 'digest' or 'content'")
    readers = {"image": _image, "video": _video, "audio": _audio}
    read = readers.get(plain["kind"]) if isinstance(plain["kind"], str) else None
    if read is None:
        raise ValueError(f"{shown(plain['kind'])} is not a kind of media")
    try:
        item = read(plain["content"])
    except MediaError as error:
        raise ValueError(error.message) from None
    if item.digest.hex() != plain["digest"]:
        raise ValueError(f"the content of the {item.label} does not have its digest")
    return item


def _image(content: Any) -> MediaItem:
    return Image(decode_image(_encoded("image", content)))


def _video(content: Any) -> MediaItem:
    saved = content if isinstance(content, dict) else {}
    files, times, frames = saved.get("frames"), saved.get("times"), []
    if not (isinstance(files, list) and isinstance(times, list) and _are_floats(times)):
        raise ValueError("the content of video is not a list of frames with times")
    for file in files:
        frames.append(decode_image(_encoded("image", file)))
        height, width, _ = frames[0].shape
        check_frames("the saved video", len(files), width, height)
        if frames[-1].shape != frames[0].shape:
            raise ValueError("the frames of the saved video differ in size")
    if not frames:
        raise ValueError("the saved video has no frames")
    return Video(np.stack(frames), times)


def _are_floats(values: list[Any]) -> bool:
    return all(isinstance(value, float) for value in values)


def _audio(content: Any) -> MediaItem:
    return Audio(*decode_audio(_encoded("audio", content)))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _encoded(kind: str, text: Any) -> EncodedMedia:
    if not isinstance(text, str):
        raise ValueError(f"the content of {kind} is not base64")
    check_bytes(f"the saved {kind}", kind, len(text))
    return EncodedMedia(f"the saved {kind}", base64.b64decode(text, validate=True))
