"""The mixture: which documents training sees, as a function of a seed and a step.

A batch depends on nothing else, so training can stop and resume anywhere, on any number of loader processes.
"""

from __future__ import annotations

import hashlib
import itertools
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
from .tasks import (
    characters,
    claims,
    classify,
    comparisons,
    essays,
    extraction,
    facts,
    facts_joined,
    labelled,
    memory,
    notes,
    numbers,
    objects,
    plans,
    problems,
    puzzles,
    reading,
    roles,
    routes,
    talk,
    tools,
    writing,
)

ITEMS: tuple[tuple[float, Draw], ...] = (
    (75, facts.question), (18, facts.reverse_question), (16, facts.yes_no), (4, facts.true_false), (4, facts.choice),
    (3, facts.unknown), (3, facts.sights), (5, facts.members), (5, facts.describe), (2, facts.capitals),
    (0.5, facts.planets_in_order), (3, facts.two_questions), (3, facts.one_fact),
    (5, facts_joined.chain), (7, comparisons.compare_facts), (3, facts_joined.belongs), (6, facts_joined.odd_one_out),
    (5, facts_joined.count_members), (4, facts_joined.not_one_of),
    (34, numbers.sum_question), (4, numbers.worked_sum), (3, numbers.long_product), (6, numbers.compare),
    (4, numbers.extreme), (6, numbers.sorting), (1.5, numbers.parity), (1, numbers.neighbour), (1.5, numbers.counting),
    (36, problems.problem),
    (5, classify.sentiment), (6, classify.topic), (6, classify.language), (4, classify.other), (0.7, classify.mixed),
    (8, objects.world_object), (4, objects.world_list), (2, objects.some_things), (0.5, objects.unknown_object),
    (2, characters.character_item), (14, extraction.extraction), (4, extraction.extraction_list),
    (13, reading.question), (5, reading.documents),
    (3, talk.chance), (3, talk.small_talk), (4, talk.outside),
    (2, tools.tool_choice), (1.5, puzzles.propose), (2, puzzles.distance), (1.5, puzzles.reach), (2, puzzles.solve),
    (1.5, puzzles.check), (2, routes.route), (2, routes.next_places), (1.5, routes.is_road),
    (8, essays.judge), (1, essays.is_essay), (3, essays.is_about), (2, essays.grade),
    (5, plans.plan), (4, plans.plan_object), (2, plans.at_hour), (3, plans.next_action), (3, plans.rating),
    (3, plans.remembers),
    (7, writing.tip_list), (3, writing.tip_explained), (5, writing.points), (2, writing.text_summary),
    (1, writing.text_title), (5, writing.rewriting), (2, writing.story),
)
"""What a turn of a chat asks."""

SHOTS: tuple[tuple[float, Draw], ...] = (
    (30, facts.question), (9, facts.reverse_question), (8, facts.yes_no), (4, facts.true_false), (2, facts.choice),
    (3, facts.describe), (1, facts.unknown), (1, facts.two_questions), (1, facts.one_fact),
    (1, facts_joined.chain), (2, facts_joined.odd_one_out), (1, facts_joined.belongs),
    (18, numbers.sum_question), (4, numbers.compare), (2, numbers.sorting), (2, numbers.parity),
    (8, problems.worked_problem),
    (8, classify.sentiment), (8, classify.topic), (8, classify.language), (1, classify.mixed),
    (6, objects.world_object), (7, extraction.extraction), (2, reading.question), (2, writing.tip_explained),
    (1, talk.outside), (1, talk.chance), (1.5, tools.tool_choice), (1, puzzles.propose), (1.5, puzzles.distance),
    (1, puzzles.reach), (1, puzzles.solve), (1, routes.next_places), (1, plans.rating), (1, essays.is_essay),
    (1, writing.text_summary),
)
"""What a row of few-shot lines asks, the same thing in each."""

PASSAGES: tuple[tuple[float, Callable[[Random], Passage]], ...] = (
    (16, facts.statement), (10, claims.claims), (2, facts.members_text), (8, problems.worked_lines),
    (5, objects.world_object_text), (3, objects.object_talk), (4, extraction.extraction_text),
    (4, extraction.extraction_talk), (2, characters.character),
    (8, reading.several), (4, reading.several_documents), (3, reading.sources), (8, reading.plain), (2.5, talk.draws),
    (6, tools.react), (3, tools.react_chat), (1.5, tools.tool_line), (3.5, puzzles.path_search),
    (1.5, puzzles.path_talk), (3, routes.route_text), (2, routes.route_talk),
    (4, essays.essay_chat), (4, essays.essay_text), (5, plans.plan_text), (1, plans.dialogue),
    (2, writing.tip_list_text), (4, writing.tip_expansion), (2, writing.tip_paragraphs), (1.5, writing.points_text),
    (1, writing.story_text), (1, writing.characters),
)
"""Texts that stand for themselves."""

BRIEF_ASKS = ("In one word: {}", "Answer in one word: {}", "Answer briefly: {}", "{} Answer in one word.",
              "{} Just the answer.", "{} Be brief.")
OPENINGS = ("Hey, ", "Hi! ", "Hello, ", "I have a question. ", "Please help me: ", "One more question: ", "So, ",
            "OK. ")
