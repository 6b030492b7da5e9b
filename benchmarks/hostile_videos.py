"""Hostile videos and animations."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import PIL.Image

from .hostile_images import Case, chunk, encoded, photo


def video_cases() -> Iterator[Case]:
    yield from _animation_cases()
    yield from _container_cases()
    if find_spec("av") is not None:
        yield from _movie_cases(movie())


def _animation_cases() -> Iterator[Case]:
    frames = [photo(30, 20), *(photo(30, 20).rotate(90 * i) for i in (1, 2))]
    for form in ("GIF", "WEBP", "PNG"):
        data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
        yield f"{form} animation", data, True
        yield f"{form} animation cut", data[: len(data) * 2 // 3], False
    yield "gif of 100,000 frames", many_frames(100_000), False
    yield "gif of 1,024 frames", many_frames(1024), True
    yield "gif of 1,025 frames", many_frames(1025), False
    yield "gif of 6 large frames", many_frames(6, 8000, 8000), False
    yield "gif that grows", _growing(), False
    counted = chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0))
    still = encoded(photo(), "PNG")
    yield "png with 2 billion announced frames", still[:33] + counted + still[33:], False
    yield "svg animation", b"<svg><animate attributeName='x'/></svg>", False
    inner = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    yield "gif inside a gif's comment", _commented(inner), True


def many_frames(count: int, width: int = 2, height: int = 2) -> bytes:
    """A GIF with equal frames of one pixel on a screen of the given size."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    control = b"!\xf9\x04\x00\x05\x00\x00\x00"
    frame = control + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return head + frame * count + b";"


def _growing() -> bytes:
    data = many_frames(3)
    last = data.rindex(b",\0\0\0\0")
    return data[: last + 5] + struct.pack("<HH", 60_000, 60_000) + data[last + 9 :]


def _commented(inner: bytes) -> bytes:
    data = many_frames(2)
    blocks = [inner[i : i + 255] for i in range(0, len(inner), 255)]
    comment = b"!\xfe" + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"
    return data[:19] + comment + data[19:]


def _container_cases() -> Iterator[Case]:
    playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    yield "playlist", playlist, False
    yield "list of files", b"ffconcat version 1.0\nfile '/etc/passwd'\n", False
    yield "session description", b"v=0\nc=IN IP4 10.0.0.1\nm=video 5004 RTP/AVP 96\n", False
    yield "mp4 header only", b"\0\0\0\x18ftypisom\0\0\2\0isomiso2", False
    yield "mp4 noise", b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(range(256)) * 50, False
    yield "matroska header only", b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1f", False
    yield "matroska noise", b"\x1aE\xdf\xa3" + bytes(range(256)) * 50, False
    yield "avi header only", b"RIFF\xff\xff\xff\x7fAVI LIST", False
    yield "mp4 with a playlist inside", b"\0\0\0\x18ftypisom\0\0\2\0" + playlist, False


def movie(frames: int = 40, width: int = 64, height: int = 48) -> bytes:
    """An MP4 with a moving square."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            pixels = np.zeros((height, width, 3), np.uint8)
            pixels[8:24, number % width : number % width + 16] = 255
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return file.getvalue()


def _movie_cases(data: bytes) -> Iterator[Case]:
    yield "mp4", data, True
    index = data.index(b"moov") - 4
    unknown = data.replace(b"mp4v", b"xxxx").replace(b"esds", b"free")
    yield "mp4 with an unknown codec", unknown, False
    yield "mp4 cut before its index", data[:index], False
    yield "mp4 cut inside its frames", data[: data.index(b"mdat") + 40] + data[index:], False
    yield "mp4 cut inside its index", data[: index + 200], False
    at = data.index(b"mp4v") + 28  # width and height of the sample entry
    resized = data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]
    yield "mp4 with another size in its index", resized, True
    sizes = data.index(b"stsz") + 12
    yield "mp4 with 4 billion frames", data[:sizes] + b"\xff\xff\xff\xff" + data[sizes + 4 :], False
    middle = data.index(b"mdat") + 400
    noise = bytes(np.random.default_rng(2).integers(0, 256, 600, np.uint8))
    yield "mp4 with damaged frames", data[:middle] + noise + data[middle + 600 :], False
    sound = b"RIFF" + struct.pack("<I", 4) + b"WAVE"
    yield "sound as a video", sound, False
    yield "jpeg as a video", encoded(PIL.Image.new("RGB", (3, 2)), "JPEG"), False
    yield "png as a video", encoded(PIL.Image.new("RGB", (3, 2)), "PNG"), True
