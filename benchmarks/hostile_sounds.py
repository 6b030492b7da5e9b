"""Hostile sounds, and paths that are not regular files."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .hostile_images import Case, encoded, photo


def form(
    tag: int = 1, channels: int = 1, rate: int = 8000, block: int = 2, bits: int = 16
) -> bytes:
    """The content of a WAV file's format chunk."""
    return struct.pack("<HHIIHH", tag, channels, rate, rate * block % 2**32, block, bits)


def wav(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(tag + struct.pack("<I", len(data)) + data for tag, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def sound_cases() -> Iterator[Case]:
    samples = np.arange(100, dtype="<i2").tobytes()
    valid = wav((b"fmt ", form()), (b"data", samples))
    yield "wav", valid, True
    yield (
        "wav with other chunks",
        wav((b"LIST", b"x" * 10), (b"fmt ", form()), (b"data", samples)),
        True,
    )
    yield "wav cut", valid[:-50], False
    yield "wav header only", valid[:12], False
    yield "wav without samples", wav((b"fmt ", form())), False
    yield "wav of 0 samples", wav((b"fmt ", form()), (b"data", b"")), False
    yield "wav with data first", wav((b"data", samples), (b"fmt ", form())), False
    yield "wav with a short format", wav((b"fmt ", form()[:10]), (b"data", samples)), False
    yield "wav of 4 GB", valid[:-204] + b"\xff\xff\xff\xff" + valid[-200:], False
    yield "wav with a million chunks", wav(*[(b"junk", b"")] * 1_000_000), False

    headers = {
        "0 channels": form(channels=0, block=0),
        "65,535 channels": form(channels=65_535, block=65_534),
        "rate 0": form(rate=0),
        "rate of 4 GHz": form(rate=2**32 - 1),
        "0 bits": form(bits=0, block=0),
        "7 bits": form(bits=7, block=1),
        "another block": form(block=9),
        "mp3 inside": form(tag=0x55, bits=0, block=1),
        "adpcm": form(tag=2, bits=4, block=256),
        "floats of 16 bits": form(tag=3),
        "extension without format": form(tag=0xFFFE),
        "half a sample": form(block=4, channels=2),
    }
    for name, header in headers.items():
        data = samples[:-2] if name == "half a sample" else samples
        yield f"wav with {name}", wav((b"fmt ", header), (b"data", data)), False

    floats = form(tag=3, block=4, bits=32)
    for name, value in (("NaN", np.nan), ("infinity", -np.inf), ("a value of 1e30", 1e30)):
        data = np.array([0, value, 0.5], "<f4").tobytes()
        yield f"wav with {name}", wav((b"fmt ", floats), (b"data", data)), False
    yield "flac noise", b"fLaC" + bytes(200), False
    yield "ogg noise", b"OggS" + bytes(200), False
    yield "mp3 noise", b"ID3" + b"\xff" * 200, False
    yield "image as a sound", encoded(photo(), "PNG"), False
    yield "midi", b"MThd\0\0\0\6\0\1\0\1\0\x60", False
    yield "empty sound", b"", False


def path_cases(folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Yield name, source, and what the error must mention."""
    pipe, device, loop, sparse = (
        folder / n for n in ("pipe", "zero.png", "loop.png", "sparse.png")
    )
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    loop.symlink_to(loop)
    with sparse.open("wb") as file:
        file.truncate(10 << 30)
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(folder / "door"))
    yield "folder", folder, folder.name
    yield "pipe", pipe, "pipe"
    yield "link to a device", device, "zero.png"
    yield "device", "/dev/zero", "/dev/zero"
    yield "terminal", "/dev/tty", "/dev/tty"
    yield "socket", folder / "door", "door"
    yield "loop of links", loop, "loop.png"
    yield "sparse file of 10 GB", sparse, "sparse.png"
    yield "missing", folder / "missing.png", "missing.png"
    yield "file as a folder", sparse / "x.png", "x.png"
    yield "memory of the process", "/proc/self/mem", "/proc/self/mem"
    yield "long name", "x" * 5000, "xxx"
    yield "null character", "a\0b", "a\\x00b"
    yield "empty name", "", "''"
    yield "address", "http://127.0.0.1/x.png", "127.0.0.1"
    yield "data without a comma", "data:image/png;base64", "data:image"
    yield "data with wrong base64", "data:image/png;base64,@@@", "data:image"
    yield "data of another format", "data:image/svg+xml,%3Csvg/%3E", "data:image"
    yield "data without content", "data:,", "data:,"
    yield "bytes of nothing", b"", "bytes"
    door.close()
