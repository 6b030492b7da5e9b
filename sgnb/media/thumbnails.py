"""Small JPEG pictures of images, videos and sounds, for views."""

from __future__ import annotations

import base64
import io

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from .items import Audio, Image, MediaItem, Video

WIDTH = 96
"""Maximum width and height in pixels."""

MAX_CHARACTERS = 3072
"""Maximum length in base64: the pictures of 100 items fit into a saved notebook."""

_TRIALS = ((WIDTH, 75), (WIDTH, 50), (WIDTH, 25), (64, 40), (48, 30), (24, 30))
"""Sizes and JPEG qualities, until the picture is short enough. Noise of 24 pixels always is."""

_WAVE_HEIGHT = 32
_PAPER, _INK = 255, (0, 114, 178)


def thumbnail(item: MediaItem) -> str:
    """Return a JPEG of at most `WIDTH` pixels and `MAX_CHARACTERS` characters, in base64: the
    image, the middle frame of a video, or the waveform of a sound. Returns "" for another item."""
    if isinstance(item, Image):
        pixels = item.pixels
    elif isinstance(item, Video):
        pixels = item.frames[len(item.frames) // 2]
    elif isinstance(item, Audio):
        pixels = _waveform(item.samples)
    else:
        return ""
    return _encoded(pixels)


def _encoded(pixels: NDArray[np.uint8]) -> str:
    step = max(1, max(pixels.shape[:2]) // (4 * WIDTH))  # of a large photo, read a part only
    whole = PIL.Image.fromarray(np.ascontiguousarray(pixels[::step, ::step]))
    text = ""
    for width, quality in _TRIALS:
        picture = whole.copy()
        picture.thumbnail((width, width), PIL.Image.Resampling.BOX)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality, optimize=True)
        text = base64.b64encode(file.getvalue()).decode()
        if len(text) <= MAX_CHARACTERS:
            break
    return text


def _waveform(samples: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Draw the extent of a sound per column, uint8 [height, width, 3]."""
    edges = np.linspace(0, len(samples), WIDTH + 1).astype(int)
    levels = np.nan_to_num(np.abs(samples), posinf=1.0)
    peaks = np.maximum.reduceat(levels, np.minimum(edges[:-1], len(samples) - 1))
    heights = np.clip(peaks / max(float(peaks.max()), 1e-6), 0, 1) * (_WAVE_HEIGHT / 2 - 1)
    rows = np.abs(np.arange(_WAVE_HEIGHT) - (_WAVE_HEIGHT - 1) / 2)
    drawn = rows[:, None] <= np.maximum(heights, 0.5)
    pixels = np.full((_WAVE_HEIGHT, WIDTH, 3), _PAPER, np.uint8)
    pixels[drawn] = _INK
    return pixels
