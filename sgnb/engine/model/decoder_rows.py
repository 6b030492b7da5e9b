"""Input of a text decoder for the tokens of images, videos and sounds: embeddings, and further
arguments with entries per token. Knows no families of models."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..step_input import EmbeddingSpan

PLAIN = {
    "input_ids", "inputs_embeds", "position_ids", "attention_mask", "cache_position", "cache",
    "past_key_values", "use_cache", "sgnb",
}  # fmt: skip
"""Arguments of decoders that every text has."""


class MaskedRows(NamedTuple):
    """Argument with an entry for each token of a mask."""

    mask: str  # name of the argument with the mask
    rows: tuple[Tensor, ...]  # each [number of True in the mask, ...]


class DecoderRows(NamedTuple):
    """Rows of consecutive tokens.

    Attributes:
        embeddings: [n, hidden].
        aligned: Further arguments with an entry per token, [n, ...] each.
        picked: Further arguments with entries for masked tokens, such as the additional embeddings
            of the first layers (deepstack).
    """

    embeddings: Tensor
    aligned: Mapping[str, Tensor] = {}
    picked: Mapping[str, MaskedRows] = {}

    @property
    def num_bytes(self) -> int:
        tensors = [self.embeddings, *self.aligned.values()]
        tensors += [row for picked in self.picked.values() for row in picked.rows]
        return sum(tensor.nbytes for tensor in tensors)

    def part(self, begin: int, end: int) -> DecoderRows:
        picked = {}
        for name, (mask, rows) in self.picked.items():
            counts = self.aligned[mask]
            low, high = int(counts[:begin].sum()), int(counts[:end].sum())
            picked[name] = MaskedRows(mask, tuple(row[low:high] for row in rows))
        aligned = {name: tensor[begin:end] for name, tensor in self.aligned.items()}
        return DecoderRows(self.embeddings[begin:end], aligned, picked)

    def clone(self) -> DecoderRows:
        """Return a copy with separate memory."""
        return DecoderRows(
            self.embeddings.clone(),
            {name: tensor.clone() for name, tensor in self.aligned.items()},
            {
                name: MaskedRows(mask, tuple(row.clone() for row in rows))
                for name, (mask, rows) in self.picked.items()
            },
        )


def read_rows(arguments: Mapping[str, Any]) -> DecoderRows:
    """Return the rows in the arguments of a decoder for one sequence.

    Raises:
        ValueError: An argument has no entries per token.
    """
    embeddings: Tensor = arguments["inputs_embeds"][0]
    length = len(embeddings)
    aligned, others = dict[str, Tensor](), dict[str, Sequence[Tensor]]()
    for name, value in arguments.items():
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if name in PLAIN or not any(isinstance(each, Tensor) for each in values):
            continue
        if isinstance(value, Tensor) and value.shape[:2] == (1, length):
            aligned[name] = value[0]
        else:
            others[name] = values

    masks = {name: int(t.sum()) for name, t in aligned.items() if t.dtype == torch.bool}
    picked = {}
    for name, rows in others.items():
        fitting = [
            mask
            for mask, count in masks.items()
            if all(isinstance(row, Tensor) and len(row) == count for row in rows)
        ]
        if not fitting:
            raise ValueError(f"its decoder's argument {name} has no entry per token")
        picked[name] = MaskedRows(fitting[0], tuple(rows))
    return DecoderRows(embeddings, aligned, picked)


class RowSubstitution:
    """Substitution of rows in the calls of a decoder, until `remove`. Engines on one model call the
    decoder on several threads, each with separate spans."""

    def __init__(self, decoder: nn.Module) -> None:
        self._here = threading.local()
        self._hook = decoder.register_forward_pre_hook(self._before, with_kwargs=True)

    def remove(self) -> None:
        """Restore the decoder."""
        self._hook.remove()

    @contextmanager
    def spans(self, spans: Sequence[EmbeddingSpan]) -> Iterator[None]:
        """Substitute the rows of a step."""
        self._here.spans = spans
        try:
            yield
        finally:
            self._here.spans = ()

    def _before(
        self, module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        spans: Sequence[EmbeddingSpan] = getattr(self._here, "spans", ())
        if not spans:
            return None
        embeddings = kwargs["inputs_embeds"].clone()
        length = embeddings.shape[1]
        aligned, picked = dict[str, Tensor](), dict[str, list[tuple[Tensor, ...]]]()
        for begin, rows in spans:
            assert isinstance(rows, DecoderRows)
            end = begin + len(rows.embeddings)
            embeddings[0, begin:end] = rows.embeddings
            for name, tensor in rows.aligned.items():
                if name not in aligned:
                    own = kwargs.get(name)  # of text
                    zeros = tensor.new_zeros(1, length, *tensor.shape[1:])
                    aligned[name] = zeros if own is None else own.clone()
                aligned[name][0, begin:end] = tensor
            for name, (_, tensors) in rows.picked.items():
                picked.setdefault(name, []).append(tensors)

        joined = {
            name: [torch.cat(layers) for layers in zip(*parts, strict=True)]
            for name, parts in picked.items()
        }
        return args, kwargs | {"inputs_embeds": embeddings} | aligned | joined
