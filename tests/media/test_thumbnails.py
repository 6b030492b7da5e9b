"""Thumbnails: a JPEG of this package's own, small for any content."""

from __future__ import annotations

import base64
import io

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.media import Audio, Image, MediaItem, Video, thumbnail
from sgnb.media.thumbnails import MAX_CHARACTERS, WIDTH


def opened(item: MediaItem) -> PIL.Image.Image:
    text = thumbnail(item)
    assert len(text) <= MAX_CHARACTERS < 4096
    picture = PIL.Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=["JPEG"])
    picture.load()
    assert max(picture.size) <= WIDTH
    return picture


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 900), st.integers(1, 900), st.booleans())
def test_any_image_fits(height: int, width: int, flat: bool) -> None:
    pixels = noise(height, width, 3) if not flat else np.full((height, width, 3), 90, np.uint8)
    picture = opened(Image(pixels))
    least = min(height, width) / max(height, width)
    assert min(picture.size) >= min(min(height, width), least * max(picture.size)) - 2


def test_the_colours_stay_in_place() -> None:
    pixels = np.zeros((300, 600, 3), np.uint8)
    pixels[:, :300], pixels[:, 300:] = (250, 0, 0), (0, 0, 250)
    picture = opened(Image(pixels))
    assert picture.size == (WIDTH, WIDTH // 2)
    left, right = picture.getpixel((10, 20)), picture.getpixel((85, 20))
    assert isinstance(left, tuple) and isinstance(right, tuple)
    assert left[0] > 200 > 60 > left[2] and right[2] > 200 > 60 > right[0]


def test_a_video_shows_the_middle_frame() -> None:
    frames = np.zeros((5, 40, 40, 3), np.uint8)
    frames[2] = 200
    middle = opened(Video(frames, np.arange(5.0))).getpixel((5, 5))
    assert isinstance(middle, tuple) and min(middle) > 190


@pytest.mark.parametrize("samples", [
    np.sin(np.arange(16_000) / 9) * np.linspace(0, 1, 16_000), np.zeros(5), np.ones(1),
    np.array([np.nan, np.inf, -np.inf, 1.0]),
])  # fmt: skip
def test_a_sound_is_a_waveform(samples: np.ndarray) -> None:
    picture = opened(Audio(samples.astype(np.float32), 16_000))
    dark = np.asarray(picture).mean(axis=2) < 160
    assert picture.size == (WIDTH, 32) and dark.any() and not dark.all()
    if len(samples) == 16_000:
        assert dark[:, 80:].sum() > 3 * dark[:, :16].sum(), "louder at the end"
