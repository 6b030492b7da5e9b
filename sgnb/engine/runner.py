"""One forward pass over a step's chunks. Knows tensors; knows nothing of requests' lives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .attention import AttentionBackend
from .model import Decoder, takes_logits_to_keep
from .request import Chunk


class ModelRunner:
    """Runs a decoder on the flattened tokens of a step: input_ids [1, T] with explicit positions."""

    def __init__(self, decoder: Decoder, attention: AttentionBackend) -> None:
        self._decoder = decoder
        self._model = decoder.model
        self._device = decoder.device
        self._attention = attention
        self._keeps = takes_logits_to_keep(decoder.model)
        # Our attention makes its own masks. A mask of four dimensions keeps transformers from preparing one, and from
        # the synchronisation with a GPU that this takes.
        self._unused_mask = torch.zeros(1, 1, 1, 1, device=decoder.device)

    def forward(self, chunks: list[Chunk]) -> Tensor:
        """Float32 logits [rows, vocab], `logit_rows(chunk)` rows for each chunk in order. Writes the tokens' KV.

        Call it in `torch.inference_mode`.
        """
        ids = _joined([c.request.tokens[c.start : c.end] for c in chunks])
        positions = _joined([np.arange(c.start, c.end) for c in chunks])
        rows, first = [], 0
        for chunk in chunks:
            rows += [first + position - chunk.start for position in logit_rows(chunk)]
            first += chunk.length
        keep = self._tensor(np.array(rows, np.int64))
        self._attention.plan(chunks)
        out = self._model(
            input_ids=self._tensor(ids)[None],
            position_ids=self._tensor(positions)[None],
            use_cache=False,
            attention_mask=self._unused_mask,
            sgnb=self._attention,
            **({"logits_to_keep": keep} if self._keeps else {}),
        )
        logits: Tensor = out.logits[0]
        return (logits if self._keeps else logits[keep]).float()

    def release(self) -> None:
        """Leave the model as it was found. The runner runs no more."""
        self._decoder.release()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64, copy=False)).to(self._device, non_blocking=True)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def logit_rows(chunk: Chunk) -> range:
    """The positions of a chunk whose logits are needed: to score a prompt token, or to sample a new one."""
    first = max(chunk.start, chunk.request.score_from - 1)
    last = chunk.end if chunk.samples or chunk.end < chunk.request.size else chunk.end - 1
    return range(first, max(first, last))
