"""Load-time check of images, videos and sounds: prompts composed of text and separately processed
items, against whole prompts of the processor and the model.

Two images of different sizes (or videos, or sounds) stand in one prompt if the processor permits,
with text around. The prompt runs in steps with an end inside the first item. Knows no families.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product, zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ... import media
from ...errors import first_line
from ..attention.torch_backend import TorchAttention
from ..cache.checkpoints import StatePlan
from ..cache.kv_cache import KVCache
from ..cache.state_pool import StatePool
from ..device.faults import is_out_of_memory
from ..fusion.scaled_products import exact_inputs
from ..items.item import EngineItem, PlacedItem, PromptItems
from ..step_input import NO_KEY, AttentionInput
from .decoder_rows import DecoderRows, RowSubstitution
from .item_encoder import ItemEncoder
from .layer_probe import LayerProbe
from .logit_check import HALF_TOLERANCES, TOLERANCE, relative_error
from .mixer import Mixer, shapes_of, support_padding
from .recurrent import StepStates, serving

TEXTS = "one 17 ", " and two 4 ", " make 21"
"""Texts before, between and behind the items."""


class ItemReference(NamedTuple):
    """A prompt with items, and the model's own logits."""

    tokens: list[int]  # of the processor
    logits: Tensor  # [tokens, vocab]
    contents: list[Any]


def sample_contents(kind: str) -> Iterator[list[Any]]:
    """Yield two items of different sizes, two of equal sizes, and a single item: some processors
    take less than several items of any size."""
    rng = np.random.default_rng(0)

    def pixels(*shape: int) -> Any:
        return rng.integers(0, 256, (*shape, 3), np.uint8)

    for sizes in (((72, 104, 4), (120, 88, 6)), ((72, 104, 4), (72, 104, 4)), ((72, 104, 4),)):
        if kind == "image":
            yield [media.Image(pixels(h, w)) for h, w, _ in sizes]
        elif kind == "video":
            yield [media.Video(pixels(n, h, w), np.arange(n) / 2) for h, w, n in sizes]
        else:
            noise = [rng.uniform(-0.5, 0.5, 3_000 * n).astype(np.float32) for *_, n in sizes]
            yield [media.Audio(samples, 16_000) for samples in noise]


class _CheckPrompt(NamedTuple):
    """A prompt composed of text and items."""

    tokens: list[int]
    items: PromptItems
    cuts: list[int]  # borders of steps


