"""The survey of multimodal items: findings of known types."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.multimodal_survey import COLUMNS, survey


def row(kind: str, modality: str = "image") -> dict[str, Any]:
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in survey(kind)]
    return next(values for values in rows if values["item"] == modality)


def test_llava_is_causal_with_plain_positions() -> None:
    found = row("llava")
    assert (found["ids"], found["rows"], found["positions"]) == ("yes", "yes", "none")
    assert (found["mask"], found["extras"], found["generate"]) == ("causal", "", "yes")


def test_positions_of_qwen2_vl_compose_on_three_axes() -> None:
    for modality in ("image", "video"):
        assert row("qwen2_vl", modality)["positions"] == "3 axes, composed"


def test_positions_of_hunyuan_do_not_compose() -> None:
    assert row("hunyuan_vl")["positions"] == "3 axes, NOT composed"


def test_deepstack_rows_are_extras() -> None:
    assert row("qwen3_vl")["extras"] == "deepstack_visual_embeds, visual_pos_masks"


@pytest.mark.parametrize(("kind", "mask"), [("gemma3", "item"), ("paligemma", "prompt")])
def test_masks_that_are_not_causal(kind: str, mask: str) -> None:
    assert row(kind)["mask"] == mask


@pytest.mark.slow
def test_types_that_no_generic_path_can_split() -> None:
    assert row("chameleon")["extras"] == "no separate decoder"
    assert row("blip-2")["ids"] == "item first"
    assert row("qwen3_asr", "audio")["ids"] == "one item only"
    assert row("emu3")["ids"] == "no: the processor starts each text with <s>"
