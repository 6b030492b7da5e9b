"""The network's shape, and how a trained one becomes files that transformers loads as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from .forms import BOS, END, PAD
from .tokenizer import CONTEXT, VOCABULARY


def ids(tokenizer: Path) -> dict[str, Any]:
    """The token ids that configurations name."""
    vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab()
    return {"bos_token_id": vocabulary[BOS], "eos_token_id": vocabulary[END], "pad_token_id": vocabulary[PAD]}


def build(tokenizer: Path) -> LlamaForCausalLM:
    """A fresh network of 7.0 million parameters, random weights, float32."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=320, intermediate_size=768, num_hidden_layers=5, num_attention_heads=8,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, rms_norm_eps=1e-5, **ids(tokenizer))
    return LlamaForCausalLM(config)


def export(model: LlamaForCausalLM, tokenizer: Path, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors (bf16) to `folder`."""
    marks = ids(tokenizer)
    half = LlamaForCausalLM(model.config)
    half.bfloat16()
    half.load_state_dict(model.state_dict())
    half.generation_config = GenerationConfig(do_sample=False, **marks)
    half.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written for the owner alone, and packages keep a file's mode
