"""Decoding of sounds: WAV with an own reader, other formats with soundfile."""

from __future__ import annotations

import io
import struct
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MediaError
from .array_input import MAX_CHANNELS, array_audio, check_samples
from .file_limits import MAX_RATE
from .sources import EncodedMedia

Sound = tuple[NDArray[np.float32], int]
"""Samples of one channel, and the rate."""

MAX_CHUNKS = 1000
"""Chunks of a WAV file before its samples."""

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # format tags of WAV
_MAGIC = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")
"""First bytes of FLAC, Ogg and MP3, which soundfile decodes."""


class _WavFormat(NamedTuple):
    tag: int
    channels: int
    rate: int
    block: int  # bytes of a sample of all channels
    bits: int  # of a sample of one channel


def decode_audio(source: EncodedMedia) -> Sound:
    """Return samples and rate of an encoded sound; several channels become their mean.

    Raises:
        MediaError: The format is not allowed or needs soundfile, the sound is too long, truncated
            or damaged.
    """
    if source.data[:4] == b"RIFF" and source.data[8:12] == b"WAVE":
        return _decode_wav(source)
    if source.data.startswith(_MAGIC):
        return _decode_with_soundfile(source)
    hint = "convert it to WAV"
    raise MediaError(f"{source.name} is not a sound in WAV, FLAC, Ogg or MP3", hint)


def check_rate(name: str, rate: Any) -> int:
    """Return a sample rate as int; raise MediaError for an invalid rate."""
    value = rate.item() if hasattr(rate, "item") else rate
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= MAX_RATE or value != int(value):
        hint = f"give an integer from 1 to {MAX_RATE:,}, for example rate=16000"
        raise MediaError(f"{name} has the rate {value!r}", hint)
    return int(value)


def _decode_wav(source: EncodedMedia) -> Sound:
    """Read the chunks "fmt " and "data" of a WAV file. `wave` of Python 3.11 reads no float samples
    and no extensible format."""
    name, data = source
    form: _WavFormat | None = None
    position = 12
    for _ in range(MAX_CHUNKS):
        if position + 8 > len(data):
            break
        tag, size = struct.unpack_from("<4sI", data, position)
        begin, position = position + 8, position + 8 + size + size % 2
        if tag == b"fmt ":
            form = _read_format(name, data[begin : begin + min(size, 40)])
        elif tag == b"data":
            if form is None:
                raise _damaged(name, "its data stands before its format")
            if begin + size > len(data):
                raise _damaged(name, f"it has {len(data) - begin:,} of {size:,} bytes of samples")
            return _samples(name, form, memoryview(data)[begin : begin + size]), form.rate

    raise _damaged(name, "it has no samples")


def _read_format(name: str, chunk: bytes) -> _WavFormat:
    if len(chunk) < 16:
        raise _damaged(name, "its format is cut")
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        (tag,) = struct.unpack_from("<H", chunk, 24)
    sizes = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}
    if bits not in sizes.get(tag, ()):
        hint = "convert it to WAV with 16 bits (PCM)"
        raise MediaError(f"{name} has samples of format {tag} with {bits} bits", hint)
    if not 1 <= channels <= MAX_CHANNELS or block != channels * bits // 8:
        raise _damaged(name, f"it has {channels} channels in {block} bytes")
    return _WavFormat(tag, channels, check_rate(name, rate), block, bits)


def _samples(name: str, form: _WavFormat, data: memoryview) -> NDArray[np.float32]:
    if len(data) % form.block or not data:
        raise _damaged(name, f"{len(data):,} bytes are not whole samples of {form.block} bytes")
    check_samples(name, len(data) // form.block)
    if form.tag == _FLOAT:
        values: NDArray[Any] = np.frombuffer(data, f"<f{form.bits // 8}")
    elif form.bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        values = wide.view("<i4")[:, 0]
    else:
        values = np.frombuffer(data, {8: "|u1", 16: "<i2", 32: "<i4"}[form.bits])
    return array_audio(name, values.reshape(-1, form.channels))


def _damaged(name: str, reason: str) -> MediaError:
    hint = "the file is truncated or damaged; save it again as WAV"
    return MediaError(f"{name} cannot be decoded: {reason}", hint)


def _decode_with_soundfile(source: EncodedMedia) -> Sound:
    name = source.name
    try:
        soundfile: Any = import_module("soundfile")
    except (ImportError, OSError):  # OSError: its library is absent
        hint = "pip install soundfile, or convert it to WAV"
        raise MediaError(f"{name} needs soundfile to be decoded", hint) from None
    try:
        with soundfile.SoundFile(io.BytesIO(source.data)) as file:
            rate = check_rate(name, file.samplerate)
            check_samples(name, file.frames * file.channels)
            samples = file.read(frames=file.frames, dtype="float32", always_2d=True)
    except RuntimeError as error:  # base class of soundfile's errors
        raise _damaged(name, str(error)) from None
    return array_audio(name, samples), rate
