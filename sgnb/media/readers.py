"""`read_image`, `read_video` and `read_audio`: values of the accepted types to media items."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image

from ..errors import MediaError, shown
from .array_input import array_audio, array_image, array_video, as_array
from .clips import decode_video, spread
from .file_limits import check_bytes, check_frames
from .items import Audio, Image, Video
from .pictures import decode_image, flat_pixels
from .sounds import check_rate, decode_audio
from .sources import EncodedMedia, read_source

FPS = 24.0
"""Frames per second of frames without times, the default of transformers."""


def read_image(x: Any, fetch: bool = False) -> Image:
    """Return an image from a file, an array or an object of another library.

    Args:
        x: Path, bytes, data URL, Pillow image, array or tensor (height × width × channels or
            channels first; uint8, bool, or floats from 0 to 1), matplotlib figure,
            `IPython.display.Image`, or an `Image`.
        fetch: Allow `x` to be a URL, which is downloaded: at most 20 MB, no private addresses, no
            redirects.

    Returns:
        The image: upright, RGB, transparency on white, without metadata.

    Raises:
        MediaError: `x` is no image, is damaged, or exceeds a limit.
    """
    if isinstance(x, Image):
        return x
    if (source := _source(x, "image", fetch)) is not None:
        return Image(decode_image(source))
    pixels = _pixels("the image", x)
    if pixels is None:
        hint = "give a path, bytes, a Pillow image, an array, a tensor or a figure"
        raise MediaError(f"{shown(x)} is not an image", hint)
    return Image(pixels)


def read_video(
    x: Any, num_frames: int | None = None, fetch: bool = False, fps: float | None = None
) -> Video:
    """Return a video from a file, a list of frames or an array.

    Args:
        x: Path, bytes or data URL (GIF, WebP, APNG; MP4, WebM and AVI with PyAV), list of images as
            for `read_image`, array or tensor of frames, or a `Video`.
        num_frames: Number of evenly spaced frames; None or -1 takes all frames.
        fetch: As in `read_image`.
        fps: Frames per second of a list or array; 24 by default. Files have their own times.

    Raises:
        MediaError: `x` is no video, is damaged, or exceeds a limit.
    """
    num_frames = _check_num_frames(num_frames)
    if isinstance(x, Video):
        chosen = spread(len(x.frames), num_frames)
        return Video(x.frames[chosen], x.times[chosen]) if num_frames else x
    if (source := _source(x, "video", fetch)) is not None:
        frames, times = decode_video(source, num_frames)
        return Video(np.stack(frames), times)

    array = as_array(x)
    if array is None and not (isinstance(x, list | tuple) and x):
        hint = "give a path, bytes, a list of frames or an array of frames"
        raise MediaError(f"{shown(x)} is not a video", hint)
    chosen = spread(len(x) if array is None or array.ndim else 0, num_frames)
    if array is not None:
        pixels = array_video("the video", x, array, chosen)
    else:
        pixels = np.stack(list(_equal_frames([x[i] for i in chosen])))
    return Video(pixels, np.array(chosen) / _check_fps(fps))


def read_audio(x: Any, rate: int | None = None, fetch: bool = False) -> Audio:
    """Return a sound from a file or an array.

    Args:
        x: Path, bytes or data URL (WAV; FLAC, Ogg and MP3 with soundfile), `IPython.display.Audio`,
            array or tensor of samples, or an `Audio`.
        rate: Samples per second of an array. A file has its own rate.
        fetch: As in `read_image`.

    Raises:
        MediaError: `x` is no sound, is damaged, exceeds a limit, or has another rate.
    """
    if isinstance(x, Audio):
        audio = x
    elif (source := _source(x, "audio", fetch)) is not None:
        audio = Audio(*decode_audio(source))
    elif (array := as_array(x)) is not None:
        if rate is None:
            hint = "pass the samples per second: audio(x, rate=16000)"
            raise MediaError("an array of samples has no rate", hint)
        return Audio(array_audio("the audio", array), check_rate("the audio", rate))
    else:
        hint = "give a path, bytes, or an array with a rate"
        raise MediaError(f"{shown(x)} is not a sound", hint)

    if rate is not None and rate != audio.rate:
        hint = "leave out the rate, or resample the sound first"
        raise MediaError(f"{audio.label} has {audio.rate} Hz, not {shown(rate)}", hint)
    return audio


def _source(x: Any, kind: str, fetch: bool) -> EncodedMedia | None:
    """Return encoded media of `x`, also of an object of `IPython.display`; None for others."""
    if type(x).__module__ == "IPython.lib.display" or type(x).__module__ == "IPython.core.display":
        data = getattr(x, "data", None)
        if data is None and getattr(x, "url", None):
            return read_source(x.url, kind, fetch)
        if not isinstance(data, bytes):
            hint = "give the path of the file"
            raise MediaError(f"{shown(x)} holds no {kind} data", hint)
        check_bytes(f"the {kind} of IPython", kind, len(data))
        return EncodedMedia(f"the {kind} of IPython", data)
    return read_source(x, kind, fetch)


def _pixels(name: str, x: Any) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Return the pixels of an object of Pillow, numpy, torch or matplotlib; None for others."""
    if isinstance(x, Image):
        return x.pixels
    if isinstance(x, PIL.Image.Image):
        return _of_pillow(name, x)
    if hasattr(x, "savefig"):
        file = io.BytesIO()
        x.savefig(file, format="png")
        return decode_image(EncodedMedia(f"{name} of matplotlib", file.getvalue()))
    array = as_array(x)
    return None if array is None else array_image(name, x, array)


def _equal_frames(frames: list[Any]) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Yield the pixels of images. Raises MediaError at a frame of another size."""
    size: tuple[int, ...] | None = None
    for number, frame in enumerate(frames):
        pixels = read_image(frame).pixels
        if size is None:
            size = pixels.shape
            check_frames("the list of frames", len(frames), size[1], size[0])
        if pixels.shape != size:
            height, width, _ = pixels.shape
            hint = f"give frames of equal size, here {size[1]}×{size[0]}"
            raise MediaError(f"frame {number} has {width}×{height} pixels", hint)
        yield pixels


def _of_pillow(name: str, image: PIL.Image.Image) -> np.ndarray[Any, np.dtype[np.uint8]]:
    try:
        return flat_pixels(name, image)
    except MediaError:
        raise
    except Exception as error:  # a lazily opened file is damaged or closed
        reason = str(error) or type(error).__name__
        hint = "open the file again, or give its path"
        raise MediaError(f"{name} {shown(image)} cannot be decoded: {reason}", hint) from None


def _check_num_frames(num_frames: Any) -> int | None:
    if num_frames is None or (num_frames == -1 and num_frames is not True):
        return None
    if not isinstance(num_frames, int) or isinstance(num_frames, bool) or num_frames < 1:
        hint = "give an integer of 1 or more, or None for all frames"
        raise MediaError(f"{shown(num_frames)} is not a number of frames", hint)
    return num_frames


def _check_fps(fps: Any) -> float:
    if fps is None:
        return FPS
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 0 < fps < 1e6:
        hint = "give a number above 0, such as fps=24"
        raise MediaError(f"{shown(fps)} is not a number of frames per second", hint)
    return float(fps)
