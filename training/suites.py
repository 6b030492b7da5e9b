"""The held-out questions, suite by suite. What is asked is never an instance that training saw; the examples that
come before it in a few-shot prompt are from training's side.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import forms
from .items import JOINT, Draw, Item, draw
from .own_words import QUESTIONS
from .tasks import classify, facts, numbers, objects, talk, writing
from .tips import TIPS


@dataclass(frozen=True, slots=True)
class Case:
    """`keys` are the instances that must be unknown to training; choices, if any, are scored instead of generating."""

    prompt: str
    want: str
    keys: tuple[str, ...]
    choices: tuple[str, ...] = ()


Judge = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Suite:
    """`make` gives one question, or is the whole set where it was written down.

    stop: ends the answer besides the end of the turn. judge(answer, wanted): whether it is right.
    """

    name: str
    make: Callable[[Random], Case] | tuple[Case, ...]
    judge: Judge
    stop: str = ""

    def cases(self, count: int) -> list[Case]:
        """The first `count` questions, always the same ones."""
        if isinstance(self.make, tuple):
            return list(self.make[:count])
        rng = Random(f"evaluate/{self.name}")
        return [self.make(rng) for _ in range(count)]


def exact(answer: str, want: str) -> bool:
    return answer.strip() == want.strip()


def contains(answer: str, want: str) -> bool:
    return want.lower() in answer.lower()


def starts(answer: str, want: str) -> bool:
    return answer.strip().startswith(want)


def same_json(answer: str, want: str) -> bool:
    """Equal as JSON values; text that is not JSON is wrong."""
    try:
        return bool(json.loads(answer) == json.loads(want))
    except json.JSONDecodeError:
        return False


def no_wrong_value(answer: str, want: str) -> bool:
    """Every wanted field that the answer has, has the wanted value; fields left out or added do not count."""
    try:
        got, wanted = json.loads(answer), json.loads(want)
    except json.JSONDecodeError:
        return False
    return isinstance(got, dict) and all(got[key] == wanted[key] for key in got.keys() & wanted.keys())


def valid_json(answer: str, want: str) -> bool:
    return same_json(answer, answer)


def tips_of(answer: str, want: str) -> bool:
    """As many lines as wanted, numbered, different, and all of them tips of the wanted topic."""
    topic, count = want.split("/")
    known = {tip.title.lower() for tip in TIPS[topic]}
    lines = [line.partition(". ") for line in answer.strip().splitlines()]
    titles = {title.lower() for _, _, title in lines}
    numbers_ = [number for number, _, _ in lines]
    return numbers_ == [str(i + 1) for i in range(int(count))] and len(titles) == int(count) and titles <= known


def short(item: Item) -> str:
    return item.short


def chat(make: Draw, *, want: Callable[[Item], str] = short, system: str = "") -> Callable[[Random], Case]:
    """One turn of chat about a held-out item."""

    def case(rng: Random) -> Case:
        item = draw(make, rng, from_held_out=True)
        return Case(forms.chat([(item.ask, "")], system).partition(JOINT)[0], want(item), (item.key,))

    return case


def few_shot(make: Draw, shots: int, *, by_choice: bool = False, end: str = "") -> Callable[[Random], Case]:
    """`shots` examples, then a held-out item; `end` follows the last label (a blank, to test prompts that end so)."""

    def case(rng: Random) -> Case:
        before = [draw(make, rng) for _ in range(shots)]
        item = draw(make, rng, from_held_out=True)
        lines = [forms.shot(i, item.labels, short=True).replace(JOINT, "") for i in before]
        last = forms.shot(item, item.labels, short=True).partition(JOINT)[0]
        return Case("\n\n".join([*lines, last]) + end, item.short, (item.key,), item.choices if by_choice else ())

    return case


def odd_labels(rng: Random) -> Case:
    """Sentiment under two words that only the eight examples explain."""
    first, second = rng.sample(classify.MARKS, 2)
    return few_shot(lambda r: classify.sentiment(r, (first, second)), 8, by_choice=True)(rng)


def memory(rng: Random) -> Case:
    """Told in the first turn, asked in the fifth."""
    tell, ask = talk.remembered(rng)
    others = [draw(facts.question, rng) for _ in range(3)]
    turns = [(tell.ask, tell.full), *((o.ask, o.full) for o in others), (ask.ask, "")]
    return Case(forms.chat(turns).rpartition(JOINT)[0].replace(JOINT, ""), ask.short, ())


def notes(rng: Random) -> Case:
    made = draw(lambda r: objects.notes(r, 6), rng, from_held_out=True)
    prompt, _, want = made.text.rpartition(JOINT)
    return Case(prompt.replace(JOINT, ""), want.strip(), (made.key,))


def tip_list(rng: Random) -> Case:
    """The question is one that training asks too: what is judged is the list, which is drawn anew each time."""
    item = writing.tip_list(rng)
    topic = item.key.split("/")[1]
    want = f"{topic}/{len(item.short.splitlines())}"
    return Case(forms.chat([(item.ask, "")]).partition(JOINT)[0], want, ())


def statement(rng: Random) -> Case:
    """A sentence to complete."""
    made = draw(facts.statement, rng, from_held_out=True)
    prompt, _, want = made.text.rpartition(JOINT)
    return Case(prompt.replace(JOINT, ""), want.strip(), (made.key,))


OWN_WORDS = tuple(Case(forms.chat([(question, "")]).partition(JOINT)[0], want, ()) for question, want in QUESTIONS)


def equation(rng: Random) -> Case:
    item = draw(numbers.equation, rng, from_held_out=True)
    return Case(item.ask, item.short, (item.key,))


SUITES = (
    Suite("facts, chat", chat(facts.question), contains),
    Suite("facts, chat, phrasing never seen", chat(facts.unseen_question), contains),
    Suite("facts and sums in people's own words (40 written by hand), chat", OWN_WORDS, contains),
    Suite("facts, Q/A, no examples", few_shot(facts.question, 0), exact, "\n"),
    Suite("facts, Q/A, prompt ends in a blank", few_shot(facts.question, 1, end=" "), exact, "\n"),
    Suite("facts, Q/A, 60 examples (about 1,200 tokens)", few_shot(facts.question, 60), exact, "\n"),
    Suite("facts, sentence to complete", statement, starts, "\n"),
    Suite("facts asked backwards, chat", chat(facts.reverse_question), contains),
    Suite("yes or no, chat", chat(facts.yes_no), starts),
    Suite("unknown names are said to be unknown, chat", chat(facts.unknown), contains),
    Suite("sums of up to two digits, chat", chat(numbers.sum_question, want=lambda i: f" = {i.short}"),
          lambda answer, want: answer.strip().endswith(want)),
    Suite("sums, bare (`12 + 34 =`)", equation, exact, "\n"),
    Suite("sums with written-out steps", chat(numbers.thought_sum, system="Think step by step."),
          lambda answer, want: answer.strip().endswith(f"\n{want}")),
    Suite("sentiment, 4 examples, by choice", few_shot(classify.sentiment, 4, by_choice=True), exact),
    Suite("sentiment, 4 examples, generated", few_shot(classify.sentiment, 4), exact, "\n"),
    Suite("sentiment under unusual label words, 8 examples, by choice", odd_labels, exact),
    Suite("topic, 4 examples, by choice", few_shot(classify.topic, 4, by_choice=True), exact),
    Suite("JSON about a thing, chat: no wrong value", chat(objects.world_object), no_wrong_value),
    Suite("JSON about a thing, chat: exactly the fields asked for", chat(objects.world_object), same_json),
    Suite("JSON about a thing, chat: valid JSON", chat(objects.world_object), valid_json),
    Suite("extraction to JSON, chat", chat(objects.extraction), same_json),
    Suite("questions about six given notes", notes, exact, "\n"),
    Suite("memory over four turns", memory, contains),
    Suite("a list of tips (question not held out): right count, right topic, no repeats", tip_list, tips_of),
)
