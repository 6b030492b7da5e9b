"""Arrays and lists that are no images, videos or sounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

HUGE = np.broadcast_to(np.uint8(0), (100_000, 100_000, 3))  # one byte of memory


def array_cases() -> Iterator[tuple[str, str, Any]]:
    """Yield kind, name and source."""
    image = np.zeros((4, 5, 3), np.uint8)
    yield "image", "10 gigapixels", HUGE
    yield "image", "10 gigapixels of floats", np.broadcast_to(np.float64(0), HUGE.shape)
    yield "image", "NaN", np.full((4, 5, 3), np.nan)
    yield "image", "floats above 1", image + 1.5
    yield "image", "negative floats", image - 0.1
    yield "image", "int64", image.astype(np.int64)
    yield "image", "complex", image.astype(complex)
    yield "image", "objects", np.array([[None, "x"]])
    yield "image", "two channels", np.zeros((6, 5, 2), np.uint8)
    yield "image", "no pixels", np.zeros((0, 5, 3), np.uint8)
    yield "image", "five axes", np.zeros((1, 1, 4, 5, 3), np.uint8)
    yield "image", "scalar", np.uint8(3)
    yield "image", "None", None
    yield "image", "number", 7
    yield "image", "list", [image]
    yield "video", "100,000 frames", np.broadcast_to(image, (100_000, *image.shape))
    yield "video", "list of 100,000 frames", [image] * 100_000
    yield (
        "video",
        "200 frames of 2 megapixels",
        np.broadcast_to(image[:1, :1], (200, 1500, 1400, 3)),
    )
    yield "video", "frames of different sizes", [image, image[:3]]
    yield "video", "no frames", np.zeros((0, 4, 5, 3), np.uint8)
    yield "video", "empty list", []
    yield "video", "list with a number", [image, 3]
    yield "video", "image", image
    yield "video", "scalar as a video", np.uint8(3)
    yield "audio", "samples without a rate", np.zeros(100, np.float32)
