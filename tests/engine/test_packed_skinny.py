"""Products of a few rows with packed weights, see `packed_skinny_check`."""

from __future__ import annotations

import pytest

from .interpreter import interpreted, needs_triton, quick_and_whole, run_check


@needs_triton
@quick_and_whole
def test_the_products_are_those_of_the_dequantized_weights_in_the_interpreter(part: str) -> None:
    assert interpreted("packed_skinny_check", part) == ["all", "agree"]


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("part", ["packed", "dots"])
def test_the_kernels_compile_for_a_gpu(part: str) -> None:
    assert run_check("sm90_check", part) == ["all", "compiled"]
