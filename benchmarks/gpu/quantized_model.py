"""Packed weights with random numbers, and models of them that never exist in a dense form."""

from __future__ import annotations

from typing import Any

from .shapes import Shape

GROUP = 128
KINDS = ("fp8", "int4", "mxfp4")


def random_packed(kind: str, rows: int, columns: int, device: str, width: float) -> Any:
    """Return a matrix with numbers of a standard deviation of about `width`: FP8 has a scale per
    row, int4 scales and zero points per group, MXFP4 its exponents per 32 columns."""
    import torch

    from sgnb.engine.quantization.packed import PackedWeight

    if kind == "fp8":
        values = torch.empty(rows, columns, dtype=torch.float8_e4m3fn, device=device)
        for part in values.split(4096):
            part.copy_(torch.randn(part.shape, device=device) * 16)
        scales = torch.full((rows, 1), width / 16, device=device)
        return PackedWeight("fp8", values, scales, None, None, (1, columns), fp8_inputs=True)

    group = min(columns, 32 if kind == "mxfp4" or columns % GROUP else GROUP)
    codes = torch.randint(256, (rows, columns // 2), dtype=torch.uint8, device=device)
    shape = rows, -(-columns // group)
    if kind == "mxfp4":
        exponent = torch.tensor(width / 3).log2().round().int().item()
        exponents = torch.full(shape, 127 + int(exponent), dtype=torch.uint8, device=device)
        return PackedWeight("mxfp4", codes, exponents, None, None, (1, group))
    scales = torch.full(shape, width / 4.6, dtype=torch.bfloat16, device=device)
    zeros = torch.full(shape, 8, dtype=torch.uint8, device=device)
    return PackedWeight("int4", codes, scales, zeros, None, (1, group))


def quantized_model(shape: Shape, kind: str, device: str, dtype: str, scale: float = 0.02) -> Any:
    """Return a Llama with packed matrices in all layers; embeddings and output head are dense."""
    import torch
    from torch import nn
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    from sgnb.engine.quantization.modules import QuantizedLinear

    config = CONFIG_MAPPING[shape.family](**(shape.config() | {"torch_dtype": dtype}))
    with torch.device("meta"), no_init_weights():
        model: Any = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    with torch.device(device):
        model.model.rotary_emb = type(model.model.rotary_emb)(config)

    for module in list(model.model.layers.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                sizes = child.out_features, child.in_features
                setattr(
                    module, name, QuantizedLinear(random_packed(kind, *sizes, device, scale), None)
                )
    with torch.no_grad():
        for module in model.modules():
            for name, old in list(module.named_parameters(recurse=False)):
                new = torch.ones(old.shape, dtype=old.dtype, device=device)
                module._parameters[name] = nn.Parameter(new, requires_grad=False)
                if new.dim() > 1:
                    new.normal_(0, scale)
    model.tie_weights()
    return model
