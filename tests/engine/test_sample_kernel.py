"""The sampling kernels agree with the sampler in torch, in triton's interpreter. On a GPU:
test_gpu_sampling.py."""

from __future__ import annotations

import pytest

from .interpreter import interpreted, needs_triton, quick_and_whole


@pytest.mark.slow
@needs_triton
@quick_and_whole
def test_the_kernels_in_the_interpreter(part: str) -> None:
    assert interpreted("sample_kernel_check", part) == ["all", "agree"]
