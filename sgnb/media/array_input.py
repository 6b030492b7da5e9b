"""Arrays of numpy, torch and other libraries as pixels and samples. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ..errors import MediaError
from .file_limits import MAX_SAMPLES, check_frames, check_size

CHANNELS = (1, 3, 4)
"""Gray, RGB, RGB with transparency."""

MAX_CHANNELS = 16
"""Channels of a sound."""

LOUDEST = 64.0
"""Largest absolute sample of a float array. Larger values are integers in another type."""


def as_array(x: Any) -> NDArray[Any] | None:
    """Return `x` as an array of numbers, or None if `x` is neither an array nor a tensor."""
    if hasattr(x, "detach") and hasattr(x, "cpu"):
        x = x.detach().cpu()
        x = x.float() if x.is_floating_point() else x  # numpy has no bfloat16
        x = x.numpy()
    elif not isinstance(x, np.ndarray):
        if not hasattr(x, "__array__"):
            return None
        x = np.asarray(x)
    return x if x.dtype.kind in "biuf" else None


def is_channels_first(x: Any, shape: tuple[int, ...]) -> bool:
    """Return whether an image of `shape` [3 axes] has its channels first.

    If both axes could be channels, tensors have channels first, and arrays channels last.
    """
    first, last = shape[0] in CHANNELS, shape[-1] in CHANNELS
    return first and (not last or hasattr(x, "detach"))


def array_image(name: str, x: Any, array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array [height, width], [height, width, channels] or [channels, height, width] as
    uint8 [height, width, 3]."""
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim == 3 and is_channels_first(x, array.shape):
        array = np.moveaxis(array, 0, -1)
    if array.ndim != 3 or array.shape[-1] not in CHANNELS:
        hint = "give [height, width, 3], [3, height, width] or [height, width]"
        raise MediaError(f"{name} with shape {list(array.shape)} is not an image", hint)
    check_size(name, array.shape[1], array.shape[0])
    return _rgb(_bytes(name, array))


def array_video(name: str, x: Any, array: NDArray[Any], chosen: Sequence[int]) -> NDArray[np.uint8]:
    """Return the `chosen` images of an array as uint8 [frames, height, width, 3]."""
    if array.ndim == 4 and is_channels_first(x, array.shape[1:]):
        array = np.moveaxis(array, 1, -1)
    if array.ndim != 4 or array.shape[-1] not in CHANNELS or not len(array):
        hint = "give [frames, height, width, 3] or [frames, 3, height, width]"
        raise MediaError(f"{name} with shape {list(array.shape)} is not a video", hint)
    check_frames(name, len(chosen), array.shape[2], array.shape[1])
    return _rgb(_bytes(name, array if len(chosen) == len(array) else array[chosen]))


def array_audio(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    """Return an array [samples], [samples, channels] or [channels, samples] as float32 [samples],
    the mean of the channels. Integers are scaled to -1..1."""
    if array.ndim == 2 and array.shape[0] < array.shape[1]:
        array = array.T
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_CHANNELS or not len(array):
        hint = "give [samples] or [samples, channels]"
        raise MediaError(f"{name} with shape {list(array.shape)} is not a sound", hint)

    check_samples(name, len(array))
    if array.dtype.kind == "f":
        samples: NDArray[np.float32] = array.astype(np.float32)
    elif array.dtype in (np.int16, np.int32):
        samples = array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max + 1.0)
    elif array.dtype == np.uint8:
        samples = (array.astype(np.float32) - np.float32(128)) / np.float32(128)
    else:
        hint = "give float32 from -1 to 1, int16, int32 or uint8"
        raise MediaError(f"{name} has samples of type {array.dtype}", hint)

    if not np.isfinite(samples).all():
        raise MediaError(f"{name} has NaN or infinite samples", "use numpy.nan_to_num first")
    if (loudest := np.abs(samples).max()) > LOUDEST:
        hint = "scale float samples to -1..1, for example by / 32768"
        raise MediaError(f"{name} has a sample of {loudest:g}", hint)
    return samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)


def check_samples(name: str, count: int) -> None:
    """Raise MediaError for a sound with too many samples."""
    if count > MAX_SAMPLES:
        message = f"{name} has {count:,} samples, more than {MAX_SAMPLES:,}"
        raise MediaError(message, "cut it into pieces, or lower its rate")


def _bytes(name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return values as uint8: bool and floats from 0 to 1 are scaled to 0..255."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind != "f":
        hint = "give uint8 from 0 to 255, or floats from 0 to 1"
        raise MediaError(f"{name} has values of type {array.dtype}", hint)
    low, high = float(array.min()), float(array.max())
    if not (low >= 0.0 and high <= 1.0):  # NaN fails both comparisons
        hint = "scale floats to 0..1, or convert values from 0 to 255 with .astype('uint8')"
        raise MediaError(f"{name} has floats from {low:g} to {high:g}", hint)
    return (array * 255.0).round().astype(np.uint8)


def _rgb(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return pixels with three channels; transparency is white."""
    channels = pixels.shape[-1]
    if channels == 1:
        return np.repeat(pixels, 3, axis=-1)
    if channels == 3:
        return pixels
    if pixels.ndim == 4:
        return np.stack([_rgb(frame) for frame in pixels])
    return np.asarray(on_white(PIL.Image.fromarray(pixels)).convert("RGB"))


def on_white(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return an image of the mode RGBA in front of white."""
    background = PIL.Image.new("RGBA", image.size, "white")
    background.alpha_composite(image)
    return background
