"""The products of a few rows agree with float64, in triton's interpreter."""

from __future__ import annotations

import pytest

from .interpreter import interpreted, needs_triton


@needs_triton
@pytest.mark.slow
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("skinny_check") == ["all", "agree"]