class ItemCheck:
    """Check of each kind of item. The constructor needs the model's own attention. A kind
    with another result is refused, and the model stays usable for other prompts."""

    def __init__(self, model: PreTrainedModel, encoder: ItemEncoder) -> None:
        self.encoder = encoder
        self._model = model
        self._references: dict[str, ItemReference] = {}
        for kind in encoder.texts:
            with self._refusing(kind):
                self._references[kind] = self._reference(kind)

    def sample_rows(self) -> Tensor:
        """Encode the items of the prompts. Returns their rows, [tokens, hidden]."""
        contents = [item for reference in self._references.values() for item in reference.contents]
        items = [EngineItem(content, 0, self.encoder.process(content)) for content in contents]
        self.encoder.encode(items)
        rows = [item.rows for item in items if isinstance(item.rows, DecoderRows)]
        return torch.cat([part.embeddings for part in rows])

    def run(self, probe: LayerProbe, mixers: list[Mixer], blocks: bool) -> None:
        """Compare with sgnb's attention and fused modules. Kinds with blocks are added
        to `joint` of the encoder.

        Args:
            probe: Shapes of the layers.
            mixers: Recurrent layers.
            blocks: The attention supports blocks, see `EngineItem`.
        """
        for kind, reference in self._references.items():
            with self._refusing(kind):
                error = self._error(probe, mixers, reference)
                bound = HALF_TOLERANCES.get(reference.logits.dtype, TOLERANCE)
                if error > bound and blocks and not mixers:
                    self.encoder.joint.add(kind)
                    error = min(error, self._error(probe, mixers, reference))
                if not error <= bound:
                    raise ValueError(
                        f"its logits differ by {error:.2g} from the model's own logits (at most "
                        f"{bound:.2g})"
                    )

    @contextmanager
    def _refusing(self, kind: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of the processor's or the model's code
            if is_out_of_memory(error):
                raise
            self.encoder.refused[kind] = first_line(error)

    def _reference(self, kind: str) -> ItemReference:
        """Return the logits of the model's own attention for a prompt with items. Raises the error
        of the first prompt if the processor takes none."""
        failure: Exception | None = None
        nestings = (False, True) if kind == "image" else (self.encoder.nests_images,)
        for contents, nests in product(sample_contents(kind), nestings):
            self.encoder.nests_images = nests
            try:
                return self._whole(kind, contents)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                failure = failure or error
        assert failure is not None
        raise failure

    def _whole(self, kind: str, contents: list[Any]) -> ItemReference:
        """Run a prompt that the processor sees as a whole."""
        text = self.encoder.texts[kind].join(TEXTS[: len(contents) + 1])
        inputs = self.encoder.run_processor(text, contents)
        with torch.inference_mode():
            out = self._model(**self.encoder.placed(inputs), use_cache=False)
        logits = out.logits[0].to(self._model.dtype).clone()
        return ItemReference(inputs["input_ids"][0].tolist(), logits, contents)

    def _error(self, probe: LayerProbe, mixers: list[Mixer], reference: ItemReference) -> float:
        """Return the relative error of the composed prompt. Raises ValueError for other tokens."""
        prompt = _compose(self.encoder, reference.contents)
        if prompt.tokens != reference.tokens:
            raise ValueError("its processor writes other tokens for two items than for each alone")
        logits = _run(self._model, self.encoder.substitution, probe, mixers, prompt)
        return relative_error(logits, reference.logits)


def _compose(encoder: ItemEncoder, contents: Sequence[Any]) -> _CheckPrompt:
    """Return the prompt of `TEXTS` and items, each processed and encoded alone."""
    items = [EngineItem(content, 0, encoder.process(content)) for content in contents]
    tokenizer, tokens, begins = encoder.processor.tokenizer, list[int](), list[int]()
    for text, item in zip_longest(TEXTS[: len(items) + 1], items):
        tokens += tokenizer.encode(text, add_special_tokens=not tokens)
        begins.append(len(tokens))
        if item is not None:
            assert item.inputs is not None
            tokens += item.inputs["input_ids"][0].tolist()

    encoder.encode(items)
    placed = [PlacedItem(*each) for each in zip(begins, items, contents, strict=False)]
    prompt = PromptItems(len(tokens), placed, 0)
    cuts = [0]
    ends = [begins[0] + 1, begins[0] + items[0].count // 2, begins[1] + 2, len(tokens)]
    for end in ends:
        cut = prompt.cut(cuts[-1], min(end, len(tokens)))
        cuts += [cut] if cut > cuts[-1] else []
    return _CheckPrompt(tokens, prompt, cuts)


def _run(
    model: PreTrainedModel,
    substitution: RowSubstitution,
    probe: LayerProbe,
    mixers: list[Mixer],
    prompt: _CheckPrompt,
) -> Tensor:
    """Return the logits of a prompt in steps."""
    tokens, items, cuts = prompt
    backend = TorchAttention(KVCache(probe.shapes, len(tokens), probe.dtype, model.device))
    pool = StatePool(shapes_of(mixers), 2, model.device)
    recurrent = StepStates(pool, support_padding(mixers)) if mixers else None
    slots = np.arange(len(tokens), dtype=np.int32)
    mask = torch.zeros(1, 1, 1, 1, device=model.device)
    ids = torch.tensor(items.text_tokens(np.array(tokens)), device=model.device)

    logits, state = [], pool.states
    for begin, end in pairwise(cuts):
        starts, ends, whole = zip(*items.parts(begin, end), strict=True)
        attention = AttentionInput(
            np.array(starts), np.array(ends) - starts, slots[begin:end], [slots] * len(starts),
            [NO_KEY] * len(starts), whole,
        )  # fmt: skip

        backend.plan(attention)
        if recurrent is not None:
            before, state = state, int(state == 0)
            recurrent.plan([StatePlan(before, ((end, state),))], attention)
        positions = torch.from_numpy(items.rotary_span(begin, end).copy()).to(model.device)
        rows = substitution.spans(items.spans(begin, end))
        with torch.inference_mode(), serving(recurrent), exact_inputs(), rows:
            out = model(
                input_ids=ids[None, begin:end], position_ids=positions[..., None, :],
                use_cache=False, attention_mask=mask, sgnb=backend,
            )  # fmt: skip
        logits.append(out.logits[0].to(model.dtype))
    return torch.cat(logits)
