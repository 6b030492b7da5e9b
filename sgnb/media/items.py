"""Values of images, videos and sounds: immutable arrays with a digest. Knows no file format."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .file_limits import MAX_RATE

MediaKind = Literal["image", "video", "audio"]


class MediaItem:
    """Image, video or audio. Equal items have equal digests.

    Attributes:
        kind: "image", "video" or "audio".
    """

    kind: ClassVar[MediaKind]
    mode: ClassVar[str]  # meaning of the array's values, part of the digest
    _digest: bytes | None

    __slots__ = ("__weakref__", "_digest")

    @property
    def digest(self) -> bytes:
        """SHA-256 of kind, mode, shape and content (32 bytes), computed once."""
        if self._digest is None:
            arrays = self._content()
            shapes = ";".join(f"{array.dtype.str}{array.shape}" for array in arrays)
            sha = hashlib.sha256(f"{self.kind} {self.mode} {shapes}\0".encode())
            for array in arrays:
                sha.update(array.data)
            object.__setattr__(self, "_digest", sha.digest())
        assert self._digest is not None
        return self._digest

    @property
    def label(self) -> str:
        """Short description, such as "image 640×480"."""
        raise NotImplementedError

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self._content())

    def _content(self) -> tuple[NDArray[Any], ...]:
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MediaItem):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __copy__(self) -> MediaItem:
        return self

    def __deepcopy__(self, memo: Any) -> MediaItem:
        return self

    def __repr__(self) -> str:
        return f"<{self.label}, sha256 {self.digest.hex()}>"


class Image(MediaItem):
    """RGB image.

    Args:
        pixels: uint8 [height, width, 3]; copied.
    """

    kind, mode = "image", "RGB"
    pixels: NDArray[np.uint8]

    __slots__ = ("pixels",)

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        _check_shape(pixels, "[height, width, 3]", ndim=3, channels=3)
        _initialize(self, pixels=_immutable(pixels, "|u1"))

    @property
    def label(self) -> str:
        height, width, _ = self.pixels.shape
        return f"image {width}×{height}"

    def _content(self) -> tuple[NDArray[Any], ...]:
        return (self.pixels,)

    def __reduce__(self) -> Any:
        return Image, (self.pixels,)


class Video(MediaItem):
    """RGB frames of equal size.

    Args:
        frames: uint8 [frames, height, width, 3]; copied.
        times: float64 [frames], the time of each frame in seconds.
    """

    kind, mode = "video", "RGB"
    frames: NDArray[np.uint8]
    times: NDArray[np.float64]

    __slots__ = ("frames", "times")

    def __init__(self, frames: NDArray[np.uint8], times: Any) -> None:
        _check_shape(frames, "[frames, height, width, 3]", ndim=4, channels=3)
        times = np.asarray(times, "<f8")
        if times.shape != frames.shape[:1] or not np.isfinite(times).all():
            raise ValueError(f"{frames.shape[0]} frames need as many finite times")
        _initialize(self, frames=_immutable(frames, "|u1"), times=_immutable(times, "<f8"))

    @property
    def label(self) -> str:
        count, height, width, _ = self.frames.shape
        return f"video {count} frame{'s' * (count != 1)} {width}×{height}"

    def _content(self) -> tuple[NDArray[Any], ...]:
        return self.frames, self.times

    def __reduce__(self) -> Any:
        return Video, (self.frames, self.times)


class Audio(MediaItem):
    """Sound of one channel.

    Args:
        samples: float32 [samples], usually from -1 to 1; copied.
        rate: Samples per second.
    """

    kind = "audio"
    samples: NDArray[np.float32]
    rate: int

    __slots__ = ("rate", "samples")

    def __init__(self, samples: NDArray[np.float32], rate: int) -> None:
        _check_shape(samples, "[samples]", ndim=1)
        if not 1 <= rate <= MAX_RATE or rate != int(rate):
            raise ValueError(f"{rate!r} is not a number of samples per second")
        _initialize(self, samples=_immutable(samples, "<f4"), rate=int(rate))

    @property
    def mode(self) -> str:  # type: ignore[override]
        return f"{self.rate} Hz"

    @property
    def label(self) -> str:
        return f"audio {len(self.samples) / self.rate:.1f} s"

    def _content(self) -> tuple[NDArray[Any], ...]:
        return (self.samples,)

    def __reduce__(self) -> Any:
        return Audio, (self.samples, self.rate)


def _initialize(item: MediaItem, **fields: Any) -> None:
    for name, value in (*fields.items(), ("_digest", None)):
        object.__setattr__(item, name, value)


def _immutable(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return a contiguous array in `bytes`, which no flag makes writable."""
    if array.dtype != dtype:
        raise ValueError(f"the type {array.dtype} is not {np.dtype(dtype)}")
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, bytes) and array.flags.c_contiguous:
        return array
    copy = np.ascontiguousarray(array, dtype)
    return np.frombuffer(copy.tobytes(), dtype).reshape(copy.shape)


def _check_shape(array: NDArray[Any], shape: str, ndim: int, channels: int | None = None) -> None:
    wrong = array.ndim != ndim or 0 in array.shape
    if wrong or (channels is not None and array.shape[-1] != channels):
        raise ValueError(f"the shape {list(array.shape)} is not {shape}")
