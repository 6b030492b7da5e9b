"""Classes by name, with and without examples, and labels whose meaning only the examples tell."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..items import JOINT, Draw, draw, weighted
from ..tasks import classify, labelled
from ..tasks.classify import Task
from ..tasks.labelled import Mapping
from .base import Case, Suite, chat, ends, exact, few_shot

SENTENCE_TASKS = tuple(row for row in labelled.TASKS if row[1] not in (classify.WORD, classify.PARITY, classify.SIZE))
"""What the evaluation puts under labels: a word or a number is never unknown, since other text holds it."""

MakeMapping = Callable[[Random, Task], Mapping]


def unseen(rng: Random, task: Task) -> Mapping:
    """Under label words that training never uses."""
    return labelled.arbitrary(rng, task, unseen=True)


def explained(make: MakeMapping, shots: int, *, by_choice: bool = True,
              tasks: tuple[tuple[float, Task], ...] = SENTENCE_TASKS) -> Callable[[Random], Case]:
    """`shots` examples under one mapping of `make`, every class among them, then a held-out text of any class."""

    def case(rng: Random) -> Case:
        mapping = make(rng, weighted(rng, tasks))
        names = list(mapping.names)
        order = (names * shots)[:shots]
        rng.shuffle(order)
        items = [labelled.known(rng, mapping, name) for name in order]
        name = rng.choice(names)
        item = draw(lambda r: labelled.example(r, mapping, name), rng, from_held_out=True)
        prompt = labelled.lines(rng, [*items, item]).rpartition(JOINT)[0].replace(JOINT, "")
        return Case(prompt, item.short, (item.key,), item.choices if by_choice else ())

    return case


def named(what: str, make: Draw) -> tuple[Suite, ...]:
    """The three ways to ask for a class by its ordinary name."""
    return (Suite(f"{what}, 4 examples, by choice", few_shot(make, 4, by_choice=True), exact, bar=0.92),
            Suite(f"{what}, 8 examples, by choice", few_shot(make, 8, by_choice=True), exact, bar=0.92),
            Suite(f"{what}, 4 examples, generated", few_shot(make, 4), exact, "\n"),
            Suite(f"{what}, chat, no examples", chat(make), ends))


SUITES = (
    *named("sentiment", classify.sentiment), *named("topic", classify.topic), *named("language", classify.language),
    Suite("any classification of sentences, 8 examples, by choice", explained(labelled.ordinary, 8), exact),
    Suite("any classification of sentences, chat, phrasing never seen", chat(classify.unseen_asked), ends),
    Suite("unseen label words, 8 examples, by choice", explained(unseen, 8), exact, bar=0.85),
    Suite("unseen label words, 16 examples, by choice", explained(unseen, 16), exact),
    Suite("unseen label words, 8 examples, generated", explained(unseen, 8, by_choice=False), exact, "\n"),
    Suite("sentiment under unseen label words, 8 examples, by choice",
          explained(unseen, 8, tasks=((1, classify.SENTIMENT),)), exact),
    Suite("ordinary labels interchanged, 8 examples, by choice", explained(labelled.swapped, 8), exact),
)
