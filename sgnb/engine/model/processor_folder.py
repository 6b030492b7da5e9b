"""Processors of multimodal models, in the folder of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModelForMultimodalLM, AutoProcessor

from ...errors import ModelError
from .checkpoint import find_folder
from .config_file import read_config

PROCESSOR_FILES = "processor_config.json", "preprocessor_config.json"


def is_multimodal(folder: Path) -> bool:
    """Return whether a folder has a model with encoders of images, videos or sounds, and a
    processor."""
    if not any((folder / name).is_file() for name in PROCESSOR_FILES):
        return False
    return type(read_config(folder)) in AutoModelForMultimodalLM._model_mapping


def load_processor(path: str) -> Any:
    """Return the processor in the folder of a multimodal model, or None."""
    folder = find_folder(path)
    if not is_multimodal(folder):
        return None
    try:
        return AutoProcessor.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # from files and libraries of many kinds
        message = f"the processor of {path!r} cannot be read: {str(error)[:300]}"
        hint = "install what the message names (pip install torchvision), or use processor=..."
        raise ModelError(message, hint) from error
