"""The products of a few rows agree with float64, in triton's interpreter."""

from __future__ import annotations

from .interpreter import interpreted, needs_triton, quick_and_whole


@needs_triton
@quick_and_whole
def test_the_kernels_in_the_interpreter(part: str) -> None:
    assert interpreted("skinny_check", part) == ["all", "agree"]