CARELESS = ("fact/", "sum/", "about/", "members/", "talk", "two/", "outside/", "chain/", "compare/", "odd/", "not/",
            "belongs/", "unknown/", "and/", "there/", "truth/")
"""The kinds of item that people type without care."""
INSIDE_MARK = re.compile(r"\|?/?\w*\|?>")


@dataclass(frozen=True, slots=True)
class Document:
    """`text` may hold JOINT; `keys` are the instances it is made of."""

    text: str
    keys: tuple[str, ...]


def careless(rng: Random, item: Item) -> Item:
    """Now and then the question as people type it: small letters, no last mark, a word of opening."""
    if not item.key.startswith(CARELESS):
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
    """Questions of all kinds in turn, now and then a talk about one thing, or something told and asked about later."""
    count = rng.randint(8, 30) if long else rng.choice((1, 1, 1, 2, 3))
    items = [draw(weighted(rng, ITEMS), rng) for _ in range(count)]
    if rng.random() < 0.2:
        talked = rng.choice((facts.country_talk, facts.country_talk, facts.then_talk, facts.again_talk))(rng)
        items = [*items[1:], *itertools.takewhile(lambda item: not held_out(item.key), talked)] or items
    if rng.random() < 0.25:
        items = memory.conversation(rng, items)
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
    count = rng.randint(15, 60) if long else rng.choice((1, 1, 2, 3, 4, 6, 8))
    make: Draw = weighted(rng, SHOTS)
    if rng.random() < 0.2:
        makers = (facts.question, facts.reverse_question, numbers.sum_question, facts.yes_no)
        items = [draw(rng.choice(makers), rng) for _ in range(count)]
    else:
        items = [draw(make, rng) for _ in range(count)]
    items = [careless(rng, item) for item in items]
    text = forms.shots(rng, items, short=rng.random() < 0.85)
    return Document(text, tuple(item.key for item in items))


def labelled_document(rng: Random, long: bool) -> Document:
    """Texts under labels that the examples alone may explain."""
    items = labelled.labelled(rng, rng.randint(20, 60) if long else 0)
    return Document(labelled.layout(rng, items), tuple(item.key for item in items))


def sums_document(rng: Random, long: bool) -> Document:
    items = [draw(numbers.equation, rng) for _ in range(rng.randint(1, 40 if long else 8))]
    lines = (f"{i.ask}{JOINT}{' ' if ' ' in i.ask else ''}{i.short}" for i in items)
    return Document("\n".join(lines), tuple(i.key for i in items))


def thinking_document(rng: Random, long: bool) -> Document:
    """Sums and word problems with the steps between thinking marks, as a system line asks."""
    makers = (numbers.thought_sum, problems.thought_problem)
    items = [draw(rng.choice(makers), rng) for _ in range(rng.randint(5, 12) if long else rng.choice((1, 1, 2)))]
    turns = [(item.ask, f"{forms.THINK}\n{item.full}\n{forms.THINK_END}\n{item.short}") for item in items]
    return Document(forms.chat(turns, rng.choice(("Think first.", "Think step by step."))), tuple(i.key for i in items))


def role_document(rng: Random, long: bool) -> Document:
    """A chat whose system line says things that later turns ask for, or sets a manner of answering."""
    makers = (facts.question, facts.reverse_question, numbers.sum_question)
    fillers = [draw(rng.choice(makers), rng) for _ in range(rng.randint(4, 12) if long else rng.randint(0, 2))]
    made = roles.system_chat(rng, fillers)
    return Document(made.text, (made.key, *(filler.key for filler in fillers)))


def notes_document(rng: Random, long: bool) -> Document:
    part = draw(lambda r: notes.notes(r, r.randint(20, 60) if long else r.randint(2, 8)), rng)
    return Document(part.text, (part.key,))


def passages_document(rng: Random, long: bool) -> Document:
    make = weighted(rng, PASSAGES)
    parts = [draw(make, rng) for _ in range(rng.randint(4, 10) if long else 1)]
    return Document("\n".join(part.text for part in parts), tuple(part.key for part in parts))


DOCUMENTS: tuple[tuple[float, Callable[[Random, bool], Document]], ...] = (
    (36, chat_document), (16, shots_document), (36, passages_document), (12, labelled_document), (18, sums_document),
    (5, thinking_document), (4, role_document), (4, notes_document),
)


def document(rng: Random, long: bool = False) -> Document:
    return weighted(rng, DOCUMENTS)(rng, long)


def held_out_document(rng: Random) -> str:
    """A held-out instance with its answer: as a chat, as a few-shot line, or as the text that it is."""
    while True:
        item, passage = weighted(rng, (*ITEMS, *SHOTS))(rng), weighted(rng, PASSAGES)(rng)
        if held_out(passage.key):
            return (forms.BOS + passage.text).replace(JOINT, "")
        if held_out(item.key):
            as_chat = rng.random() < 0.7
            text = forms.chat([(item.ask, item.full)]) if as_chat else forms.shots(rng, [item], short=True)
            return text.replace(JOINT, "")


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

    def fingerprint(self, step: int) -> str:
        """A hash of the batch, to tell later whether the same text is made."""
        return hashlib.blake2b(self[step].numpy().tobytes(), digest_size=16).hexdigest()
