"""Encoded videos to frames: GIF, WebP and APNG with Pillow, other containers with PyAV."""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import MediaError
from .file_limits import MAX_PIXELS, check_frames, check_size
from .pictures import Pixels, decode_animation
from .sources import EncodedMedia

MAX_PACKETS = 1_000_000
"""Packets of a container: more than 9 hours at 30 frames per second."""

Clip = tuple[list[Pixels], list[float]]
"""Frames, and the time of each frame in seconds."""


def decode_video(source: EncodedMedia, num_frames: int | None) -> Clip:
    """Return evenly spaced frames of an encoded video; all frames without `num_frames`.

    Raises:
        MediaError: The format is not allowed or needs PyAV, the video is too long or large,
            truncated or damaged.
    """
    container = _container_format(source.data)
    if container is not None:
        return _decode_container(source, container, num_frames)
    frames, times = decode_animation(source)
    chosen = spread(len(frames), num_frames)
    return [frames[i] for i in chosen], [times[i] for i in chosen]


def spread(count: int, num_frames: int | None) -> list[int]:
    """Return the indices of at most `num_frames` of `count` frames, the first and the last
    included, as SGLang does."""
    if num_frames is None or num_frames >= count:
        return list(range(count))
    return [int(index) for index in np.linspace(0, count - 1, num_frames)]


def _container_format(data: bytes) -> str | None:
    """Return FFmpeg's name of a container, by content. Formats with references to other
    files, such as playlists, have no name."""
    if data[4:8] == b"ftyp":
        return "mp4"
    if data[:4] == b"\x1aE\xdf\xa3":
        return "matroska"
    if data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        return "avi"
    return None


def _decode_container(source: EncodedMedia, container: str, num_frames: int | None) -> Clip:
    try:
        av: Any = import_module("av")
    except ImportError:
        hint = "pip install av, or give a GIF, WebP or a list of frames"
        raise MediaError(f"{source.name} needs PyAV to be decoded", hint) from None

    try:
        options = {"enable_drefs": "0", "protocol_whitelist": "none"}
        with av.open(io.BytesIO(source.data), format=container, options=options) as file:
            return _decode(source.name, _VideoStream.open(source.name, file), num_frames)
    except (av.FFmpegError, OSError, ValueError) as error:
        if isinstance(error, MediaError):
            raise
        hint = "the file is truncated or damaged; convert it to MP4 again"
        reason = getattr(error, "strerror", None) or error
        raise MediaError(f"{source.name} cannot be decoded: {reason}", hint) from None


@dataclass(frozen=True, slots=True)
class _VideoStream:
    """First video stream of a container, with the times of its packets."""

    file: Any
    stream: Any
    times: list[int]  # in units of the stream, sorted
    keys: list[int]  # indices in `times` of frames that decode without earlier frames

    @classmethod
    def open(cls, name: str, file: Any) -> _VideoStream:
        if not file.streams.video:
            raise MediaError(f"{name} has no video stream", "use audio(x) for sound")
        stream = file.streams.video[0]
        if stream.codec_context is None:
            raise MediaError(f"{name} has an unknown video codec", "convert it to MP4 with H.264")
        check_size(name, stream.width, stream.height)
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS), "err_detect": "explode"}

        times, keys = [], []
        for packet in file.demux(stream):
            time = packet.dts if packet.pts is None else packet.pts
            if time is None or packet.size == 0:
                continue
            times.append(time)
            keys += [time] if packet.is_keyframe else []
            if len(times) > MAX_PACKETS:
                hint = "cut the video into shorter files"
                raise MediaError(f"{name} has more than {MAX_PACKETS:,} frames", hint)
        times = sorted(set(times))
        if not times:
            raise MediaError(f"{name} has no frames", "convert it to MP4 again")
        return cls(file, stream, times, [bisect_left(times, key) for key in sorted(keys)])

    def frames(self, indices: list[int]) -> Iterator[Any]:
        """Yield the frames at sorted `indices`. Seeks over gaps with a key frame inside."""
        self.file.seek(self.times[0], stream=self.stream)
        decoded, position = self.file.decode(self.stream), -1
        for index in indices:
            key = self.keys[max(0, bisect_right(self.keys, index) - 1)] if self.keys else 0
            if position + 1 < key <= index:
                self.file.seek(self.times[key], stream=self.stream)
                decoded = self.file.decode(self.stream)
            for frame in decoded:
                if frame.pts is not None and frame.pts >= self.times[index]:
                    position = index
                    yield frame
                    break
            else:
                return


def _decode(name: str, video: _VideoStream, num_frames: int | None) -> Clip:
    indices = spread(len(video.times), num_frames)
    width, height = video.stream.width, video.stream.height
    check_frames(name, len(indices), width, height)

    frames: list[Pixels] = []
    for frame in video.frames(indices):
        if (frame.width, frame.height) != (width, height):
            hint = "convert it to one size"
            raise MediaError(f"{name} changes its size to {frame.width}×{frame.height}", hint)
        pixels = frame.to_ndarray(format="rgb24")
        turns = round(getattr(frame, "rotation", 0) / 90)
        frames.append(np.ascontiguousarray(np.rot90(pixels, turns)))
    if len(frames) < len(indices):
        hint = "the file is truncated or damaged; convert it to MP4 again"
        raise MediaError(f"{name} ends after {len(frames)} of {len(indices)} frames", hint)
    seconds = float(video.stream.time_base)
    begin = video.times[0]
    return frames, [(video.times[index] - begin) * seconds for index in indices]
