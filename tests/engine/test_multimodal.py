"""Text decoders of multimodal models, as a loaded model and from the folder of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText, PreTrainedModel

from sgnb.engine.engine import Engine
from sgnb.engine.request.request import Request
from sgnb.engine.step_input import EmbeddingSpan, Media

from ..hybrid_models import hybrid_config, hybrid_model
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


def greedy(model: PreTrainedModel, prompt: list[int], media: Media, count: int) -> list[int]:
    """Tokens of transformers, with explicit rotary positions and embeddings."""
    tokens = list(prompt)
    for _ in range(count):
        rows = model.get_input_embeddings()(torch.tensor(tokens))
        for begin, embeddings in media.embeddings:
            rows[begin : begin + len(embeddings)] = embeddings
        positions = torch.from_numpy(media.rotary_span(0, len(tokens)).copy())
        with torch.no_grad():
            logits = model(
                inputs_embeds=rows[None], position_ids=positions[:, None], use_cache=False
            ).logits
        tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("fuse", [True, False])
def test_positions_with_axes_and_precomputed_embeddings(
    fuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of 4 x 3 patches at the tokens 6 to 18, beside a prompt of text in chunks."""
    rope = {
        "rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 1.0,
        "mrope_section": [3, 3, 2],
    }  # fmt: skip
    model = hybrid_model("qwen3_5_text", rope_parameters=rope)
    prompt = PROMPTS[2][:25]
    patch = np.arange(12)
    image = np.stack([np.full(12, 6), 6 + patch // 3, 6 + patch % 3])
    text = [np.broadcast_to(np.arange(a, b), (3, b - a)) for a, b in ((0, 6), (10, 17))]
    span = EmbeddingSpan(6, torch.randn(12, model.config.hidden_size) * 3)
    media = Media(np.concatenate([text[0], image, text[1]], 1), [span])
    expected = greedy(model, prompt, media, 6)
    plain = Media(np.broadcast_to(np.arange(25), (3, 25)), [span])
    assert expected != greedy(model, prompt, plain, 6), "positions do not matter here"

    own = Request.__init__

    def with_media(request: Request, id: int, tokens: Any, *more: Any, **options: Any) -> None:
        own(request, id, tokens, *more, **options)
        request.media = media if len(tokens) == len(prompt) else None

    monkeypatch.setattr(Request, "__init__", with_media)
    with Engine(model, device="cpu", max_step_tokens=10, fuse=fuse) as engine:
        outputs = engine.generate(
            [prompt, PROMPTS[0]], temperature=0, max_new_tokens=6, ignore_eos=True
        )
    assert outputs[0].token_ids == expected
    assert outputs[1].token_ids == continuations(model, [PROMPTS[0]], 6)[0]
