"""Short texts with a class: the sentiment of a review, the topic and the language of a sentence, and others.

Each is a `Task`; here they are asked by their ordinary names. `labelled` puts other names in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ..items import Item, a, upper_first, weighted
from ..tables import Texts, table
from ..world import ANIMALS, COUNTRIES, ELEMENTS, bare
from . import free_text
from . import messages as m
from . import sentences as s
from .invented import CITIES, JOBS, PEOPLE
from .languages import LANGUAGES

DATA = table("classify")


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """what: the name of what is found out. kinds: what the texts may be called. key: how the keys of its texts begin.

    write(rng, class) makes a text of the class.
    """

    what: str
    kinds: tuple[str, ...]
    classes: tuple[str, ...]
    write: Callable[[Random, str], str]
    key: str = "text"

    def key_of(self, text: str) -> str:
        """Texts that differ only in capital letters or in the last mark are the same instance."""
        return f"{self.key}/{text.lower().rstrip('.!')}"

    def fields(self, rng: Random) -> tuple[str, str]:
        """The words before text and class in few-shot lines."""
        kind, what = upper_first(rng.choice(self.kinds)), upper_first(self.what)
        return rng.choice(((kind, what), (kind, what), ("Text", what), ("Text", "Label"), ("Text", "Class")))


class _Slots(dict[str, str]):
    """Draws a value for whatever a frame names; the capital letter of a name gives the value a capital."""

    def __init__(self, rng: Random, tables: Mapping[str, Sequence[str]]) -> None:
        self.rng, self.tables = rng, tables

    def __missing__(self, name: str) -> str:
        value = self.rng.choice(self.tables[name.lower()])
        if "{" in value:
            value = value.format_map(self)
        return upper_first(value) if name.isupper() else value


MESSAGE_SLOTS = {
    "n": PEOPLE, "c": CITIES, "m": m.MATTERS, "s": m.SURNAMES, "h": m.HOURS, "d": m.DAYS, "g": m.GIFTS, "i": m.GOODS,
    "t": m.TROUBLES, "f": m.TRIFLES, "e": m.EVENTS, "q": m.COUNTS, "x": m.CAUSES,
    "k": tuple(str(20 * i) for i in range(1, 250)),
    "dear": ("Dear Sir or Madam, ", "Dear Ms. {s}, ", "Dear Mr. {s}, ", "Dear Professor {s}, ", "Dear Dr. {s}, "),
}


def _message(what: str) -> Callable[[Random, str], str]:
    def write(rng: Random, name: str) -> str:
        return rng.choice(m.MESSAGES[what][name]).format_map(_Slots(rng, MESSAGE_SLOTS))

    return write


def _deed(frames: Mapping[str, Sequence[str]]) -> Callable[[Random, str], str]:
    def write(rng: Random, name: str) -> str:
        do, does, did, what = rng.choice(m.DEEDS)
        return upper_first(rng.choice(frames[name]).format(
            w=rng.choice(m.SUBJECTS), do=do, does=does, did=did, o=what, ago=rng.choice(m.AGO),
            often=rng.choice(m.OFTEN), later=rng.choice(m.LATER)))

    return write


def _praise(rng: Random, good: bool, part: str = "") -> str:
    """What is said of a part of a product, or of the whole."""
    at = rng.random()
    if at < 0.2:
        return rng.choice(s.DENIALS).format(w=rng.choice(s.PLAIN_BAD if good else s.PLAIN_GOOD))
    if at < 0.55 and part in s.FITTING:
        return rng.choice(s.FITTING[part][not good])
    return rng.choice(s.GOOD if good else s.BAD)


def review(rng: Random, name: str) -> str:
    """Sentences that agree with each other, or one whose end outweighs its beginning; most tell what happened."""
    good = name == "positive"
    if rng.random() < 0.6:
        return free_text.told_review(rng, good)
    product = rng.choice(PRODUCTS)
    x, y = rng.sample(s.PRODUCTS[product], 2)

    def say(frame: str) -> str:
        return upper_first(frame.format(
            p=product, ap=a(product), x=x, y=y, w=_praise(rng, good, x), v=_praise(rng, good, y),
            q=_praise(rng, good), a=rng.choice(s.PLAIN_GOOD if good else s.PLAIN_BAD),
            g=rng.choice(s.GOOD if good else s.PLAIN_GOOD), b=rng.choice(s.PLAIN_BAD if good else s.BAD)))

    at = rng.random()
    if at < 0.2:
        return say(rng.choice(s.GOOD_TURNS if good else s.BAD_TURNS))
    shared, own = say(rng.choice(s.SHARED_REVIEWS)), say(rng.choice(s.GOOD_REVIEWS if good else s.BAD_REVIEWS))
    return shared if at < 0.45 else f"{own} {shared}" if at < 0.7 else f"{shared} {own}"


def _about_topic(rng: Random, name: str, frames: Sequence[str]) -> str:
    row = s.TOPICS[name]
    (who, other), (did, done), (first, second) = (rng.sample(row.who, 2), rng.sample(row.did, 2),
                                                  rng.sample(row.about, 2))
    return upper_first(rng.choice(frames).format(
        who=who, Who=upper_first(who), who2=other, did=did, done=done, does=rng.choice(row.does), a=first, b=second,
        when=rng.choice(s.WHEN), end=rng.choice(s.ENDS), tail=rng.choice(s.TAILS)))


def topic_sentence(rng: Random, name: str) -> str:
    if rng.random() < 0.65:
        return free_text.told_topic(rng, name)
    return _about_topic(rng, name, s.TOPIC_REPORTS if rng.random() < 0.7 else s.TOPIC_TALK)


def headline(rng: Random, name: str) -> str:
    return _about_topic(rng, name, s.HEADLINES)


def _english(rng: Random) -> str:
    """A text of another task: all of them are English."""
    at = rng.random()
    if at < 0.3:
        return review(rng, rng.choice(SENTIMENT.classes))
    if at < 0.65:
        return topic_sentence(rng, rng.choice(TOPIC.classes))
    task = rng.choice(OTHER)
    return task.write(rng, rng.choice(task.classes))


def foreign_sentence(rng: Random, name: str) -> str:
    """An everyday sentence of the language, some with a greeting or a set phrase before it."""
    if name == "English" and rng.random() < 0.4:
        return _english(rng)
    words = LANGUAGES[name]
    if rng.random() < 0.6:
        text = free_text.said(rng, name)
    else:
        text = rng.choice(words.frames).format(o=rng.choice(words.things), p=rng.choice(words.places),
                                               t=rng.choice(words.times), w=rng.choice(words.people))
    at = rng.random()
    if at < 0.06:
        return text.removesuffix(".")
    text = _capital(name, text)
    return text if at < 0.8 else f"{rng.choice(words.hello if at < 0.92 else words.fixed)} {text}"


def _capital(language: str, text: str) -> str:
    """The sentence with its first letter as a capital one, which may stand behind a mark."""
    if text[0] in "¿¡":
        return text[0] + upper_first(text[1:])
    return "İ" + text[1:] if language == "Turkish" and text[0] == "i" else upper_first(text)


def category_words(rng: Random, name: str) -> str:
    """One to three words of a category."""
    return ", ".join(rng.sample(CATEGORIES[name], rng.choice((1, 1, 2, 3))))


def number(rng: Random, name: str) -> str:
    value = {"even": 2 * rng.randrange(2500), "odd": 2 * rng.randrange(2500) + 1,
             "small": rng.randrange(100), "large": rng.randrange(1000, 100_000)}[name]
    return str(value)


PRODUCTS = tuple(s.PRODUCTS)
CATEGORIES: dict[str, tuple[str, ...]] = {
    "animal": tuple(x.name for x in ANIMALS), "country": tuple(bare(x.name) for x in COUNTRIES),
    "element": tuple(x.name for x in ELEMENTS), "city": CITIES, "job": JOBS, **m.WORDS}

SENTIMENT = Task("sentiment", ("review", "comment"), ("positive", "negative"), review)
TOPIC = Task("topic", ("sentence", "text"), tuple(s.TOPICS), topic_sentence)
HEADLINE = Task("topic", ("headline", "title"), tuple(s.TOPICS), headline)
LANGUAGE = Task("language", ("sentence", "text"), tuple(LANGUAGES), foreign_sentence)
WORD = Task("category", ("word list", "list"), tuple(CATEGORIES), category_words, "word")
FORM = Task("type", ("sentence",), tuple(m.DEED_FRAMES), _deed(m.DEED_FRAMES))
TENSE = Task("tense", ("sentence",), tuple(m.TENSE_FRAMES), _deed(m.TENSE_FRAMES))
STYLE, KIND, URGENCY, REPLY, INTENT, EMOTION = (
    Task(what, kinds, tuple(m.MESSAGES[name]), _message(name)) for name, what, kinds in (
        ("style", "style", ("message", "letter")), ("kind", "kind", ("message", "mail")),
        ("urgency", "urgency", ("message", "call")), ("reply", "answer", ("reply", "message")),
        ("intent", "intent", ("message", "request")), ("emotion", "emotion", ("sentence", "message"))))
PARITY = Task("parity", ("number",), ("even", "odd"), number, "parity")
SIZE = Task("size", ("number",), ("small", "large"), number, "parity")
OTHER = (FORM, TENSE, STYLE, KIND, URGENCY, REPLY, INTENT, EMOTION)

ASKS = DATA.get("asks", Texts)
UNSEEN_ASKS = DATA.get("unseen_asks", Texts)
"""Phrasings that only the evaluation uses."""


def listed(rng: Random, names: Sequence[str], right: str) -> str:
    """The classes as a request names them, in any order; of many classes a few, the right one among them."""
    others = [name for name in names if name != right]
    shown = [right, *rng.sample(others, min(len(others), rng.randint(2, 5)))]
    rng.shuffle(shown)
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def asked(rng: Random, task: Task, frames: Sequence[str] = ASKS) -> Item:
    """A text of the task, with a request for its class."""
    name, kind = rng.choice(task.classes), rng.choice(task.kinds)
    text = task.write(rng, name)
    ask = rng.choice(frames).format(kind=kind, Kind=upper_first(kind), what=task.what, What=upper_first(task.what),
                                    c=listed(rng, task.classes, name), t=text)
    return Item(task.key_of(text), ask, name, f"The {task.what} is {name}.", text, task.fields(rng), task.classes)


def sentiment(rng: Random) -> Item:
    return asked(rng, SENTIMENT)


def topic(rng: Random) -> Item:
    return asked(rng, weighted(rng, ((3, TOPIC), (1, HEADLINE))))


def language(rng: Random) -> Item:
    return asked(rng, LANGUAGE)


def other(rng: Random) -> Item:
    """One of the smaller tasks."""
    return asked(rng, rng.choice((WORD, *OTHER)))


def unseen_asked(rng: Random) -> Item:
    """A task about sentences, in words that training never uses."""
    return asked(rng, rng.choice((SENTIMENT, TOPIC, LANGUAGE, *OTHER)), UNSEEN_ASKS)


def mixed(rng: Random) -> Item:
    """A review that says both; its label is a coin toss, so a calibrated model is unsure."""
    product = rng.choice(PRODUCTS)
    x, y = rng.sample(s.PRODUCTS[product], 2)
    good = rng.random() < 0.5
    text = rng.choice(s.TOSS_UPS).format(x=x, y=y, w=_praise(rng, good, x), v=_praise(rng, not good, y))
    short = rng.choice(SENTIMENT.classes)
    ask = rng.choice(ASKS).format(kind="review", Kind="Review", what="sentiment", What="Sentiment",
                                  c=listed(rng, SENTIMENT.classes, short), t=text)
    return Item(SENTIMENT.key_of(text), ask, short, f"The sentiment is {short}.", text, SENTIMENT.fields(rng),
                SENTIMENT.classes)
