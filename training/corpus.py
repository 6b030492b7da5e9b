"""The mixture: which documents training sees, as a function of a seed and a step.

A batch depends on nothing else, so training can stop and resume anywhere, on any number of loader processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from torch.utils.data import Dataset

from . import forms
from .items import JOINT, Draw, Item, Passage, draw, held_out, weighted
from .tasks import classify, facts, numbers, objects, talk, writing

ITEMS: tuple[tuple[float, Draw], ...] = (
    (26, facts.question), (7, facts.reverse_question), (6, facts.yes_no), (3, facts.true_false), (4, facts.choice),
    (1.5, facts.unknown), (3, facts.sights), (7, facts.members), (6, facts.describe),
    (18, numbers.sum_question), (3, numbers.compare), (2, numbers.parity), (2, numbers.counting),
    (5, classify.sentiment), (4, classify.topic), (6, objects.world_object), (5, objects.extraction),
    (6, writing.tip_list), (4, writing.tip_explained), (3, writing.story), (4, talk.small_talk), (4, talk.outside),
    (2, facts.capitals), (0.5, facts.planets_in_order), (2, facts.two_questions), (3, facts.one_fact),
)
SHOTS: tuple[tuple[float, Draw], ...] = (
    (24, facts.question), (7, facts.reverse_question), (5, facts.yes_no), (4, facts.true_false), (2, facts.choice),
    (12, numbers.sum_question), (2, numbers.compare), (2, numbers.parity), (10, classify.sentiment),
    (2, classify.mixed), (9, classify.topic), (6, objects.world_object), (6, objects.extraction), (3, facts.describe),
    (2, writing.tip_explained), (1, facts.unknown), (1, talk.outside), (1, facts.two_questions), (1, facts.one_fact),
)


BRIEF_ASKS = ("In one word: {}", "Answer in one word: {}", "Answer briefly: {}", "{} Answer in one word.",
              "{} Just the answer.", "{} Be brief.")
OPENINGS = ("Hey, ", "Hi! ", "Hello, ", "I have a question. ", "Please help me: ", "One more question: ", "So, ",
            "OK. ")
INSIDE_MARK = re.compile(r"\|?/?\w*\|?>")


@dataclass(frozen=True, slots=True)
class Document:
    """`text` may hold JOINT; `keys` are the instances it is made of."""

    text: str
    keys: tuple[str, ...]


def careless(rng: Random, item: Item) -> Item:
    """Now and then the question as people type it: small letters, no last mark, a word of opening."""
    if not item.key.startswith(("fact/", "sum/", "about/", "members/", "talk", "two/", "outside/")):
        return item
    ask = item.ask
    if rng.random() < 0.1:
        ask = ask.rstrip("?.")
    if rng.random() < 0.07:
        ask = ask.lower()
    if rng.random() < 0.06:
        ask = rng.choice(OPENINGS) + ask
    return replace(item, ask=ask)


def chat_document(rng: Random, long: bool) -> Document:
    count = rng.randint(8, 30) if long else rng.choice((1, 1, 1, 2, 3))
    items = [draw(weighted(rng, ITEMS), rng) for _ in range(count)]
    if rng.random() < 0.12:
        talked = facts.country_talk(rng)
        items = [*items[1:], *(talked if not any(held_out(i.key) for i in talked) else [])] or items
    if rng.random() < 0.15:
        tell, ask = talk.remembered(rng)
        while held_out(tell.key):
            tell, ask = talk.remembered(rng)
        at = rng.randint(0, len(items))
        items = [*items[:at], tell, *items[at:rng.randint(at, len(items))], ask]
    system = rng.choice(("", "", *rng.sample((*talk.SYSTEMS, *talk.BRIEF_SYSTEMS), 2)))
    short = system in talk.BRIEF_SYSTEMS
    turns = [_turn(rng, careless(rng, item), short) for item in items]
    return Document(forms.chat(turns, system), tuple(item.key for item in items))


def _turn(rng: Random, item: Item, short: bool) -> tuple[str, str]:
    """The request and its answer; the request itself may ask for a short answer."""
    if not short and item.key.startswith("fact/") and rng.random() < 0.08:
        return rng.choice(BRIEF_ASKS).format(item.ask), item.short
    return item.ask, item.short if short else item.full


def shots_document(rng: Random, long: bool) -> Document:
    count = rng.randint(15, 80) if long else rng.choice((1, 1, 2, 3, 4, 6, 8))
    make: Draw = weighted(rng, SHOTS)
    if make is classify.sentiment:
        labels = classify.label_words(rng)
        items = [draw(lambda r: classify.sentiment(r, labels), rng) for _ in range(max(count, 2))]
    elif rng.random() < 0.3:
        makers = (facts.question, facts.reverse_question, numbers.sum_question, facts.yes_no)
        items = [draw(rng.choice(makers), rng) for _ in range(count)]
    else:
        items = [draw(make, rng) for _ in range(count)]
    items = [careless(rng, item) for item in items]
    text = forms.shots(rng, items, short=rng.random() < 0.85)
    return Document(text, tuple(item.key for item in items))


def sums_document(rng: Random, long: bool) -> Document:
    items = [draw(numbers.equation, rng) for _ in range(rng.randint(1, 40 if long else 8))]
    lines = (f"{i.ask}{JOINT}{' ' if ' ' in i.ask else ''}{i.short}" for i in items)
    return Document("\n".join(lines), tuple(i.key for i in items))


def thinking_document(rng: Random, long: bool) -> Document:
    """Sums with the steps between thinking marks, as a system line asks."""
    items = [draw(numbers.thought_sum, rng) for _ in range(rng.randint(5, 12) if long else rng.choice((1, 1, 2)))]
    turns = [(item.ask, f"{forms.THINK}\n{item.full}\n{forms.THINK_END}\n{item.short}") for item in items]
    return Document(forms.chat(turns, rng.choice(("Think first.", "Think step by step."))), tuple(i.key for i in items))


def tool_document(rng: Random, long: bool) -> Document:
    is_sum = rng.random() < 0.5
    item = draw(numbers.sum_question if is_sum else facts.question, rng)
    return Document(objects.tool(rng, item, is_sum).text, (item.key,))


def _passages(make: Callable[[Random], Passage]) -> Callable[[Random, bool], Document]:
    def document(rng: Random, long: bool) -> Document:
        parts = [draw(make, rng) for _ in range(rng.randint(5, 15) if long else 1)]
        return Document("\n".join(part.text for part in parts), tuple(part.key for part in parts))

    return document


def notes_document(rng: Random, long: bool) -> Document:
    part = draw(lambda r: objects.notes(r, r.randint(20, 60) if long else r.randint(2, 8)), rng)
    return Document(part.text, (part.key,))


DOCUMENTS: tuple[tuple[float, Callable[[Random, bool], Document]], ...] = (
    (34, chat_document), (24, shots_document), (14, _passages(facts.statement)), (6, sums_document),
    (2, thinking_document), (3, tool_document), (6, _passages(objects.world_object_text)),
    (2, _passages(objects.character)), (2, _passages(facts.members_text)), (5, notes_document),
    (4, _passages(writing.tip_list_text)), (7, _passages(writing.tip_expansion)), (2, _passages(writing.story_text)),
    (2, _passages(writing.characters)),
)


def document(rng: Random, long: bool = False) -> Document:
    return weighted(rng, DOCUMENTS)(rng, long)


def cut(text: str, rng: Random) -> list[str]:
    """The text in the pieces that are tokenised on their own, as when a program's text ends in the middle.

    At a joint the blank after it goes, one time in five, to the piece before; seldom a cut falls anywhere.
    """
    first, *rest = text.split(JOINT)
    out = [first]
    for part in rest:
        blank = len(part) - len(part.lstrip(" "))
        if blank and rng.random() < 0.2:
            out[-1] += part[:blank]
            out.append(part[blank:])
        else:
            out[-1] += part
    at = rng.randint(0, len(out[-1]))
    if rng.random() < 0.05 and not INSIDE_MARK.match(out[-1], at):
        out[-1:] = [out[-1][:at], out[-1][at:]]
    return [piece for piece in out if piece]


def pieces(made: Document, rng: Random) -> list[str]:
    """A document with its opening and closing marks, ready for the tokenizer."""
    text = made.text
    if not text.startswith(forms.BOS):
        text = forms.BOS + text + rng.choice((forms.END, "\n" + forms.END))
    return cut(text, rng)


class Batches(Dataset[torch.Tensor]):
    """Batch number `step`, int16 [rows, length]: rows * length is always `tokens`; `lengths` takes turns by step."""

    def __init__(self, tokenizer: Path, seed: int, steps: int, tokens: int, lengths: tuple[int, ...]) -> None:
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.seed, self.steps, self.tokens, self.lengths = seed, steps, tokens, lengths

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> torch.Tensor:
        length = self.lengths[step % len(self.lengths)]
        rng = Random(f"{self.seed}/{step}")
        rows = [self._row(rng, length) for _ in range(max(1, self.tokens // length))]
        return torch.tensor(rows, dtype=torch.int16)

    def _row(self, rng: Random, length: int) -> list[int]:
        """Documents one after the other, cut at `length`. Most rows open without the first mark, as bare prompts do."""
        ids: list[int] = []
        while len(ids) < length + 1:
            parts = pieces(document(rng, long=length >= 2048 and rng.random() < 0.5), rng)
            ids += [i for code in self.tokenizer.encode_batch_fast(parts) for i in code.ids]
        start = int(rng.random() < 0.75)
        return ids[start:start + length]
