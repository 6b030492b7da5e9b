"""Tiny random models of transformers' multimodal types with real processors, built offline.

`multimodal_model(kind)` builds a model and its processor, `reference` continues a prompt by
transformers alone. Sizes follow rules (`shapes`), special tokens come from the processor's source
(`vocabulary`), and `exceptions` holds the deviations of single types as data.
"""

from __future__ import annotations

from .. import torchvision_stand_in as torchvision_stand_in  # before transformers

# isort: split
from transformers.utils import is_torchvision_available

from .builder import TYPES, multimodal_model, why_not
from .items import item_text, modalities
from .reference import Reference, encode, reference

if not is_torchvision_available():
    raise ImportError(
        "transformers was imported before tests.torchvision_stand_in and found no torchvision."
        " Import tests.torchvision_stand_in first."
    )

__all__ = [
    "TYPES", "Reference", "encode", "item_text", "modalities", "multimodal_model", "reference",
    "why_not",
]  # fmt: skip
