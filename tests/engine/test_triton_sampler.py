"""Requests whose masks the host makes beside those whose grammars are walked on the device."""

from __future__ import annotations

import pytest

from .interpreter import interpreted, needs_triton


@needs_triton
@pytest.mark.slow
def test_masks_of_both_kinds_in_the_interpreter() -> None:
    assert interpreted("triton_sampler_check") == ["all", "agree"]
