"""Load-time check of images, videos and sounds: prompts composed of text and items that are
processed alone, against prompts that the processor and the model see as a whole.

Two images of different sizes (or videos, or sounds) stand in one prompt, with text around. The
prompt runs in chunks that end inside the first item. Knows no model families.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ... import media
from ..attention.torch_backend import TorchAttention
from ..cache.kv_cache import KVCache
from ..device.faults import is_out_of_memory
from ..items.item import Item, PlacedItem, PromptItems
from ..step_input import NO_KEY, AttentionInput
from .decoder_rows import RowSubstitution
from .item_encoder import ItemEncoder
from .layer_probe import LayerProbe
from .loading import first_line
from .logit_check import HALF_TOLERANCES, TOLERANCE, relative_error

TEXTS = "one 17 ", " and two 4 ", " make 21"
"""Texts before, between and behind the items."""


class ItemReference(NamedTuple):
    """A prompt with items, and the model's own logits."""

    tokens: list[int]  # of the processor
    logits: Tensor  # [tokens, vocab]
    contents: list[Any]


def sample_contents(kind: str) -> list[Any]:
    """Return two items of different sizes."""
    rng = np.random.default_rng(0)
    sizes = ((72, 104), (120, 88))
    if kind == "image":
        return [media.Image(rng.integers(0, 256, (*size, 3), np.uint8)) for size in sizes]
    if kind == "video":
        return [
            media.Video(rng.integers(0, 256, (frames, *size, 3), np.uint8), np.arange(frames) / 2)
            for frames, size in zip((4, 6), sizes, strict=True)
        ]
    return [
        media.Audio(rng.uniform(-0.5, 0.5, samples).astype(np.float32), 16_000)
        for samples in (9_000, 14_000)
    ]


class ItemCheck:
    """Check of each kind of item. The constructor needs the model's own attention. The encoder
    refuses a kind that fails, and the model stays usable for other prompts."""

    def __init__(self, model: PreTrainedModel, encoder: ItemEncoder) -> None:
        self.encoder = encoder
        self._model = model
        self._references: dict[str, ItemReference] = {}
        for kind in encoder.texts:
            with self._refusing(kind):
                self._references[kind] = _reference(model, encoder, kind)

    def run(self, substitution: RowSubstitution, probe: LayerProbe) -> None:
        """Compare with sgnb's attention and fused modules."""
        for kind, reference in self._references.items():
            with self._refusing(kind):
                _check(self._model, self.encoder, substitution, probe, reference)

    @contextmanager
    def _refusing(self, kind: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of the processor's or the model's code
            if is_out_of_memory(error):
                raise
            self.encoder.refused[kind] = first_line(error)


def _reference(model: PreTrainedModel, encoder: ItemEncoder, kind: str) -> ItemReference:
    """Return the logits of the model's own attention for a prompt with two items."""
    contents = sample_contents(kind)
    inputs = encoder.run_processor(encoder.texts[kind].join(TEXTS), contents)
    with torch.inference_mode():
        logits = model(**encoder.placed(inputs), use_cache=False).logits[0]
    return ItemReference(inputs["input_ids"][0].tolist(), logits.to(model.dtype).clone(), contents)


def _check(
    model: PreTrainedModel,
    encoder: ItemEncoder,
    substitution: RowSubstitution,
    probe: LayerProbe,
    expected: ItemReference,
) -> None:
    """Compare a composed prompt with the reference.

    Args:
        model: Model with sgnb's attention.
        encoder: Encoder of the items.
        substitution: Substitution of rows in the text decoder.
        probe: Shapes of the layers.
        expected: The model's own logits.

    Raises:
        ValueError: Tokens or logits differ.
    """
    items = [Item(content, 0, *encoder.process(content)) for content in expected.contents]
    own_ids = [item.inputs["input_ids"][0].tolist() for item in items if item.inputs]
    tokenizer = encoder.processor.tokenizer
    texts = [tokenizer.encode(t, add_special_tokens=i == 0) for i, t in enumerate(TEXTS)]
    tokens = texts[0] + own_ids[0] + texts[1] + own_ids[1] + texts[2]
    if tokens != expected.tokens:
        raise ValueError("its processor writes other tokens for two items than for each alone")

    encoder.encode(items)
    begins = len(texts[0]), len(texts[0]) + items[0].count + len(texts[1])
    placed = [
        PlacedItem(begin, item, item.content) for begin, item in zip(begins, items, strict=True)
    ]
    prompt = PromptItems(len(tokens), placed, 0)
    cuts = [0, begins[0] + 1, begins[0] + items[0].count // 2, begins[1] + 2, len(tokens)]
    logits = _run(model, substitution, probe, tokens, prompt, cuts)
    bound = HALF_TOLERANCES.get(logits.dtype, TOLERANCE)
    if not (error := relative_error(logits, expected.logits)) <= bound:
        raise ValueError(
            f"its logits differ by {error:.2g} if items are encoded alone (at most {bound:.2g})"
        )


def _run(
    model: PreTrainedModel,
    substitution: RowSubstitution,
    probe: LayerProbe,
    tokens: Sequence[int],
    items: PromptItems,
    cuts: Sequence[int],
) -> Tensor:
    """Return the logits of a prompt in chunks."""
    backend = TorchAttention(KVCache(probe.shapes, len(tokens), probe.dtype, model.device))
    slots = np.arange(len(tokens), dtype=np.int32)
    mask = torch.zeros(1, 1, 1, 1, device=model.device)
    ids = torch.tensor(items.text_tokens(np.array(tokens)), device=model.device)
    logits = []
    for begin, end in pairwise(cuts):
        backend.plan(
            AttentionInput(
                np.array([begin]), np.array([end - begin]), slots[begin:end], [slots], [NO_KEY]
            )
        )
        positions = torch.from_numpy(items.rotary_span(begin, end).copy()).to(model.device)
        with torch.inference_mode(), substitution.spans(items.spans(begin, end)):
            out = model(
                input_ids=ids[None, begin:end], position_ids=positions[..., None, :],
                use_cache=False, attention_mask=mask, sgnb=backend,
            )  # fmt: skip
        logits.append(out.logits[0].to(model.dtype))
    return torch.cat(logits)
