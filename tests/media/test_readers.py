"""Values that `read_image`, `read_video` and `read_audio` accept, with equal pixels for each."""

from __future__ import annotations

import base64
import io
import os
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sgnb.errors import MediaError
from sgnb.media import Image, read_audio, read_image, read_video
from sgnb.media.clips import spread

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
FRAMES = np.stack([PIXELS, PIXELS[::-1], PIXELS[:, ::-1], 255 - PIXELS])


def encoded(image: PIL.Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


PNG = encoded(PIL.Image.fromarray(PIXELS))


class IPythonImage:
    """A stand-in with the module and the attributes of `IPython.display.Image`."""

    __module__ = "IPython.core.display"

    def __init__(self, data: Any = None, url: str | None = None) -> None:
        self.data, self.url = data, url


@pytest.mark.parametrize(
    "source",
    [
        PNG,
        bytearray(PNG),
        memoryview(PNG),
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
        "DATA:;base64," + base64.b64encode(PNG).decode().replace("A", "A\n"),
        "data:image/png," + "".join(f"%{byte:02x}" for byte in PNG),
        PIL.Image.fromarray(PIXELS),
        PIL.Image.open(io.BytesIO(PNG)),
        PIXELS,
        PIXELS[:, :, :].transpose(2, 0, 1),
        PIXELS.astype(np.float64) / 255,
        PIXELS.astype(np.float32) / 255,
        torch.from_numpy(PIXELS),
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        (torch.from_numpy(PIXELS).permute(2, 0, 1).float() / 255).requires_grad_(),
        IPythonImage(PNG),
        Image(PIXELS),
        np.dstack([PIXELS, np.full((6, 8), 255, np.uint8)]),
    ],
)
def test_the_same_image_from_anything(source: Any) -> None:
    assert read_image(source) == Image(PIXELS)


@pytest.mark.parametrize("form", ["PNG", "WEBP", "BMP", "TIFF"])
def test_lossless_files(form: str, tmp_path: Path) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    path = tmp_path / "picture.txt"  # the content decides, not the name
    path.write_bytes(encoded(PIL.Image.fromarray(PIXELS), form, **options))
    for source in (path, str(path), os.fspath(path)):
        assert read_image(source) == Image(PIXELS)


def test_the_real_classes_of_ipython() -> None:
    from IPython.display import Audio as IPythonAudio
    from IPython.display import Image as RealImage

    assert read_image(RealImage(data=PNG)) == Image(PIXELS)
    with pytest.raises(MediaError, match="downloads are off"):
        read_image(RealImage(url="http://example.org/x.png"))
    sound = read_audio(IPythonAudio(np.linspace(-1, 1, 100), rate=8000))
    assert sound.rate == 8000 and len(sound.samples) == 100


def test_a_figure() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1), dpi=50, facecolor="red")
    item = read_image(figure)
    assert item.label == "image 100×50"
    assert item.pixels[0, 0].tolist() == [255, 0, 0]


def test_gray_and_bool_arrays() -> None:
    gray = PIXELS[..., 0]
    expected = Image(np.repeat(gray[..., None], 3, axis=2))
    assert read_image(gray) == read_image(gray[..., None]) == read_image(gray[None]) == expected
    assert read_image(gray > 99) == read_image((gray > 99).astype(np.uint8) * np.uint8(255))


def test_two_possible_axes_of_channels() -> None:
    array = PIXELS[:3, :, :]  # 3 rows, or 3 channels
    assert read_image(array).label == "image 8×3"
    assert read_image(torch.from_numpy(array.copy())).label == "image 3×8"


@given(arrays.arrays(np.uint8, (3, 4, 4), elements=st.integers(0, 255)))
def test_transparency_is_white_as_in_pillow(array: np.ndarray) -> None:
    image = PIL.Image.fromarray(array)
    white = PIL.Image.new("RGBA", image.size, "white")
    expected = Image(np.asarray(PIL.Image.alpha_composite(white, image).convert("RGB")))
    assert read_image(array) == read_image(image) == read_image(encoded(image)) == expected
    exact = (array[..., :3].astype(float) * array[..., 3:] + 255.0 * (255 - array[..., 3:])) / 255
    assert np.abs(expected.pixels - exact).max() <= 1


@given(
    arrays.arrays(np.uint8, (4, 5), elements=st.integers(0, 7)),
    arrays.arrays(np.uint8, (8, 3), elements=st.integers(0, 255)),
)
def test_a_palette_is_its_colors(indices: np.ndarray, colors: np.ndarray) -> None:
    image = PIL.Image.fromarray(indices, "P")
    image.putpalette(colors.tobytes())
    expected = Image(colors[indices])
    for form in ("PNG", "GIF", "BMP", "TIFF"):
        assert read_image(encoded(image, form)) == expected, form
    assert read_image(image) == expected

    see_through = encoded(image, "PNG", transparency=0)
    white = np.where(indices[..., None] == 0, 255, colors[indices]).astype(np.uint8)
    assert read_image(see_through) == Image(white)


