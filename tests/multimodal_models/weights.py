"""Random weights with gains: pixels and context change the tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .vocabulary import TEXT_VOCAB

GAIN = 1.5
"""Standard deviation of a layer's outputs for inputs of unit variance."""

GATES = "gate", "gamma", "lambda_1", "lambda_2", "layer_scale"
"""Endings of parameters that scale a branch, and that random models start near zero."""

CODEBOOK = "codebook.embed"
"""Ending of buffers with the codes of a quantizer, which random models leave at zero."""


def widen(model: PreTrainedModel, gain: float = GAIN) -> None:
    """Draw all weights anew, in place. Placeholders are never the best token."""
    generator = torch.Generator().manual_seed(0)
    embeddings = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                fan_in = 1 if parameter in embeddings else parameter[0].numel()
                scale = (1.0 if parameter in embeddings else gain) * fan_in**-0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
            elif _is_gate(name, parameter):
                parameter.fill_(0.5)
        for name, buffer in model.named_buffers():
            if name.endswith(CODEBOOK):
                buffer.copy_(torch.randn(buffer.shape, generator=generator))
        head = model.get_output_embeddings()
        if head is not None:
            head.weight[TEXT_VOCAB:] = 0


def _is_gate(name: str, parameter: Tensor) -> bool:
    return any(part in name for part in GATES) and "norm" not in name
