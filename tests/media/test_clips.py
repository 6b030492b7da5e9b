"""Videos in containers, through PyAV."""

from __future__ import annotations

import io
import struct
import sys

import numpy as np
import pytest

from sgnb.errors import MediaError
from sgnb.media import read_video

av = pytest.importorskip("av")

SIDE = 16


def movie(form: str, frames: int = 50, codec: str = "mpeg4", group: int = 10) -> bytes:
    """A video whose frame i has the gray value 4 * i, at 10 frames per second."""
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=10)
        stream.width = stream.height = SIDE
        stream.pix_fmt, stream.gop_size = "yuv420p", group
        stream.codec_context.qmin = stream.codec_context.qmax = 2
        for number in range(frames):
            pixels = np.full((SIDE, SIDE, 3), 4 * number % 256, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return file.getvalue()


def numbers(video) -> list[int]:
    """The numbers of the frames, by their gray values."""
    return [round(value) for value in video.frames.mean(axis=(1, 2, 3)) / 4]


@pytest.mark.parametrize("form", ["mp4", "matroska", "avi", "mov"])
def test_all_frames_of_a_container(form: str, tmp_path) -> None:
    path = tmp_path / "clip"
    path.write_bytes(movie(form))
    video = read_video(path)
    assert video.label == "video 50 frames 16×16"
    assert numbers(video) == list(range(50))
    assert np.diff(video.times) == pytest.approx(0.1, abs=0.002) and video.times[0] == 0


@pytest.mark.parametrize("group", [1, 5, 10, 100])
@pytest.mark.parametrize("form", ["mp4", "matroska", "avi"])
@pytest.mark.parametrize("num_frames", [1, 2, 3, 7, 25, 49, 80])
def test_chosen_frames_are_frames_of_the_whole_video(
    form: str, num_frames: int, group: int
) -> None:
    """Seeking finds the same frames as decoding from the beginning."""
    data = movie(form, group=group)
    whole, some = read_video(data), read_video(data, num_frames=num_frames)
    chosen = numbers(some)
    assert len(chosen) == min(50, num_frames) and chosen[0] == 0
    assert np.array_equal(some.frames, whole.frames[chosen])
    assert np.array_equal(some.times, whole.times[chosen])


def test_frames_in_another_order_than_they_are_stored() -> None:
    data = movie("mp4", codec="libx264") if "libx264" in av.codecs_available else movie("mp4")
    assert numbers(read_video(data)) == list(range(50))
    assert numbers(read_video(data, num_frames=3)) == [0, 24, 49]


def test_more_frames_than_the_limit_need_a_choice() -> None:
    data = movie("mp4", frames=1030)
    with pytest.raises(MediaError, match=r"more than 1024 frames\n  hint: .*num_frames"):
        read_video(data)
    assert len(read_video(data, num_frames=5).frames) == 5


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_the_rotation_of_a_phone_is_applied(degrees: int) -> None:
    data = _rotated(_wide(), degrees)
    video = read_video(data)
    stream = av.open(io.BytesIO(data)).decode(video=0)
    assert round(next(stream).rotation / 90) % 4 == -degrees // 90 % 4
    plain = read_video(_wide()).frames[0]
    # The matrix turns clockwise, numpy counterclockwise.
    assert np.array_equal(video.frames[0], np.rot90(plain, -degrees // 90))


def _wide() -> bytes:
    """A wide video that is bright at the left."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        pixels = np.zeros((32, 48, 3), np.uint8)
        pixels[:, :16] = 250
        for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
            container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return file.getvalue()


def _rotated(data: bytes, degrees: int) -> bytes:
    """Write the display matrix of a track header, which phones use."""
    at = data.index(b"tkhd") + 4 + 4 + 20 + 8 + 8  # behind version, times, id and volume
    cosine, sine = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    values = (cosine << 16, sine << 16, 0, -sine << 16, cosine << 16, 0, 0, 0, 1 << 30)
    return data[:at] + struct.pack(">9i", *values) + data[at + 36 :]


def test_without_pyav_the_error_names_the_package(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MediaError, match=r"needs PyAV.*\n  hint: pip install av"):
        read_video(movie_without_pyav())


def movie_without_pyav() -> bytes:
    return b"\0\0\0\x18ftypisom\0\0\2\0"
