"""Processors of multimodal models, in the folder of a model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from transformers import AutoModelForMultimodalLM, AutoProcessor

from ...errors import SgnbWarning, first_line, printable
from .checkpoint import find_folder
from .config_file import read_config

PROCESSOR_FILES = "processor_config.json", "preprocessor_config.json"


def is_multimodal(folder: Path, config: Any) -> bool:
    """Return whether a folder has a model with encoders of images, videos or sounds, and a
    processor. config: of the folder."""
    has_processor = any((folder / name).is_file() for name in PROCESSOR_FILES)
    return has_processor and type(config) in AutoModelForMultimodalLM._model_mapping


def load_processor(path: str) -> Any:
    """Return the processor in the folder of a multimodal model, or None. Warns if the processor
    cannot be read: the model still takes text."""
    folder = find_folder(path)
    if not is_multimodal(folder, read_config(folder)):
        return None
    try:
        return AutoProcessor.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # from files and libraries of many kinds
        reason = first_line(error)
        message = (
            f"{path!r} takes text only, because its processor cannot be read: {reason}. Install "
            "what the message names (pip install torchvision), or use Engine(..., processor=...)"
        )
        warnings.warn(printable(message), SgnbWarning, stacklevel=2)
        return None
