"""Models with random weights, made on the device, and folders that peers load their shapes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .shapes import Shape
from .vocabulary import write_tokenizer


def random_model(
    shape: Shape, device: str, dtype: str = "bfloat16", seed: int = 0, scale: float = 0.02
) -> Any:
    """A transformers model of the shape's family. Its matrices are drawn from a normal distribution
    of width `scale`; its vectors, norms' weights, are as the family's constructor makes them."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device), no_init_weights():
            config = CONFIG_MAPPING[shape.family](**(shape.config() | {"torch_dtype": dtype}))
            model = AutoModelForCausalLM.from_config(config).eval()
    finally:
        torch.set_default_dtype(before)
    model.tie_weights()  # with no weights initialised, the constructor has left this out
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, scale, generator=generator)
    return model


_FP8 = {"num_bits": 8, "type": "float", "symmetric": True}

FORMATS: dict[str, dict[str, Any]] = {
    "int4": {
        "quant_method": "awq", "version": "gemm", "bits": 4, "group_size": 128, "zero_point": True,
    },
    "fp8": {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": "float-quantized",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": _FP8 | {"strategy": "channel", "dynamic": False},
                "input_activations": _FP8 | {"strategy": "token", "dynamic": True},
            }
        },
    },
}  # fmt: skip
"""`quantization_config` by name, in the formats of `quantized_model`: AWQ with groups of 128; FP8
with a scale per row of a matrix and per token."""


def write_folder(folder: Path, shape: Shape, tokenizer: bool, packed: str | None = None) -> Path:
    """Write a model folder without weights, for `load_format="dummy"`.

    tokenizer: Write the large tokenizer, too. packed: key of `FORMATS`; None for dense weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = shape.config() | ({"quantization_config": FORMATS[packed]} if packed else {})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ends = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    (folder / "generation_config.json").write_text(json.dumps(ends), encoding="utf-8")
    if tokenizer:
        write_tokenizer(folder)
    return folder
