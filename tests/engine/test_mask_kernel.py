"""The mask kernels agree with the masks and automata of the host, in triton's interpreter."""

from __future__ import annotations

import pytest

from .interpreter import interpreted, needs_triton


@needs_triton
@pytest.mark.slow
def test_the_kernels_in_the_interpreter() -> None:
    assert interpreted("mask_kernel_check") == ["3", "rounds", "agree"]
