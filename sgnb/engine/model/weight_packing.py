"""Packed weights of a load: the format of a quantized checkpoint, or the quantization of a dense
one. Connects the checkpoint with `quantization`."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ...errors import ModelError
from ..quantization.placement import QuantizationPlan, plan_packing
from ..quantization.quantize import load_scheme
from ..quantization.quantizer import AHEAD, AHEAD_BYTES
from ..quantization.schemes import Scheme, read_scheme
from .checkpoint import Checkpoint
from .config_file import NAME
from .text_decoder import text_decoder

SETTINGS = "quantization_config"


class WeightPacking:
    """Format of the weights of a load. scheme: None for a dense checkpoint that stays dense."""

    def __init__(
        self, path: str, checkpoint: Checkpoint, config: Any, quantize: str | None
    ) -> None:
        """Remove the description of the format from `config`: transformers would look for the
        library of the format. Raises ModelError for an unsupported format."""
        self._path, self._checkpoint, self._quantizes = path, checkpoint, quantize is not None
        self._settings: Any = None
        for part in (config, config.get_text_config()):
            self._settings = self._settings or vars(part).pop(SETTINGS, None)
        if self._settings and quantize:
            raise ModelError(
                f"{path!r} is quantized already, and quantize is {quantize!r}",
                "load without quantize, or give a checkpoint in bfloat16",
            )
        self.scheme: Scheme | None = None
        if self._settings:
            self.scheme = read_scheme(self._settings, repr(str(checkpoint.folder / NAME)))
        elif quantize is not None:
            self.scheme = load_scheme(quantize)

    def plan(self, blank: PreTrainedModel) -> QuantizationPlan:
        """Return the packed parameters of the model, given on the meta device.

        Raises:
            ModelError: The checkpoint does not match the format or the model.
        """
        if self.scheme is None:
            return QuantizationPlan([], frozenset())
        allowed = set(_decoder_modules(blank)) if self._quantizes else None
        plan = plan_packing(self.scheme, self._checkpoint.entries, blank, allowed)
        if not plan.targets and self._quantizes:
            raise ModelError(
                f"{self.scheme.name} finds no linear module in {type(blank).__name__} that sgnb "
                "can quantize",
                "load without quantize",
            )
        if not plan.targets:
            raise ModelError(
                f"{self._path!r} cannot be loaded: its config.json describes {self.scheme.name}, "
                "and no tensor of its checkpoint is stored in this format",
                "give the config.json, with its quantization_config, that was saved with the "
                "weights",
            )
        return plan

    def dense(self, plan: QuantizationPlan) -> Checkpoint:
        """Return the checkpoint without the tensors of the plan."""
        entries = self._checkpoint.entries.items()
        return replace(
            self._checkpoint, entries={name: e for name, e in entries if name not in plan.used}
        )

    def scratch_bytes(self, plan: QuantizationPlan) -> int:
        """Return the size of the largest dense tensors next to their packed forms during the
        load."""
        if not self._quantizes:
            return 0
        sizes = (self._checkpoint.entries[name].size for name in plan.used)
        largest, *others = heapq.nlargest(AHEAD + 1, sizes)
        return largest + min(sum(others), AHEAD_BYTES)

    def finish(self, module: PreTrainedModel) -> None:
        """Restore the config's description of the format, and drop transformers' quantizer."""
        vars(module).pop("hf_quantizer", None)
        vars(module.config).pop(SETTINGS, None)
        if self._settings:
            module.config.quantization_config = self._settings


def stored_parameters(checkpoint: Checkpoint, plan: QuantizationPlan) -> int:
    """Return the number of parameters that a dense checkpoint and packed parameters describe."""
    dense = sum(math.prod(entry.shape) for entry in checkpoint.entries.values())
    return dense + sum(math.prod(layout.shape) for _, layout in plan.targets)


def _decoder_modules(blank: PreTrainedModel) -> Iterator[nn.Module]:
    """Yield the modules of the text decoder, without the output head."""
    head = blank.get_output_embeddings()
    for module in text_decoder(blank).modules():
        if module is not head:
            yield module
