"""Tiny random models of transformers' multimodal types with real processors, built offline.

Import `tests.torchvision_stand_in` before transformers if torchvision is not installed.
"""

from __future__ import annotations

from .. import torchvision_stand_in as torchvision_stand_in  # before transformers
from .builder import TYPES, multimodal_model, why_not
from .items import item_text, modalities

__all__ = ["TYPES", "item_text", "modalities", "multimodal_model", "why_not"]
