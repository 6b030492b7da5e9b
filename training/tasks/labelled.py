"""Few-shot documents in which only the examples say what a label means.

The texts are those of `classify`. One document has one mapping from classes to labels: the ordinary names, the
ordinary names interchanged, or words that mean nothing here. A sixteenth of those words is for the evaluation alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .. import forms
from ..items import JOINT, Item, draw, held_out, weighted
from ..tables import table
from . import classify
from .classify import Task

DATA = table("labelled")


def _words(text: str) -> list[str]:
    return text.split()


WORDS = DATA.get("word_lists", list[str])
LETTERS = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
DIGITS = [str(i) for i in range(100)]
SYMBOLS = _words("## # ** * ++ + -- == % %% & && @ @@ $ $$ ! !! ? ?? ~ ~~ ^ ^^ << >> [] () (+) (-) [x] [o] <> /// :: "
                 ":) :( =) +1 -1 *** ### !!! ??? +++")
NUMBERED = [f"{name}{i}" for name in ("class ", "group ", "type ", "L", "C", "T", "label_", "set ", "kind ")
            for i in (1, 2, 3, 4, 5, 6, "A", "B", "C", "D")]
SYLLABLES = [first + second + end for first in "bdfgklmnprstvz" for second in "aeiou"
             for end in ("m", "n", "l", "bo", "da", "du", "fi", "lu", "mi", "ne", "no", "ra", "ri", "su", "vo")]


def _side(words: Sequence[str], unseen: bool) -> tuple[str, ...]:
    """The different ones of the words that are for the evaluation alone, or the others."""
    return tuple(word for word in dict.fromkeys(words) if held_out(f"label/{word.lower()}") == unseen)


POOLS = tuple((weight, _side(pool, False)) for weight, pool in (
    (5, WORDS), (1, [w.title() for w in WORDS]), (1, [w.upper() for w in WORDS]),
    (1.5, LETTERS), (0.5, [w.lower() for w in LETTERS]), (1, DIGITS), (1, SYMBOLS), (1, NUMBERED),
    (3, SYLLABLES), (1, [w.title() for w in SYLLABLES]), (2, [*WORDS, *LETTERS, *DIGITS, *SYMBOLS, *SYLLABLES])))
UNSEEN_POOLS = tuple((weight, _side(pool, True)) for weight, pool in (
    (5, WORDS), (3, SYLLABLES), (3, [*LETTERS, *DIGITS, *SYMBOLS, *NUMBERED])))
"""Label words that only the evaluation uses."""

TASKS: tuple[tuple[float, Task], ...] = (
    (5, classify.WORD), (3, classify.SENTIMENT), (2, classify.TOPIC), (1, classify.HEADLINE), (3, classify.LANGUAGE),
    *((1, task) for task in classify.OTHER), (0.5, classify.PARITY), (0.5, classify.SIZE))
FIELDS = (("Text", "Label"), ("Input", "Output"), ("Sentence", "Class"), ("Example", "Group"), ("Item", "Tag"),
          ("Q", "A"), ("x", "y"), ("Text", "Answer"), ("IN", "OUT"), ("Case", "Code"), ("text", "label"))
ARROWS = ("->", "->", "=>", "→", "|", "=", "//", ">>", "-", "is", "gets")
LEADS = (
    "Classify each {given} as {c}.", "Label every {given} with {c}.", "Each {given} belongs to {c}.",
    "The {wanted} is {c}.", "Choose {c} for each {given}.", "Sort the lines into {c}.", "Possible answers are {c}.",
    "The labels are {c}.", "Give the {wanted}, {c}.", "Follow the examples and answer with {c}.",
    "Continue the pattern.", "Sort these as the examples do.", "Learn from the examples.", "Here are some examples.",
    "Find the rule and apply it.", "The label words have no meaning of their own. Read the examples.")
CHAT_SYSTEMS = ("", "", "Label each message.", "Answer with the label only.", "Sort each text as before.",
                "Learn the labels from the conversation.", "You are a classifier.", "Answer with one label.")
QUESTIONS = ("Now label this: {t}", "Which label fits this one? {t}", "What about this? {t}", "Next: {t}",
             "And this one?\n{t}", "Label this in the same way: {t}", "Which label does this get?\n\n{t}", "{t}")


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """What one document goes by: the task, the label of each of its classes, the words before text and label."""

    task: Task
    names: dict[str, str]
    fields: tuple[str, str]


def classes_of(rng: Random, task: Task) -> list[str]:
    """Two to four classes of the task in any order; mostly two."""
    return rng.sample(task.classes, min(len(task.classes), rng.choice((2, 2, 3, 4))))


def ordinary(rng: Random, task: Task) -> Mapping:
    return Mapping(task, {name: name for name in classes_of(rng, task)}, task.fields(rng))


def swapped(rng: Random, task: Task) -> Mapping:
    """Every class has the name of another one."""
    names = classes_of(rng, task)
    return Mapping(task, dict(zip(names, [*names[1:], names[0]], strict=True)), task.fields(rng))


def arbitrary(rng: Random, task: Task, *, unseen: bool = False) -> Mapping:
    """Labels that mean nothing here: training's, or those that training never uses."""
    names = classes_of(rng, task)
    labels = rng.sample(weighted(rng, UNSEEN_POOLS if unseen else POOLS), len(names))
    fields = rng.choice(FIELDS) if rng.random() < 0.7 else task.fields(rng)
    return Mapping(task, dict(zip(names, labels, strict=True)), fields)


