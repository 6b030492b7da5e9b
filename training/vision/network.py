"""The network: the bundled text model behind a small vision tower, as transformers' LLaVA."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer
from torch import Tensor
from transformers import GenerationConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

from .drawings import SIZE

PATCH = 12
TOKENS = (SIZE // PATCH) ** 2
"""Tokens of an image."""

IMAGE = "<|image|>"


def build(text_model: Path) -> LlavaForConditionalGeneration:
    """Return the text model with a vision tower of random weights, in float32."""
    text = LlamaConfig.from_pretrained(text_model)
    marks = {name: getattr(text, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    image_token, text.vocab_size = text.vocab_size, text.vocab_size + 1
    vision = SiglipVisionConfig(
        hidden_size=192, intermediate_size=640, num_hidden_layers=6, num_attention_heads=3, image_size=SIZE,
        patch_size=PATCH, vision_use_head=False)
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=image_token, image_seq_length=TOKENS,
        vision_feature_select_strategy="full", vision_feature_layer=-1, tie_word_embeddings=True, **marks)
    model = LlavaForConditionalGeneration(config).float()  # the text model's configuration says bfloat16
    weights = load_file(text_model / "model.safetensors")
    words = weights["model.embed_tokens.weight"].float()
    weights = {name.removeprefix("model."): tensor.float() for name, tensor in weights.items()}
    weights["embed_tokens.weight"] = torch.cat([words, words.mean(0, keepdim=True)])
    weights.pop("lm_head.weight", None)
    model.model.language_model.load_state_dict(weights)
    model.tie_weights()
    return model


@torch.no_grad()
def interpolate(model: LlavaForConditionalGeneration, trained: Path, share: float) -> None:
    """Give `model` the weights of the folder `trained`; the decoder is interpolated by `share` and frozen."""
    weights = LlavaForConditionalGeneration.from_pretrained(trained, dtype=torch.float32).state_dict()
    for name, parameter in model.named_parameters():
        parameter.lerp_(weights[name], share if "language_model" in name else 1.0)
    model.model.language_model.requires_grad_(False)


def image_rows(model: LlavaForConditionalGeneration, pixels: Tensor) -> Tensor:
    """Return the rows of images in the text decoder, [images, TOKENS, hidden]. pixels: uint8 [images, 96, 96, 3]."""
    scaled = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
    features = model.model.vision_tower(pixel_values=scaled, output_hidden_states=True).hidden_states[-1]
    rows: Tensor = model.model.multi_modal_projector(features)
    return rows


def tokenizer_with_image(text_model: Path) -> Tokenizer:
    """Return the tokenizer of the text model with `IMAGE` behind the other tokens."""
    tokenizer = Tokenizer.from_file(str(text_model / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(IMAGE, special=True)])
    assert tokenizer.token_to_id(IMAGE) == tokenizer.get_vocab_size() - 1
    return tokenizer


CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for message in messages %}"
    "{% if message['role'] not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('unknown role: ' + message['role']) }}{% endif %}"
    "{{ '<|' + message['role'] + '|>\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|image|>' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def export(model: LlavaForConditionalGeneration, text_model: Path, folder: Path) -> None:
    """Write weights (bf16), configuration and processor to `folder`, as sgnb and transformers read them."""
    model.bfloat16().tie_weights()
    text = model.config.text_config
    marks = {name: getattr(text, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(do_sample=False, **marks)
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written for the owner alone, and packages keep a file's mode
    write_processor(text_model, folder)


def write_processor(text_model: Path, folder: Path) -> None:
    """Write tokenizer, image processor and chat template, as `AutoProcessor` reads them."""
    tokenizer_with_image(text_model).save(str(folder / "tokenizer.json"))
    config = json.loads((text_model / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["chat_template"]  # a file, which the processor and the tokenizer read
    config |= {"image_token": IMAGE, "extra_special_tokens": {"image_token": IMAGE}}
    settings = {
        "processor_class": "LlavaProcessor", "image_processor_type": "SiglipImageProcessor",
        "size": {"height": SIZE, "width": SIZE}, "resample": 3, "do_resize": True, "do_rescale": True,
        "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
        "do_convert_rgb": True,
    }
    processor = {
        "processor_class": "LlavaProcessor", "patch_size": PATCH, "vision_feature_select_strategy": "full",
        "num_additional_image_tokens": 0, "image_token": IMAGE,
    }
    files = {"tokenizer_config.json": config, "preprocessor_config.json": settings, "processor_config.json": processor}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")

