"""Sounds: WAV in all sample formats, arrays, and other formats through soundfile."""

from __future__ import annotations

import io
import struct
import sys
import wave
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hostile_sounds import form, wav
from sgnb.errors import MediaError
from sgnb.media import Audio, read_audio

TONE = np.sin(np.arange(400) / 9).astype(np.float32)


def pcm(values: np.ndarray, bits: int) -> bytes:
    """Samples from -1 to 1 as integers of little-endian order."""
    whole = np.round(values.astype(np.float64) * (2 ** (bits - 1) - 1)).astype(np.int64)
    if bits == 8:
        return (whole + 128).astype(np.uint8).tobytes()
    return b"".join(int(v).to_bytes(bits // 8, "little", signed=True) for v in whole.ravel())


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("is_extended", [False, True])
def test_integers(bits: int, channels: int, is_extended: bool) -> None:
    values = np.stack([TONE * (i + 1) / channels for i in range(channels)], axis=1)
    block = channels * bits // 8
    header = form(1, channels, 22_050, block, bits)
    if is_extended:
        guid = bytes.fromhex("0100000000001000800000aa00389b71")
        header = struct.pack("<H", 0xFFFE) + header[2:] + struct.pack("<HHI", 22, bits, 3) + guid
    audio = read_audio(wav((b"fmt ", header), (b"data", pcm(values, bits))))
    assert audio.rate == 22_050
    assert audio.samples == pytest.approx(values.mean(axis=1), abs=2.0 ** (2 - bits) + 1e-6)


@pytest.mark.parametrize("size", [4, 8])
def test_floats(size: int) -> None:
    header = form(3, 1, 16_000, size, 8 * size)
    audio = read_audio(wav((b"fmt ", header), (b"data", TONE.astype(f"<f{size}").tobytes())))
    assert audio == Audio(TONE, 16_000)


@given(st.binary(min_size=2, max_size=200).filter(lambda data: len(data) % 2 == 0))
def test_16_bits_as_the_standard_library(data: bytes) -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(data)
    audio = read_audio(file.getvalue())
    assert audio == Audio(np.frombuffer(data, "<i2").astype(np.float32) / 32768, 8000)


def test_chunks_of_odd_length_are_padded() -> None:
    data = wav((b"fmt ", form()))
    data += b"note" + struct.pack("<I", 3) + b"abc\0" + b"data" + struct.pack("<I", 4) + bytes(4)
    assert len(read_audio(data).samples) == 2


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (TONE, TONE),
        (TONE.astype(np.float64), TONE),
        (torch.from_numpy(TONE), TONE),
        (np.stack([TONE, -TONE], axis=1), TONE * 0),
        (np.stack([TONE, TONE]), TONE),
        (TONE[None], TONE),
        (np.array([0, 16384, -32768], np.int16), [0, 0.5, -1]),
        (np.array([0, 2**30, -(2**31)], np.int32), [0, 0.5, -1]),
        (np.array([128, 192, 0], np.uint8), [0, 0.5, -1]),
    ],
)
def test_arrays(array: Any, expected: Any) -> None:
    audio = read_audio(array, rate=np.int64(8000))
    assert type(audio.rate) is int and audio.rate == 8000
    assert audio.samples == pytest.approx(np.asarray(expected), abs=1e-7)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([0, np.nan]), "NaN"),
        (np.array([0, np.inf]), "NaN or infinite"),
        (np.array([0.0, 3000.0]), "a sample of 3000"),
        (np.arange(5), "type int64"),
        (np.zeros((100, 50)), "not a sound"),
        (np.zeros((2, 3, 4)), "not a sound"),
        (np.zeros(0), "not a sound"),
        (np.broadcast_to(np.float32(0), 2**27), "samples, more than"),
        (None, "not a sound"),
        ("missing.wav", "missing.wav"),
    ],
)
def test_wrong_arrays(array: Any, message: str) -> None:
    with pytest.raises(MediaError, match=message) as caught:
        read_audio(array, rate=8000)
    assert caught.value.hint


@pytest.mark.parametrize("rate", [0, -1, 10**7, 0.5, "8000", True, float("nan")])
def test_wrong_rates(rate: Any) -> None:
    with pytest.raises(MediaError, match="rate"):
        read_audio(TONE, rate=rate)


def test_the_rate_of_a_file() -> None:
    data = wav((b"fmt ", form(rate=8000)), (b"data", bytes(20)))
    assert read_audio(data, rate=8000) == read_audio(data) == read_audio(read_audio(data))
    with pytest.raises(MediaError, match="8000 Hz, not 16000"):
        read_audio(data, rate=16_000)


class FakeSoundFile:
    """The part of soundfile's interface that sgnb uses."""

    frames, channels, samplerate = 3, 2, 44_100

    def __init__(self, file: io.BytesIO) -> None:
        if b"damaged" in file.getvalue():
            raise RuntimeError("damaged stream")

    def __enter__(self) -> FakeSoundFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, frames: int, dtype: str, always_2d: bool) -> np.ndarray:
        assert (frames, dtype, always_2d) == (3, "float32", True)
        return np.array([[0, 1], [0.5, 0.5], [-1, 0]], np.float32)


def test_other_formats_through_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", SimpleNamespace(SoundFile=FakeSoundFile))
    for magic in (b"fLaC", b"OggS", b"ID3"):
        audio = read_audio(magic + bytes(20))
        assert audio == Audio(np.array([0.5, 0.5, -0.5], np.float32), 44_100)
    with pytest.raises(MediaError, match="damaged stream"):
        read_audio(b"fLaC damaged")
    monkeypatch.setattr(FakeSoundFile, "frames", 2**40)
    with pytest.raises(MediaError, match="more than"):
        read_audio(b"fLaC" + bytes(20))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MediaError, match=r"needs soundfile.*\n  hint: pip install soundfile"):
        read_audio(b"fLaC" + bytes(20))
