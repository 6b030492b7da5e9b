"""Identity of a model by the weights in memory: equal fingerprints mean equal KV caches.

Knows no cache. The checksum of a chunk finds each change of one 32-bit word and each swap of two
words, and misses other changes with a probability below 2**-30. Hooks and Python attributes of
modules are not part of the fingerprint, except the scaling of rotary embeddings.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

CHUNK_WORDS = 8192
"""32-bit words of a chunk, which has one sum: 32 KiB."""

CPU_ROWS, GPU_ROWS = 2, 512
"""Chunks per call. On a CPU, products stay in the cache, and the calls are too small for torch's
threads, which wait on a busy machine."""

IRRELEVANT = {"name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"}
"""Config entries without effect on KV: dtypes and classes are facts of the weights and modules."""


@torch.no_grad()
def fingerprint(model: PreTrainedModel, *facts: object) -> str:
    """Return the fingerprint of a model, hexadecimal. Reads all weights.

    Args:
        model: The model in its present state. Rotary factors count as buffers.
        facts: Further facts that determine the KV cache, such as shapes and dtypes, by `repr`.
    """
    digest = hashlib.sha256()
    config = _strip(model.config.to_dict())
    header = [type(model).__name__, transformers.__version__, config, *map(repr, facts)]
    digest.update(json.dumps(header, sort_keys=True, default=repr).encode())

    for name, module in model.named_modules():
        scaling = getattr(module, "attention_scaling", None)  # of rotary embeddings
        if scaling is not None:
            digest.update(f"{name} {scaling!r}\n".encode())

    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(sum_chunks(tensor).cpu().numpy().tobytes())
    return digest.hexdigest()


class ModelFingerprint:
    """Fingerprint of a model's present weights, computed at the first use and after `forget`. Keeps
    no weights alive.

    Args:
        model: The model, which must outlive all calls of `get`.
        facts: See `fingerprint`.
    """

    def __init__(self, model: PreTrainedModel, *facts: object) -> None:
        self._find_model, self._facts = weakref.ref(model), facts
        self._lock = threading.Lock()  # the engine's thread and callers of a handover
        self._value = ""

    def get(self) -> str:
        """Return the fingerprint. The first call reads all weights."""
        with self._lock:
            if not self._value:
                model = self._find_model()
                assert model is not None
                self._value = fingerprint(model, *self._facts)
            return self._value

    def forget(self) -> None:
        """Compute the fingerprint again at the next use: the weights changed."""
        with self._lock:
            self._value = ""


def sum_chunks(tensor: Tensor) -> Tensor:
    """Return a weighted sum of the words of each chunk modulo 2**64, int64[chunks]."""
    packed = tensor.detach().contiguous()
    data = packed.as_strided((packed.numel(),), (1,)).view(torch.uint8)
    if len(data) % 4 or data.storage_offset() % 4:
        data = torch.nn.functional.pad(data, (0, -len(data) % 4))

    words, factors = data.view(torch.int32), _factors(data.device)

    full = len(words) // CHUNK_WORDS * CHUNK_WORDS
    rows = words[:full].view(-1, CHUNK_WORDS)
    sums = [(words[full:] * factors[: len(words) - full]).sum().view(1)]
    sums += [(part * factors).sum(1) for part in rows.split(GPU_ROWS if data.is_cuda else CPU_ROWS)]
    return torch.cat(sums)


@cache
def _factors(device: torch.device) -> Tensor:
    """Return distinct pseudo-random numbers below 2**31, int64[CHUNK_WORDS]."""
    stream = hashlib.shake_128(b"sgnb").digest(4 * CHUNK_WORDS)
    return torch.from_numpy(np.frombuffer(stream, "<u4") // 2 + 1).to(device, torch.int64)


def _strip(value: Any) -> Any:
    """Remove irrelevant and private entries of a config at all depths."""
    if isinstance(value, dict):
        kept = {str(key): _strip(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if key not in IRRELEVANT and key[0] != "_"}

    return [_strip(each) for each in value] if isinstance(value, (list, tuple)) else value
