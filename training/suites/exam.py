"""The hand-written exam: questions in no template of ours, put in the same forms of prompt as the other suites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from random import Random

from .. import forms
from ..items import JOINT, Draw, Item
from ..tasks import classify
from ..tasks.passages import NOT_SAID
from . import own_words
from .base import Case, Suite, ask, exact, few_shot, same_json


def has_word(answer: str, want: str) -> bool:
    """`want` begins a word of the answer."""
    return re.search(rf"\b{re.escape(want)}", answer, re.IGNORECASE) is not None


def last_number(answer: str, want: str) -> bool:
    return re.findall(r"\d+", answer)[-1:] == [want]


def asked(rows: Iterable[tuple[str, str]]) -> tuple[Case, ...]:
    """Each question as a chat."""
    return tuple(Case(ask(question), want, ()) for question, want in rows)


def labelled(rows: Iterable[tuple[str, str]], make: Draw, labels: tuple[str, str]) -> tuple[Case, ...]:
    """Each text after six examples of training's side, by choice among all labels."""
    rows = list(rows)
    names = tuple(sorted({label for _, label in rows}))

    def of_these(rng: Random) -> Item:
        while (item := make(rng)).short not in names:
            pass
        return item

    examples = few_shot(of_these, 6)
    cases = []
    for text, label in rows:
        shots = examples(Random(f"exam/{text}")).prompt.rpartition("\n\n")[0]
        cases.append(Case(f"{shots}\n\n{labels[0]}: {text}\n{labels[1]}:", label, (), names))
    return tuple(cases)


def extraction(sentence: str, wanted: dict[str, str | int]) -> Case:
    return Case(ask(f"Extract {', '.join(wanted)} as JSON: {sentence}"), json.dumps(wanted), ())


def memory(told: str, question: str, want: str) -> Case:
    turns = [(told, "I will remember that."), ("What is the capital of France?", "The capital of France is Paris."),
             (question, "")]
    return Case(forms.chat(turns).rpartition(JOINT)[0].replace(JOINT, ""), want, ())


def _passages(answered: bool) -> tuple[Case, ...]:
    return tuple(
        Case(ask(f"Read the text and answer.\n\n{passage}\n\n{question if answered else absent}"),
             want if answered else NOT_SAID, ())
        for passage, question, want, absent in own_words.PASSAGES
    )


SUITES = (
    Suite("exam, 40 questions (an earlier set)", asked(own_words.QUESTIONS), has_word),
    Suite("exam, 60 facts", asked(own_words.FACTS), has_word),
    Suite("exam, 20 sums of two and three digits", asked(own_words.SUMS), last_number),
    Suite("exam, 25 word problems", asked(own_words.PROBLEMS), last_number),
    Suite("exam, 30 reviews after 6 examples, by choice",
          labelled(own_words.REVIEWS, classify.sentiment, ("Review", "Sentiment")), exact),
    Suite("exam, 24 topics after 6 examples, by choice",
          labelled(own_words.HEADLINES, classify.topic, ("Text", "Topic")), exact),
    Suite("exam, 24 languages after 6 examples, by choice",
          labelled(own_words.LANGUAGES, classify.language, ("Text", "Language")), exact),
    Suite("exam, 20 passages, the answer is there", _passages(answered=True), has_word),
    Suite("exam, 20 passages, the answer is not there", _passages(answered=False), has_word),
    Suite("exam, 20 extractions to JSON", tuple(extraction(*row) for row in own_words.EXTRACT), same_json),
    Suite("exam, 15 things told two turns ago", tuple(memory(*row) for row in own_words.MEMORY), has_word),
)
