"""Limits of media from files, and the allowed file formats."""

from __future__ import annotations

from ..errors import MediaError

MAX_PIXELS = 64_000_000
"""Width times height of an image or a frame."""

MAX_FRAMES = 1024
"""Frames of a video."""

MAX_VIDEO_PIXELS = 2**27
"""Pixels of all frames of a video together: 0.4 GB of memory."""

MAX_SAMPLES = 2**26
"""Samples of a sound: 70 minutes at 16 kHz."""

MAX_RATE = 768_000
"""Samples per second."""

MAX_BYTES = {"image": 2**27, "video": 2**30, "audio": 2**29}
"""Size of a file, of bytes or of a data URL, by kind."""

MAX_DOWNLOAD = 20_000_000
"""Bytes of a download."""

IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Image formats by content, with Pillow's names. No format with scripts or references."""

ANIMATION_FORMATS = ("GIF", "WEBP", "PNG")
"""Formats of animations, with Pillow's names."""


def check_size(name: str, width: int, height: int) -> None:
    """Raise MediaError for an image or frame without pixels, or with too many."""
    if width < 1 or height < 1:
        raise MediaError(f"{name} has no pixels: {width}×{height}", "give an image with pixels")
    if width * height > MAX_PIXELS:
        raise MediaError(
            f"{name} has {width}×{height} pixels, more than {MAX_PIXELS / 1e6:g} million",
            "scale it down first, for example with Pillow's Image.thumbnail",
        )


def check_frames(name: str, count: int, width: int, height: int) -> None:
    """Raise MediaError for a video with too many frames, or too many pixels in all frames."""
    check_size(name, width, height)
    if count > MAX_FRAMES:
        raise MediaError(
            f"{name} has more than {MAX_FRAMES} frames",
            "choose frames: video(x, num_frames=32), or a list of frames",
        )
    if count * width * height > MAX_VIDEO_PIXELS:
        raise MediaError(
            f"{name}: {count} frames of {width}×{height} pixels are more than"
            f" {MAX_VIDEO_PIXELS / 1e6:.0f} million pixels",
            "choose fewer frames, video(x, num_frames=8), or scale the frames down",
        )


def check_bytes(name: str, kind: str, count: int) -> None:
    """Raise MediaError for a file, bytes or data URL above the limit of `kind`."""
    if count == 0:
        raise MediaError(f"{name} is empty", f"give a file with {with_article(kind)}")
    if count > MAX_BYTES[kind]:
        limit = MAX_BYTES[kind] >> 20
        raise MediaError(
            f"{name} has {count:,} bytes, more than {limit} MiB", f"give a smaller {kind} file"
        )


def with_article(kind: str) -> str:
    """Return the noun of a kind of media with its article."""
    return {"image": "an image", "video": "a video", "audio": "a sound"}[kind]
