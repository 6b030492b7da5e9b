"""Encoded images to pixels with Pillow: the format and the size are checked before decoding."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL.Image import Transpose
from PIL.ImageFile import ImageFile

from ..errors import MediaError
from .array_input import on_white
from .file_limits import (
    ANIMATION_FORMATS,
    IMAGE_FORMATS,
    check_frames,
    check_size,
)
from .sources import EncodedMedia

Pixels = NDArray[np.uint8]

_ORIENTATION = 0x0112  # EXIF tag

_UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
"""EXIF orientation -> transposition that makes the image upright."""

MAX_SCANS = 100
"""Scans of a JPEG, as in libtiff. Each scan of a progressive JPEG costs a pass over all pixels."""

_SECONDS = 0.1
"""Duration of a frame without a duration, as in browsers."""


def decode_image(source: EncodedMedia) -> Pixels:
    """Return the pixels of an encoded image, uint8 [height, width, 3].

    Raises:
        MediaError: The format is not allowed, the image is too large, truncated or damaged, or has
            several frames.
    """
    with _decoding(source.name), _opened(source, IMAGE_FORMATS) as image:
        if getattr(image, "is_animated", False) and image.format != "MPO":
            hint = "use video(x), or open one frame with Pillow: image(frame)"
            raise MediaError(f"{source.name} has several frames or pages", hint)
        return flat_pixels(source.name, image)


def decode_animation(source: EncodedMedia) -> tuple[list[Pixels], list[float]]:
    """Return the frames of a GIF, WebP or APNG, and the time of each frame in seconds.

    Raises:
        MediaError: As `decode_image`, or there are too many frames or pixels.
    """
    frames: list[Pixels] = []
    times, time = [], 0.0

    with _decoding(source.name), _opened(source, ANIMATION_FORMATS) as image:
        while True:
            check_frames(source.name, len(frames) + 1, image.width, image.height)
            frames.append(flat_pixels(source.name, image))
            if frames[-1].shape != frames[0].shape:
                hint = "convert it to frames of one size"
                raise MediaError(f"{source.name} changes its size at frame {len(frames)}", hint)
            times.append(time)
            duration = image.info.get("duration") or 0
            time += duration / 1000 if duration > 0 else _SECONDS
            try:
                image.seek(len(frames))
            except EOFError:
                return frames, times


def flat_pixels(name: str, image: PIL.Image.Image) -> Pixels:
    """Return upright RGB pixels of an opened image: metadata is dropped, transparency is white.

    Raises:
        MediaError: The image is too large, or its values have no defined range.
    """
    check_size(name, *image.size)
    image.load()  # rotates a TIFF, and reads metadata behind the pixels of a PNG
    orientation = _orientation(image)
    if image.mode.startswith("I;16"):
        image = PIL.Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        hint = "scale the values to 0..255 first, and give a uint8 array"
        raise MediaError(f"{name} has 32-bit values, whose range is unknown", hint)
    elif image.has_transparency_data:
        image = on_white(image.convert("RGBA"))

    rgb = image if image.mode == "RGB" else image.convert("RGB")
    if orientation in _UPRIGHT:
        rgb = rgb.transpose(_UPRIGHT[orientation])
    return np.frombuffer(rgb.tobytes(), np.uint8).reshape(rgb.height, rgb.width, 3)


def _orientation(image: PIL.Image.Image) -> Any:
    """Return the EXIF orientation; 1 if absent or if the metadata is damaged."""
    try:
        return image.getexif().get(_ORIENTATION, 1)
    except Exception:  # Pillow raises many types for damaged metadata, which is dropped anyway
        return 1


@contextmanager
def _opened(source: EncodedMedia, formats: tuple[str, ...]) -> Iterator[PIL.Image.Image]:
    """Open a file of an allowed format, without decoding."""
    try:
        image = _identify(source.data, formats)
    except PIL.Image.DecompressionBombError:
        message = f"{source.name} has too many pixels"
        raise MediaError(message, "scale it down first") from None
    if image is None:
        if formats == IMAGE_FORMATS:
            message = f"{source.name} is not an image in PNG, JPEG, WebP, GIF, BMP or TIFF"
            raise MediaError(message, "convert it to PNG")
        message = f"{source.name} is not a video in GIF, WebP, APNG, MP4, WebM or AVI"
        raise MediaError(message, "convert it to MP4, or give a list of frames")

    with image:
        check_size(source.name, *image.size)
        if image.format in ("JPEG", "MPO") and source.data.count(b"\xff\xda") > MAX_SCANS:
            hint = "save it again as a baseline JPEG or PNG"
            raise MediaError(f"{source.name} has more than {MAX_SCANS} scans", hint)
        yield image


def _identify(data: bytes, formats: tuple[str, ...]) -> ImageFile | None:
    """Open data of an allowed format; None for other data. `PIL.Image.open` warns of many pixels
    before the caller can check the size."""
    for name in formats:
        if name not in PIL.Image.OPEN:
            PIL.Image.init()
        factory, accept = PIL.Image.OPEN[name]
        if accept is None or accept(data[:16]) is True:
            try:
                return factory(io.BytesIO(data), "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue  # Pillow's errors for data of another format
    return None


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn Pillow's errors for damaged data into a MediaError."""
    try:
        yield
    except MediaError:
        raise
    except Exception as error:  # decoders raise OSError, SyntaxError, struct.error and others
        detail = isinstance(error, OSError | ValueError | SyntaxError) and str(error)
        reason = detail or "its data is damaged"
        hint = "the file is truncated or damaged; save it again from its source"
        raise MediaError(f"{name} cannot be decoded: {reason}", hint) from None
