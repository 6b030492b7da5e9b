"""Texts as people write them freely: reviews as small events, sentences on a topic, everyday talk in ten languages.

They are put together from clauses, so that what is told counts and not the frame around it.
"""

from __future__ import annotations

from random import Random

from ..items import a, upper_first
from ..tables import Groups, Texts, table
from . import opinions as o
from . import sentences as s
from .invented import PEOPLE
from .speech import SPEECH
from .topic_words import MATTERS

DATA = table("free_text")

BEFORE = DATA.get("before", Groups)
"""What is said before an experience and tells nothing of the mood."""

KINDS = tuple(BEFORE)

DESPITE_WORSE = DATA.get("despite_worse", Texts)
DESPITE_BETTER = DATA.get("despite_better", Texts)
SAID = DATA.get("said", Texts)
PLAINLY_SAID = tuple(frame for frame in SAID if frame.endswith((" is {w}", " was {w}")))
"""The ones that a denied word fits."""
REVIEW_SHAPES = DATA.get("review_shapes", Texts)

AGENTS = DATA.get("agents", Groups)
"""Who may do what people do."""
WRITERS = DATA.get("writers", Texts)
NEUTRAL = DATA.get("neutral", Texts)
CLAUSE_SHAPES = DATA.get("clause_shapes", Texts)
DEED_SHAPES = DATA.get("deed_shapes", Texts)
THING_SHAPES = DATA.get("thing_shapes", Texts)


def typed(rng: Random, text: str) -> str:
    """The text as people type: now and then without its full stop, with more zeal, or in small letters."""
    at = rng.random()
    if at > 0.24:
        return text
    if at < 0.08:
        return text.removesuffix(".")
    if at < 0.18 and text.endswith("."):
        return text[:-1] + "!"
    return text[0].lower() + text[1:] if at < 0.21 else text.lower()


def _filled(rng: Random, shape: str, parts: dict[str, str]) -> str:
    """The shape with its clauses; a capital letter in the shape asks for one in the text."""
    capitals = {name.upper(): upper_first(part) for name, part in parts.items() if len(name) == 1}
    return typed(rng, upper_first(shape.format(**parts, **capitals)))


def _happened(rng: Random, kind: str, good: bool) -> str:
    """A part that works or broke, a person who was kind or rude, a feeling."""
    events, traits, feelings = ((o.GOOD_EVENTS, o.GOOD_TRAITS, o.GOOD_FEELINGS) if good else
                                (o.BAD_EVENTS, o.BAD_TRAITS, o.BAD_FEELINGS))
    persons = o.PERSONS.get(kind, ())
    at = "part" if kind == "goods" else "person" if persons else "feeling"
    trait, other = rng.sample(traits, 2)
    return rng.choice(events[at if rng.random() < 0.7 else "feeling"]).format(
        part=rng.choice(o.PARTS), person=rng.choice(persons) if persons else "", trait=trait, trait2=other,
        so=rng.choice(o.DEGREES), feeling=rng.choice(feelings))


def _judged(rng: Random, thing: str, good: bool) -> str:
    """The thing with an adjective, or with the opposite one denied."""
    frame, word = rng.choice(SAID), rng.choice(s.GOOD if good else s.BAD)
    if rng.random() < 0.12:
        frame = rng.choice(PLAINLY_SAID)
        word = rng.choice(s.DENIALS).format(w=rng.choice(s.PLAIN_BAD if good else s.PLAIN_GOOD))
    return frame.format(t=thing, w=word, aw=a(rng.choice(s.PLAIN_GOOD if good else s.PLAIN_BAD)))


def told_review(rng: Random, good: bool) -> str:
    """One to four clauses of one mood, with and without a neutral beginning."""
    kind = rng.choice(KINDS)
    row = o.EXPERIENCES[kind]
    thing = rng.choice(row.things)
    first, second, third = rng.sample(row.good if good else row.bad, 3)
    if rng.random() < 0.4:
        first = _happened(rng, kind, good)
    verdict, other = rng.sample(o.GOOD_VERDICTS if good else o.BAD_VERDICTS, 2)
    parts = {"e": first, "f": second, "v": verdict, "u": other, "b": rng.choice(BEFORE[kind]).format(t=thing),
             "s": _judged(rng, thing, good),
             "d": rng.choice(DESPITE_WORSE if good else DESPITE_BETTER).format(t=thing, e=third)}
    return _filled(rng, rng.choice(REVIEW_SHAPES), parts)


def told_topic(rng: Random, topic: str) -> str:
    """A clause, a deed or a thing of the topic, in a sentence or two that could be about anything."""
    row = MATTERS[topic]
    at = rng.random()
    shape = rng.choice(CLAUSE_SHAPES if at < 0.4 else DEED_SHAPES if at < 0.75 else THING_SHAPES)
    (c, d), (v, u), (x, y, z) = rng.sample(row.clauses, 2), rng.sample(row.deeds, 2), rng.sample(row.things, 3)
    parts = {"c": c, "d": d, "v": v, "u": u, "a": x, "b": y, "z": z, "bare": y.removeprefix("the "),
             "x": rng.choice(NEUTRAL), "n": rng.choice(PEOPLE), "w": rng.choice(WRITERS),
             "o": rng.choice(AGENTS[topic]), "when": rng.choice(s.WHEN), "end": rng.choice(s.ENDS)}
    return _filled(rng, shape, parts)


def said(rng: Random, language: str) -> str:
    """A sentence of the language without its capital letter; now and then only a row of its commonest words."""
    row = SPEECH[language]
    at = rng.random()
    if at < 0.26:
        return rng.choice(row.clauses) + "."
    if at < 0.54:
        (first, second), joint = rng.sample(row.clauses, 2), rng.randrange(len(row.joins))
        return f"{first}{',' if joint else ''} {row.joins[joint]} {second}."
    if at < 0.68:
        return rng.choice(row.questions)
    if at < 0.88:
        return rng.choice(row.wishes).format(v=rng.choice(row.deeds))
    return rng.choice((" ", " ", ", ")).join(rng.sample(row.words, rng.randint(4, 8)))