@pytest.mark.parametrize("orientation", range(0, 10))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_the_rotation_flag_is_applied(form: str, orientation: int) -> None:
    image = PIL.Image.fromarray(np.repeat(np.repeat(PIXELS, 8, 0), 8, 1))
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = "a secret place"
    data = encoded(image, form, exif=exif)
    expected = PIL.ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(data))).convert("RGB")
    assert read_image(data) == Image(np.asarray(expected))
    assert read_image(PIL.Image.open(io.BytesIO(data))) == Image(np.asarray(expected))


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB"]
)
def test_every_mode_of_pillow(mode: str) -> None:
    image = PIL.Image.fromarray(PIXELS).convert("RGB")
    image = PIL.Image.new(mode, image.size) if mode == "LAB" else image.convert(mode)
    assert read_image(image).pixels.shape == PIXELS.shape


def test_gray_of_16_bits_keeps_its_range() -> None:
    values = np.array([[0, 256, 32_768, 65_535]], np.uint16)
    image = PIL.Image.fromarray(values)
    assert read_image(encoded(image)).pixels[0, :, 0].tolist() == [0, 1, 128, 255]
    assert read_image(image).pixels[0, :, 0].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_animations(form: str) -> None:
    images = [PIL.Image.fromarray(frame) for frame in FRAMES]
    if form == "GIF":
        images = [image.quantize(256) for image in images]
    durations = [100, 250, 50, 100]
    options = {"lossless": True} if form == "WEBP" else {}
    data = encoded(
        images[0], form, save_all=True, append_images=images[1:], duration=durations, **options
    )
    video = read_video(data)
    assert np.array_equal(video.frames, FRAMES)
    assert video.times.tolist() == pytest.approx([0, 0.1, 0.35, 0.4])
    two = read_video(data, num_frames=2)
    assert np.array_equal(two.frames, FRAMES[[0, 3]])
    assert two.times.tolist() == pytest.approx([0, 0.4])


@pytest.mark.parametrize(
    "source",
    [
        FRAMES,
        FRAMES.transpose(0, 3, 1, 2),
        torch.from_numpy(FRAMES).permute(0, 3, 1, 2),
        FRAMES / 255,
        list(FRAMES),
        tuple(PIL.Image.fromarray(frame) for frame in FRAMES),
        [FRAMES[0], torch.from_numpy(FRAMES[1].copy()), Image(FRAMES[2]), encoded(
            PIL.Image.fromarray(FRAMES[3]))],
    ],
)  # fmt: skip
def test_the_same_video_from_anything(source: Any) -> None:
    video = read_video(source, fps=2)
    assert np.array_equal(video.frames, FRAMES)
    assert video.times.tolist() == [0, 0.5, 1, 1.5]
    assert read_video(source, fps=2, num_frames=-1) == video
    chosen = read_video(source, num_frames=2, fps=2)
    assert np.array_equal(chosen.frames, FRAMES[[0, 3]]) and chosen.times.tolist() == [0, 1.5]
    assert read_video(video, num_frames=2) == chosen
    assert read_video(source).times[1] == 1 / 24


@given(st.integers(1, 300), st.integers(1, 300))
def test_frames_are_spread_evenly(count: int, num_frames: int) -> None:
    chosen = spread(count, num_frames)
    assert len(chosen) == min(count, num_frames) and chosen == sorted(set(chosen))
    assert chosen[0] == 0 and (num_frames == 1 or chosen[-1] == count - 1)
    gaps = np.diff(chosen)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize("num_frames", [0, -2, 1.5, "8", True])
def test_wrong_numbers_of_frames(num_frames: Any) -> None:
    with pytest.raises(MediaError, match="number of frames"):
        read_video(FRAMES, num_frames=num_frames)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), "24", 1e9])
def test_wrong_rates_of_frames(fps: Any) -> None:
    with pytest.raises(MediaError, match="frames per second"):
        read_video(FRAMES, fps=fps)


def test_a_closed_image_is_named() -> None:
    image = PIL.Image.open(io.BytesIO(PNG[:60]))
    with pytest.raises(MediaError, match="cannot be decoded"):
        read_image(image)


@pytest.mark.parametrize("side", [8001, 10_000, 20_000])
def test_an_image_with_too_many_pixels_is_refused_without_a_warning(side: int) -> None:
    """Pillow would warn above 89 million pixels, and raise an error above 179 million."""
    header = b"IHDR" + struct.pack(">II", side, side) + PNG[24:29]
    data = PNG[:12] + header + struct.pack(">I", zlib.crc32(header)) + PNG[33:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MediaError, match=f"{side}×{side} pixels, more than 64 million"):
            read_image(data)