def example(rng: Random, mapping: Mapping, name: str) -> Item:
    """A text of the class under its label; the rest of the mapping is in `labels` and `choices`."""
    text, label = mapping.task.write(rng, name), mapping.names[name]
    return Item(mapping.task.key_of(text), text, label, label, text, mapping.fields, tuple(mapping.names.values()))


def known(rng: Random, mapping: Mapping, name: str) -> Item:
    """An example of the class from training's side."""
    return draw(lambda r: example(r, mapping, name), rng)


def examples(rng: Random, mapping: Mapping, count: int) -> list[Item]:
    """Training's texts, roughly as many of each class; one document in two shows every class before any twice."""
    names = list(mapping.names)
    rng.shuffle(names)
    order = (names + rng.choices(names, k=count))[:count]
    if rng.random() < 0.5:
        rng.shuffle(order)
    return [known(rng, mapping, name) for name in order]


def labelled(rng: Random, count: int = 0) -> list[Item]:
    """The examples of one document, by default 3 to 20; now and then a text comes twice."""
    make = weighted(rng, ((2, ordinary), (1, swapped), (7, arbitrary)))
    items = examples(rng, make(rng, weighted(rng, TASKS)), count or rng.randint(3, 20))
    if rng.random() < 0.15:
        items.insert(rng.randint(1, len(items)), items[0])
    return items


def lead(rng: Random, item: Item) -> str:
    """A line of instruction, or none."""
    if rng.random() < 0.5:
        return ""
    names = list(item.choices)
    rng.shuffle(names)
    given, wanted = (word.lower() if len(word) > 3 else usual
                     for word, usual in zip(item.labels, ("text", "label"), strict=True))
    return rng.choice(LEADS).format(given=given, wanted=wanted, c=f"{', '.join(names[:-1])} or {names[-1]}")


def lines(rng: Random, items: Sequence[Item]) -> str:
    """The examples one below the other, all in the same form."""
    (given, wanted), arrow, at = items[0].labels, rng.choice(ARROWS), rng.random()
    gaps: tuple[str, ...]
    if at < 0.5:
        form, gaps = given + ": {t}\n" + wanted + ":{joint} {l}", ("\n", "\n\n", "\n\n", "\n---\n")
    elif at < 0.9:
        form, gaps = "{t} " + arrow + "{joint} {l}", ("\n", "\n", "\n\n")
    else:
        form, gaps = "[" + given + "] {t} [" + wanted + "]{joint} {l}", ("\n",)
    gap, head = rng.choice(gaps), lead(rng, items[0])
    text = gap.join(form.format(t=item.given, l=item.short, joint=JOINT) for item in items)
    return f"{head}{rng.choice((gap, chr(10)))}{text}" if head else text


def layout(rng: Random, items: Sequence[Item]) -> str:
    """The document: lines mostly, else a chat turn by turn, or a chat with the examples in its first request."""
    at = rng.random()
    if at < 0.75:
        return lines(rng, items)
    if at < 0.88:
        return forms.chat([(item.given, item.short) for item in items], rng.choice(CHAT_SYSTEMS))
    shown = lines(rng, items[:-1]).replace(JOINT, "")
    question = rng.choice(QUESTIONS).format(t=items[-1].given)
    return forms.chat([(f"{shown}\n\n{question}", items[-1].short)], rng.choice(CHAT_SYSTEMS))
