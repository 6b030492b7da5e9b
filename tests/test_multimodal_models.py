"""Tiny multimodal models, their processors, and greedy tokens by transformers alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

from . import torchvision_functions as functions
from .multimodal_models import (
    TYPES,
    encode,
    item_text,
    modalities,
    multimodal_model,
    reference,
    why_not,
)
from .multimodal_models.decoder import captured, find_decoder, hidden_states
from .multimodal_models.exceptions import EXCEPTIONS
from .multimodal_models.items import clip, picture, sound
from .multimodal_models.reference import Part, modality_of
from .multimodal_models.shapes import tiny_config
from .multimodal_models.vocabulary import TEXT_VOCAB

QUICK = "llava", "qwen2_vl", "gemma3", "idefics3", "paligemma", "qwen2_audio", "qwen3_vl"
OUTSIDE = {"user_token_id", "timestamp_token_id", "_pad_token_id"}
"""Settings with ids of tokens that no prompt has."""

SECONDS = 30  # of processor time, to build a model and its processor


def item(modality: str, seed: int) -> Part:
    return {"image": picture, "video": clip, "audio": sound}[modality](seed)


def prompt(modality: str, seed: int = 1) -> list[Part]:
    return ["Look at this: ", item(modality, seed), " What do you see?"]


def test_each_type_of_transformers_is_built_or_has_a_reason() -> None:
    assert set(TYPES) | set(why_not) == set(MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES)
    assert not set(TYPES) & set(why_not)
    assert all(why_not.values())
    assert set(EXCEPTIONS) <= set(CONFIG_MAPPING)


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUICK)
def test_references_depend_on_the_item_and_equal_generate(kind: str) -> None:
    _check(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(set(TYPES) - set(QUICK))[::8])
def test_references_of_more_types_depend_on_the_item(kind: str) -> None:
    _check(kind)


def _check(kind: str) -> None:
    began = time.process_time()
    model, processor = multimodal_model(kind)
    assert time.process_time() - began < SECONDS
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert modalities(processor)
    for modality in modalities(processor):
        result = reference(model, processor, prompt(modality), 3)
        other = reference(model, processor, prompt(modality, seed=2), 1)
        spread = result.logits.clamp(-100, 100).std()  # masks are large
        assert (result.logits[0] - other.logits[0]).abs().max() > 0.01 * spread
        assert max(result.tokens) < TEXT_VOCAB
        assert not result.logits.isnan().any()
        if kind != "vibevoice_asr":  # draws noise for each forward
            again = reference(model, processor, prompt(modality), 3)
            assert torch.equal(result.logits, again.logits)
            _check_generate(kind, modality, result.tokens)


def _check_generate(kind: str, modality: str, tokens: list[int]) -> None:
    """Compare with transformers' own cache."""
    model, processor = multimodal_model(kind)
    generated = model.generate(
        **encode(processor, prompt(modality)), max_new_tokens=len(tokens), do_sample=False,
        eos_token_id=None,
    )  # fmt: skip
    assert generated[0, -len(tokens) :].tolist() == tokens


@pytest.mark.slow
def test_enough_types_take_each_kind_of_item() -> None:
    kinds = [kind for name in TYPES for kind in modalities(multimodal_model(name)[1])]
    assert kinds.count("image") >= 75
    assert kinds.count("video") >= 18
    assert kinds.count("audio") >= 6


def test_weights_are_the_same_every_time() -> None:
    first, second = (multimodal_model("llava")[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "kind",
    [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in TYPES],
)
def test_no_hidden_size_of_an_encoder_equals_the_decoders(kind: str) -> None:
    config = tiny_config(kind, 420)
    width = config.get_text_config(decoder=True).hidden_size
    for name, part in vars(config).items():
        if isinstance(part, PreTrainedConfig) and "text" not in name and "perceiver" not in name:
            assert getattr(part, "embed_dim", getattr(part, "hidden_size", None)) != width


@pytest.mark.parametrize("kind", QUICK)
def test_ids_of_special_tokens_are_in_the_vocabulary(kind: str) -> None:
    model, _ = multimodal_model(kind)
    vocab = model.get_input_embeddings().num_embeddings
    names = [name for name in vars(model.config) if name.endswith(("token_id", "token_index"))]
    for name in set(names) - OUTSIDE:
        assert (getattr(model.config, name) or 0) < vocab, name


def test_item_text_names_the_placeholder_and_its_markers() -> None:
    _, processor = multimodal_model("qwen2_vl")
    assert item_text(processor, "image") == "<|vision_start|><|image|><|vision_end|>"
    with pytest.raises(ValueError, match="no token for audio"):
        item_text(processor, "audio")


def test_parts_are_told_apart_by_type() -> None:
    parts: list[Part] = ["text", picture(1), clip(1), sound(1)]
    assert [modality_of(part) for part in parts] == ["text", "image", "video", "audio"]


def test_the_decoder_receives_embeddings_and_the_forward_stops_there() -> None:
    model, processor = multimodal_model("llava")
    inputs = dict(encode(processor, prompt("image")))
    decoder = find_decoder(model, inputs)
    assert decoder is model.get_decoder()
    options = captured(model, decoder, inputs)
    assert options["inputs_embeds"].shape[:2] == inputs["input_ids"].shape
    with torch.no_grad():
        logits = model.lm_head(hidden_states(decoder, options))
        assert torch.allclose(logits, model(**inputs, use_cache=False).logits, atol=1e-5)


def test_a_model_that_embeds_in_its_decoder_has_no_separate_decoder() -> None:
    model, processor = multimodal_model("chameleon")
    assert find_decoder(model, dict(encode(processor, prompt("image")))) is None


def test_resizing_agrees_with_pillow() -> None:
    image = picture(1, 90, 70)
    resized = functions.resize(functions.pil_to_tensor(image), [35, 45])
    expected = np.asarray(image.resize((45, 35), Image.Resampling.BILINEAR))
    assert np.abs(resized.movedim(0, -1).numpy().astype(int) - expected).max() <= 1


def test_padding_cropping_and_conversions() -> None:
    image = functions.pil_to_tensor(picture(1, 8, 6))
    padded = functions.pad(image, [1, 2, 3, 4], fill=7)
    assert padded.shape == (3, 12, 12)
    assert (padded[:, :2] == 7).all()
    assert torch.equal(functions.crop(padded, 2, 1, 6, 8), image)
    assert torch.equal(functions.pad(image, 1, fill=[1, 2, 3])[:, 0, 0], torch.tensor([1, 2, 3]))
    scaled = functions.to_dtype(image, torch.float32, scale=True)
    assert scaled.max() <= 1.0
    assert torch.equal(functions.to_dtype(scaled, torch.uint8, scale=True), image)
    normal = functions.normalize(scaled, [0.5] * 3, [0.25] * 3)
    assert torch.allclose(normal * 0.25 + 0.5, scaled)
    gray = functions.rgb_to_grayscale(image)
    assert functions.grayscale_to_rgb(gray).shape == image.shape
    assert functions.to_pil_image(image).size == (8, 6)
