"""Processor and encoders of a multimodal transformers model of any family.

The processor turns the text of a placeholder and one image, video or sound into token ids and
arguments of the model. The model's forward with these arguments runs up to the text decoder; the
arguments of the decoder are the rows of the item. A check at load (`item_check.py`) compares
prompts composed of such rows with whole prompts of the processor and the model.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...errors import MediaError, first_line
from ...media import Audio, Image, MediaItem, Video
from ..device.memory import peak_bytes
from ..items.item import EngineItem, Inputs, ProcessorOutput
from .decoder_rows import DecoderRows, RowSubstitution, read_rows
from .item_texts import item_texts, processor_arguments, processor_options, processor_types

KINDS = "image", "audio", "video"


class _ReachedDecoderError(Exception):
    """Ends a forward pass at the text decoder."""


class ItemEncoder:
    """Implementation of `items.item.MediaEncoder`.

    Args:
        model: The whole model.
        decoder: Text decoder of the model.
        processor: Processor of transformers.
    """

    def __init__(self, model: PreTrainedModel, decoder: nn.Module, processor: Any) -> None:
        self._model, self._decoder, self.processor = model, decoder, processor
        self.substitution = RowSubstitution(decoder)
        self.texts = item_texts(processor)
        self.refused: dict[str, str] = {}  # reasons by kind of item
        self.nests_images = False  # the processor takes a list of images for each text
        self.placeholder: int = getattr(processor, "image_token_id", None) or 0
        self.joint: set[str] = set()  # kinds of items with blocks, see `EngineItem.blocks`
        embeddings: Tensor = model.get_input_embeddings().weight  # type: ignore[assignment]
        self.row_bytes = embeddings[:1].nbytes

    @property
    def modalities(self) -> frozenset[str]:
        """Supported kinds of items."""
        return frozenset(self.texts.keys() - self.refused.keys())

    def key(self, content: Any) -> bytes:
        options = processor_options(self.processor).encode()
        return hashlib.sha256(content.digest + self._identity + options).digest()

    @cached_property
    def _identity(self) -> bytes:
        """Digest of the properties of the processor that never change: types, texts around items
        and the ids of special tokens."""
        tokenizer = getattr(self.processor, "tokenizer", None)
        special = {} if tokenizer is None else tokenizer.get_added_vocab()
        facts = processor_types(self.processor), sorted(self.texts.items()), sorted(special.items())
        return hashlib.sha256(repr(facts).encode()).digest()

    def process(self, content: Any) -> ProcessorOutput:
        if content.kind not in self.modalities:
            reason = self.refused.get(content.kind)
            raise MediaError(
                f"{self._model.name_or_path or type(self._model).__name__} takes no {content.kind}"
                + (f": {reason}" if reason else ""),
                f"give {' or '.join(sorted(self.modalities)) or 'text'}",
            )
        text = self.texts[content.kind]
        try:
            inputs = self.run_processor(text, [content], add_special_tokens=False)
        except Exception as error:  # from the processor's code
            message = f"the processor of the model refuses {content.label}: {first_line(error)}"
            raise MediaError(message, "give another size or format") from error
        blocks = _blocks(inputs) if content.kind in self.joint else []
        return ProcessorOutput(inputs["input_ids"].shape[1], inputs, blocks)

    def run_processor(self, text: str, contents: Sequence[Any], **text_options: Any) -> Inputs:
        """Return the output of the processor for a prompt with items, in the precision of the
        model."""
        arguments = processor_arguments(self.processor, contents)
        if self.nests_images and "images" in arguments:
            arguments["images"] = [arguments["images"]]
        output = self.processor(text=[text], return_tensors="pt", **arguments, **text_options)
        dtype = self._model.dtype
        return {
            name: value.to(dtype)
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
            for name, value in output.items()
        }

    @torch.inference_mode()
    def encode(self, items: Sequence[EngineItem]) -> None:
        groups: list[list[EngineItem]] = []
        for item in items:
            if groups and _kind(groups[-1][0]) == _kind(item):
                groups[-1].append(item)
            else:
                groups.append([item])
        for group in groups:
            rows, positions = self._capture(
                _join([self.placed(item.inputs or {}) for item in group])
            )
            host_positions = positions.cpu().numpy()
            begin = 0
            for item in group:
                end = begin + item.count
                item.rows = rows.part(begin, end).clone()
                item_positions = host_positions[:, begin : end + 1]
                item_positions = item_positions - item_positions[:, :-1].min()
                item.positions, item.advance = item_positions[:, :-1], int(item_positions[0, -1])
                item.inputs = None
                begin = end + 1

    @cached_property
    def token_bytes(self) -> float:
        """GPU memory of an encoder call per token of its items, in bytes, measured with a large
        item; 0 on a CPU."""
        for kind in sorted(self.modalities, key=KINDS.index):
            content = large_item(kind)
            with suppress(MediaError):  # of processors for other sizes
                item = EngineItem(content, 0, self.process(content))
                return peak_bytes(self._model.device, partial(self.encode, [item])) / item.count
        return 0.0

    def _capture(self, inputs: Inputs) -> tuple[DecoderRows, Tensor]:
        """Return the rows that the decoder receives for arguments on the device, and the rotary
        positions, int64[axes, tokens]."""
        arguments: dict[str, Any] = {}
        thread = threading.get_ident()

        def stop(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == thread:  # other engines may run the model
                arguments.update(kwargs)
                raise _ReachedDecoderError

        hook = self._decoder.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            self._model(**inputs, use_cache=False)
        except _ReachedDecoderError:
            pass
        finally:
            hook.remove()

        if arguments.get("inputs_embeds") is None:
            raise ValueError("its text decoder receives no embeddings")
        rows = read_rows(arguments)
        length = len(rows.embeddings)
        positions = arguments.get("position_ids")
        if positions is None:
            positions = torch.arange(length)
        return rows, positions.reshape(-1, length)

    def placed(self, inputs: Inputs) -> Inputs:
        """Return the arguments on the device of the model."""
        device = self._model.device
        return {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in inputs.items()
        }


def large_item(kind: str) -> MediaItem:
    """Return an item that shows the memory of an encoder call."""
    if kind == "image":
        return Image(np.zeros((1024, 1024, 3), np.uint8))
    if kind == "audio":
        return Audio(np.zeros(30 * 16_000, np.float32), 16_000)
    return Video(np.zeros((8, 448, 448, 3), np.uint8), np.arange(8) / 2)


def _blocks(inputs: Inputs) -> list[tuple[int, int]]:
    """Return the runs of tokens with a nonzero type: without types, of the most frequent token."""
    types = inputs.get("mm_token_type_ids", inputs.get("token_type_ids"))
    if types is None:
        ids = inputs["input_ids"]
        types = ids == ids.mode().values
    marks = np.flatnonzero(np.diff((types[0] != 0).numpy().astype(np.int8), prepend=0, append=0))
    return list(zip(marks[::2].tolist(), marks[1::2].tolist(), strict=True))


def _kind(item: EngineItem) -> dict[str, Any]:
    """Return the properties shared by items of one encoder call: names, types and shapes of the
    arguments, without the number of tokens or the first axis."""
    inputs = item.inputs or {}
    return {
        name: (value.dtype, value.shape[2:] if _is_aligned(value, item.count) else value.shape[1:])
        if isinstance(value, Tensor)
        else item  # unequal to all other items
        for name, value in inputs.items()
    }


def _is_aligned(value: Any, length: int) -> bool:
    return isinstance(value, Tensor) and value.shape[:2] == (1, length)


def _join(inputs: Sequence[Inputs]) -> Inputs:
    """Return the arguments of several items as the arguments of one prompt. A token of text follows
    each item: models take adjacent placeholders for one item, and the position of the next token is
    known. Arguments with an entry per token are joined along the tokens, others along the first
    axis."""
    joined: Inputs = {}
    for name in inputs[0]:
        values = [other[name] for other in inputs]
        if all(_is_aligned(other[name], other["input_ids"].shape[1]) for other in inputs):
            text = 1 if name == "attention_mask" else 0
            after = values[0].new_full((1, 1, *values[0].shape[2:]), text)
            values = [part for value in values for part in (value, after)]
            joined[name] = torch.cat(values, 1)
        else:
            joined[name] = torch.cat(values, 0) if len(values) > 1 else values[0]
    return joined
