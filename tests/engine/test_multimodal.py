"""Text decoders of multimodal models, as a loaded model and from the folder of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

from sgnb.engine.engine import Engine

from ..hybrid_models import hybrid_config
from ..random_models import continuations

VISION = {
    "depth": 1, "hidden_size": 36, "num_heads": 2, "intermediate_size": 44, "out_hidden_size": 48,
    "num_position_embeddings": 64,
}  # fmt: skip
PROMPTS = [[5, 9, 13, 21], [7], [3 + (11 * i) % 90 for i in range(40)]]


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_the_decoder_of_a_multimodal_checkpoint(family: str, tmp_path: Path) -> None:
    text = hybrid_config(f"{family}_text").to_dict()
    kind: Any = CONFIG_MAPPING[family]
    config = kind(text_config=text, vision_config=VISION)
    torch.manual_seed(0)
    model: Any = AutoModelForImageTextToText.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.mul_(4.0)
    expected = continuations(model, PROMPTS, 6)
    model.save_pretrained(tmp_path)
    for source in (model, tmp_path):
        with Engine(source, device="cpu") as engine:
            outputs = engine.generate(PROMPTS, temperature=0, max_new_tokens=6, ignore_eos=True)
        assert [output.token_ids for output in outputs] == expected
