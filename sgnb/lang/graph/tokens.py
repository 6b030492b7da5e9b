"""Compare token sequences as bytes: four bytes per token preserve order and shared prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def common_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length in tokens of the common prefix."""
    return common(as_bytes(a), as_bytes(b))


def as_bytes(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, ">i4").tobytes()


def common(a: bytes, b: bytes) -> int:
    """Return the length in tokens of the common prefix."""
    size = min(len(a), len(b)) // 4
    same = np.frombuffer(a, ">i4", size) == np.frombuffer(b, ">i4", size)
    return size if same.all() else int(same.argmin())
