"""Requests whose masks the host makes beside those whose grammars are walked on the device."""

from __future__ import annotations

from .interpreter import interpreted, needs_triton, quick_and_whole


@needs_triton
@quick_and_whole
def test_masks_of_both_kinds_in_the_interpreter(part: str) -> None:
    assert interpreted("triton_sampler_check", part) == ["all", "agree"]
