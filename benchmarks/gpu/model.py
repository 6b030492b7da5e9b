"""A Llama with random weights, made on the device, and folders that the peers load the same shape from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .limits import Shape
from .vocabulary import write_tokenizer


def random_llama(shape: Shape, device: str, dtype: str = "bfloat16", seed: int = 0, scale: float = 0.02) -> Any:
    """A transformers model; its matrices are drawn from a normal distribution of width `scale`."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig
    from transformers.initialization import no_init_weights

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device), no_init_weights():
            config = LlamaConfig(**(shape.config() | {"torch_dtype": dtype}))
            model = AutoModelForCausalLM.from_config(config).eval()
    finally:
        torch.set_default_dtype(before)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, scale, generator=generator)
            else:
                parameter.fill_(1)
    return model


def write_folder(folder: Path, shape: Shape, tokenizer: bool) -> Path:
    """A model folder without weights, for `load_format="dummy"`; with the large tokenizer when it is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    config = shape.config()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ends = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    (folder / "generation_config.json").write_text(json.dumps(ends), encoding="utf-8")
    if tokenizer:
        write_tokenizer(folder)
    return folder
