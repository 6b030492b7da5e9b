"""Treatment of an item by transformers' multimodal types: the basis of a generic engine.

`python -m benchmarks.multimodal_survey [TYPE ...]` prints the table for some types. Columns:
- items: the kinds of items whose reference runs, with the number of tokens of an item;
- ids: the prompt's ids equal the ids of its texts and of each item alone, in a row;
- rows: the decoder receives the same embeddings for an item alone and inside a prompt;
- positions: `none` (the decoder counts), `index`, or axes whose values are a composition: text
  counts on, an item starts there, and the text behind starts after the item's largest position;
- extras: further arguments of the decoder;
- mask: rows of an item see earlier rows (causal), the whole item, or the whole prompt;
- pixels: the least change of the last logits with another item;
- generate: greedy tokens with transformers' own cache are the same.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, ProcessorMixin
from transformers.utils import logging

from tests.multimodal_models import TYPES, modalities, multimodal_model, why_not
from tests.multimodal_models.decoder import Arguments, captured, find_decoder, hidden_states
from tests.multimodal_models.items import clip, picture, sound
from tests.multimodal_models.reference import Part, encode, reference

from .common import Report

NEW = 4
BEFORE, BETWEEN, BEHIND = "Look at this: ", " then at that: ", " What do you see?"
USUAL = {
    "inputs_embeds", "position_ids", "attention_mask", "cache_position", "past_key_values",
    "use_cache", "input_ids", "cache", "return_dict", "output_attentions", "output_hidden_states",
    "logits_to_keep",
}  # fmt: skip
START = 0  # id of <s>
ONE = "one item only"
TOLERANCE = 1e-4
"""Maximum difference of embeddings, relative to the largest."""

MASK_TOLERANCE = 1e-3
"""Maximum difference of hidden states, relative to the largest; rounding gives up to 2e-4."""

COLUMNS = (
    "type", "item", "tokens", "ids", "rows", "positions", "extras", "mask", "pixels", "gap",
    "generate", "s",
)  # fmt: skip


def item(modality: str, seed: int, large: bool = False) -> Part:
    """Return an item of a modality, in one of two sizes."""
    size = (150, 60) if large else (90, 70)
    if modality == "image":
        return picture(seed, *size)
    if modality == "video":
        return clip(seed, 4, *((140, 56) if large else (84, 56)))
    return sound(seed, 0.9 if large else 0.6)


class Subject(NamedTuple):
    """A model with a prompt of two items of one modality."""

    model: PreTrainedModel
    processor: ProcessorMixin
    decoder: nn.Module
    parts: list[Part]

    def inputs(self, parts: list[Part], **options: Any) -> Arguments:
        return dict(encode(self.processor, parts, **options))


def survey(kind: str) -> list[tuple[Any, ...]]:
    """Return the rows of a model type, one per modality."""
    try:
        model, processor = multimodal_model(kind)
    except Exception as error:  # transformers raises errors of many types
        return [(kind, "not built", *[""] * 9, _short(error))]
    rows = []
    for modality in modalities(processor):
        began = time.process_time()
        try:
            row = _row(model, processor, modality)
        except Exception as error:
            row = ("fails", _short(error), *[""] * 7)
        rows.append((kind, modality, *row, f"{time.process_time() - began:.1f}"))
    return rows


def _row(model: PreTrainedModel, processor: ProcessorMixin, modality: str) -> tuple[Any, ...]:
    first, second = item(modality, 1), item(modality, 2, large=True)
    single: list[Part] = [BEFORE, first, BEHIND]
    inputs = dict(encode(processor, single))
    result = reference(model, processor, single, NEW)
    other = reference(model, processor, [BEFORE, item(modality, 3), BEHIND], 1)
    change = float((result.logits[0] - other.logits[0]).abs().max())
    tokens = len(result.ids) - sum(len(_text_ids(processor, text)) for text in (BEFORE, BEHIND))
    generated = _attempt(_generate, model, inputs, result.tokens)
    measured = (f"{change:.2g}", f"{result.gap:.2g}", generated)
    decoder = find_decoder(model, inputs)
    if decoder is None:
        return (tokens, "", "", "", "no separate decoder", "", *measured)
    subject = Subject(model, processor, decoder, [BEFORE, first, BETWEEN, second, BEHIND])
    ids = _attempt(_ids, subject)
    if ids == ONE:
        subject = subject._replace(parts=single)
    whole = captured(model, decoder, inputs)
    return (
        tokens, ids, _attempt(_rows, subject), _attempt(_positions, subject),
        ", ".join(_extras(whole)), _attempt(_mask, subject, whole, single), *measured,
    )  # fmt: skip


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:110]


def _attempt(function: Any, *arguments: Any) -> str:
    try:
        return str(function(*arguments))
    except Exception as error:
        return _short(error)[:60]


def _text_ids(processor: ProcessorMixin, text: str) -> list[int]:
    ids: list[int] = processor.tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _ids_of(subject: Subject, parts: list[Part]) -> tuple[list[int], list[int]]:
    """Return the ids of a prompt, and the ids of all parts in a row."""
    whole = subject.inputs(parts)["input_ids"][0].tolist()
    return whole, [token for part in parts for token in _part_ids(subject, part)]


def _spans(subject: Subject) -> list[tuple[int, int]]:
    """Return the first and the end position of each item, if the ids are a composition."""
    start, spans = len(subject.inputs(subject.parts)["input_ids"][0]), []
    start -= sum(len(_part_ids(subject, part)) for part in subject.parts)
    for part in subject.parts:
        end = start + len(_part_ids(subject, part))
        if not isinstance(part, str):
            spans.append((start, end))
        start = end
    return spans


def _part_ids(subject: Subject, part: Part) -> list[int]:
    if isinstance(part, str):
        return _text_ids(subject.processor, part)
    ids: list[int] = subject.inputs([part], add_special_tokens=False)["input_ids"][0].tolist()
    return ids


def _ids(subject: Subject) -> str:
    if _composes(subject, subject.parts):
        whole, parts = _ids_of(subject, subject.parts)
        added = len(whole) - len(parts)
        return f"yes, after {added} at the start" if added else "yes"
    single = [BEFORE, subject.parts[1], BEHIND]
    if _composes(subject, single):
        return ONE
    if subject.inputs([single[1]], add_special_tokens=False)["input_ids"][0, 0] == START:
        return "no: the processor starts each text with <s>"
    return "item first" if _composes(subject, single[1:]) else "no"


def _composes(subject: Subject, parts: list[Part]) -> bool:
    try:
        whole, composed = _ids_of(subject, parts)
    except ValueError:  # processors of one item per prompt
        return False
    return whole[-len(composed) :] == composed


def _rows(subject: Subject) -> str:
    """Compare embeddings of items inside a prompt, of items alone, and of a repeated forward."""
    first = captured(subject.model, subject.decoder, subject.inputs(subject.parts))
    again = captured(subject.model, subject.decoder, subject.inputs(subject.parts))
    if not torch.equal(first["inputs_embeds"], again["inputs_embeds"]):
        return "random"
    worst = _row_difference(subject)
    if worst < TOLERANCE:
        return "yes"
    single = subject._replace(parts=subject.parts[:2] + subject.parts[-1:])
    alone = "yes for one item; two " if _row_difference(single) < TOLERANCE else ""
    return f"{alone}differ by {worst:.2g}"


def _row_difference(subject: Subject) -> float:
    whole = captured(subject.model, subject.decoder, subject.inputs(subject.parts))
    items = [part for part in subject.parts if not isinstance(part, str)]
    worst = 0.0
    for part, (start, end) in zip(items, _spans(subject), strict=True):
        inputs = subject.inputs([part], add_special_tokens=False)
        alone = captured(subject.model, subject.decoder, inputs)["inputs_embeds"][0]
        there = whole["inputs_embeds"][0, start:end]
        worst = max(worst, float((there - alone).abs().max() / alone.abs().max()))
    return worst


def _positions(subject: Subject) -> str:
    whole = captured(subject.model, subject.decoder, subject.inputs(subject.parts))
    positions = whole.get("position_ids")
    if positions is None:
        return "none"
    length = whole["inputs_embeds"].shape[1]
    table = positions.reshape(-1, length)
    if all(torch.equal(row, torch.arange(length)) for row in table):
        return "index" if len(table) == 1 else f"index on {len(table)} axes"
    expected = _composed(subject, table)
    shown = f"{len(table)} axes"
    if torch.equal(table, expected):
        return f"{shown}, composed"
    if len(table) == 4 and torch.equal(table[1:], expected[1:]):
        counts = torch.equal(table[0], torch.arange(length))
        return f"{shown}, composed{' behind the index' if counts else ''}"
    return f"{shown}, NOT composed"


def _composed(subject: Subject, table: Tensor) -> Tensor:
    """Return the positions that texts and items alone give in a row."""
    first = _spans(subject)[0][0] - len(_part_ids(subject, subject.parts[0]))
    blocks, start = [table[:, :first]], first
    for part in subject.parts:
        if isinstance(part, str):
            block = torch.arange(len(_part_ids(subject, part))).repeat(len(table), 1)
        else:
            inputs = subject.inputs([part], add_special_tokens=False)
            alone = captured(subject.model, subject.decoder, inputs)["position_ids"]
            block = alone.reshape(len(table), -1)
        blocks.append(block + start)
        rotary = blocks[-1][1:] if len(table) == 4 else blocks[-1]
        start = int(rotary.max()) + 1
    return torch.cat(blocks, dim=1)


def _extras(whole: Arguments) -> list[str]:
    return sorted(
        name for name, value in whole.items() if name not in USUAL and not _is_default(value)
    )


def _is_default(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, dict) and not value)


def _mask(subject: Subject, whole: Arguments, single: list[Part]) -> str:
    """Return how far rows of an item see, by changes of a row in the middle and of the last text
    row."""
    prompt = Subject(subject.model, subject.processor, subject.decoder, single)
    start, end = _spans(prompt)[0]
    base = hidden_states(subject.decoder, whole)
    changed_by = {}
    for name, row in (("item", (start + end) // 2), ("text", whole["inputs_embeds"].shape[1] - 1)):
        embeddings = whole["inputs_embeds"].clone()
        embeddings[0, row] += embeddings[0, row - 1] + 1.0
        states = hidden_states(subject.decoder, whole | {"inputs_embeds": embeddings})
        difference = (states - base)[0, :row].abs().amax(dim=-1) / base.abs().max()
        changed_by[name] = (difference > MASK_TOLERANCE).nonzero().flatten().tolist()
    if changed_by["text"]:
        return "prompt"
    seen = changed_by["item"]
    if not seen:
        return "causal"
    where = "item" if min(seen) >= start else "prompt before the item's end"
    return where


def _generate(model: PreTrainedModel, inputs: Arguments, tokens: list[int]) -> str:
    length = inputs["input_ids"].shape[1]
    generated = model.generate(
        **inputs, max_new_tokens=NEW, do_sample=False, eos_token_id=None, use_cache=True
    )[0]
    behind = generated[length:] if len(generated) > NEW else generated
    return "yes" if behind.tolist() == tokens else "no"


def run(kinds: list[str] | None = None) -> list[Report]:
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    rows = []
    for kind in kinds or TYPES:
        for row in survey(kind):
            rows.append(row)
            print(" | ".join(map(str, row)), flush=True)
    table = Report("Items of multimodal model types", COLUMNS, rows)
    left_out = Report("Types left out", ("type", "reason"), sorted(why_not.items()))
    return [table, left_out]


if __name__ == "__main__":
    for report in run(sys.argv[1:]):
        print(report.markdown())
