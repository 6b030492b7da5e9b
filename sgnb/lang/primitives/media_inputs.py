"""Primitives: images, videos and sounds. Each function returns an expression."""

from __future__ import annotations

from typing import Any

from ..ir import Expr, media


def image(x: Any, *, fetch: bool = False) -> Expr:
    """Insert an image into the prompt.

    Args:
        x: Path, bytes, data URL, Pillow image, array or tensor (height × width × channels or
            channels first; uint8, or floats from 0 to 1), matplotlib figure, or
            `IPython.display.Image`.
        fetch: Allow `x` to be an http or https URL: at most 20 MB, public addresses, no redirects.

    Raises:
        MediaError: `x` is no image, is damaged, or exceeds a limit.

    Example:
        s += user("What does this chart show? " + image("chart.png"))
        s += assistant(gen("answer", max_tokens=64))
    """
    return media("image", x, (("fetch", fetch),))


def video(
    x: Any, num_frames: int | None = None, *, fetch: bool = False, fps: float | None = None
) -> Expr:
    """Insert a video into the prompt.

    Args:
        x: Path, bytes or data URL of a GIF, WebP or APNG, also of an MP4, WebM or AVI with PyAV;
            a list of images; an array or tensor of frames.
        num_frames: Number of evenly spaced frames; None or -1 takes all frames.
        fetch: As in `image`.
        fps: Frames per second of a list or array; 24 by default.

    Raises:
        MediaError: `x` is no video, is damaged, or exceeds a limit.

    Example:
        s += user(video("clip.mp4", num_frames=8) + "What happens?")
    """
    return media("video", x, (("num_frames", num_frames), ("fetch", fetch), ("fps", fps)))


def audio(x: Any, rate: int | None = None, *, fetch: bool = False) -> Expr:
    """Insert a sound into the prompt.

    Args:
        x: Path, bytes or data URL of a WAV, also of FLAC, Ogg or MP3 with soundfile; an array or
            tensor of samples; `IPython.display.Audio`.
        rate: Samples per second of an array.
        fetch: As in `image`.

    Raises:
        MediaError: `x` is no sound, is damaged, exceeds a limit, or has another rate.

    Example:
        s += user("Write down the words: " + audio("speech.wav"))
    """
    return media("audio", x, (("rate", rate), ("fetch", fetch)))
