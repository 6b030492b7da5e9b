"""Texts as people write them freely: reviews as small events, sentences on a topic, everyday talk in ten languages.

They are put together from clauses, so that what is told counts and not the frame around it.
"""

from __future__ import annotations

from random import Random

from ..items import a, upper_first
from . import opinions as o
from . import sentences as s
from .invented import PEOPLE
from .speech import SPEECH
from .topic_words import MATTERS

BEFORE = {kind: s.cells(row) for kind, row in {
    "goods": "I bought this {t} last month|I ordered the {t} online|this {t} was a gift from my aunt|"
             "we needed a new {t}|I have had the {t} since spring|I got this {t} for my birthday|"
             "it is my second {t} from this brand",
    "lodging": "we stayed for three nights|we spent our holidays in this {t}|we booked the {t} for our anniversary|"
               "I was there on business|it was our first time in this {t}|we came in October",
    "eating": "we had lunch there on Sunday|we went to this {t} with friends|I took my parents to this {t}|"
              "there is a new {t} in our street|it was my first visit to this {t}|we ordered for four",
    "stories": "I got this {t} from the library|a friend gave me the {t}|I started the {t} last night|"
               "everyone talks about this {t}|I picked the {t} for the long weekend|it is the author's first {t}",
    "shows": "we had tickets for Saturday|we took the children to this {t}|I went to the {t} with my sister|"
             "it was our first {t} this year|it was my first {t}|there were six of us",
    "service": "I called this {t} on Monday|we have used this {t} for a year|I had a question about my bill|"
               "our neighbor told us about this {t}|I needed a {t} in a hurry|I wrote to this {t} twice",
    "rides": "I took the {t} on Friday|we booked the {t} in March|I travel this way every week|"
             "it was our first {t} with this company|we traveled with two small children",
    "lessons": "I started this {t} in May|my son has tried this {t}|I signed up for the {t} in spring|"
               "a colleague told me about this {t}|I have used the {t} for a month",
    "life": "the {t} is over|so that was the {t}|it was a long {t}|I am just back home|"
            "we had planned the {t} for months",
}.items()}
"""What is said before an experience and tells nothing of the mood."""

KINDS = tuple(BEFORE)

DESPITE_WORSE = s.cells(
    "people had warned me about the {t}, but {e}|the {t} was not cheap, but {e}|I did not expect much, but {e}|"
    "I had read bad reviews of the {t}, yet {e}|it rained the whole time, but {e}|at first I was not sure, but {e}|"
    "it is small and old, but {e}|I had to wait a little, but {e}|the {t} does not look like much, but {e}")
DESPITE_BETTER = s.cells(
    "everyone had praised the {t}, but {e}|the {t} is cheap, but {e}|I expected a lot, but {e}|"
    "I had read good reviews of the {t}, yet {e}|it looked lovely in the pictures, but {e}|"
    "at first I was happy, but {e}|it is big and new, but {e}|the start was good, but then {e}|"
    "the {t} looks nice, but {e}|I really wanted to like it, but {e}")
SAID = s.cells("the {t} was {w}|this {t} is {w}|it was {w}|what can I say, it is {w}|such {aw} {t}|what {aw} {t}|"
               "{aw} {t}|it was {aw} {t}|a {t} that is {w}|so {w}|really {w}|{w}, all of it|just {w}|I call that {w}|"
               "my friends and I found it {w}|we thought it was {w}|the {t} is {w} and I mean it|"
               "everybody said it was {w}|it is and remains {w}")
PLAINLY_SAID = tuple(frame for frame in SAID if frame.endswith((" is {w}", " was {w}")))
"""The ones that a denied word fits."""
REVIEW_SHAPES = s.cells(
    "{E}.|{E}.|{E} and {f}.|{E}, and {f}.|{E}. {F}.|{E}. {V}.|{V}. {E}.|{V}!|{V}. {U}.|{V}, {u}.|{S}.|{S}. {E}.|"
    "{E}. {S}.|{S}, {f}.|{B}. {E}.|{B} and {e}.|{B}. {E} and {f}. {V}.|{B}, {e}. {V}.|{D}.|{D}. {V}.|{B}. {D}.|"
    "{E}. {F}. {V}.|{V}. {E}. {F}.|{S}! {E}!|{E} - {v}!|{B}. {S}. {E}.|{V}: {e}.|{B}. {V}.|{D}, and {f}.|"
    "{E}, {f}, and {v}.|{S}. {V}. {U}.|{B}. {E}. {F}. {S}.")

AGENTS = {name: row.who for name, row in s.TOPICS.items()} | {
    "weather": ("weather reporter", "forecaster", "sailor", "old shepherd"),
    "nature": ("forest ranger", "bird watcher", "hiker", "biologist"), "movies": ("actor", "film director", "actress"),
    "art": ("painter", "sculptor", "art student", "collector"), "science": ("scientist", "researcher", "physicist")}
"""Who may do what people do."""
WRITERS = s.cells("I|we|she|he|they|my brother|our neighbor|my aunt|an old friend|his wife|her uncle|the twins|"
                  "my cousin|somebody|the whole family|a man from our street")
NEUTRAL = s.cells(
    "nobody noticed|it was getting late|my sister was waiting outside|everyone was quiet|my aunt laughed|"
    "that was years ago|we did not expect it|I only heard about it today|he did not say a word|we were all surprised|"
    "she could hardly believe it|my brother was there too|it took all day|nobody knew why|they smiled|"
    "I almost missed it|we stayed until the end|I have to think about it|my uncle shook his head|it was a Tuesday|"
    "you were right|"
    "I did not know what to say|nobody had told us|we had to wait|she asked me twice|I am not sure about it")
CLAUSE_SHAPES = s.cells(
    "{c}.|{c}.|{c}.|{c}.|{c}.|{c}.|{n} told me that {c}.|{w} said that {c}.|I read that {c}.|it seems that {c}.|"
    "{c}, and {x}.|{c}, but {x}.|{x}, but {c}.|{x} because {c}.|did you know that {c}?|{c} and {d}.|{c}. {D}.|"
    "{c}, {n} says.|is it true that {c}?|{x}, and {c}.|I am told that {c}.|as you know, {c}.|{c}. {X}.")
DEED_SHAPES = s.cells(
    "{w} {v}.|{w} {v}.|{w} {v}.|{n} {v}.|the {o} {v}.|the {o} {v} and {u}.|{when}{w} {v}.|{w} {v}{end}.|{when}{n} {v}.|"
    "{w} {v} and then {u}.|{n} {v}, and {x}.|{w} {v}, but {x}.|did you hear that {w} {v}?|after {w} {v}, {x}.|"
    "{w} {v} because {c}.|{w} {v}. {C}.|{w} never {v}.|{w} {v} for the first time.|{x} when {w} {v}.|"
    "{w} once {v}.|{n} {v}, and the {o} {u}.|{w} {v}. {X}.")
THING_SHAPES = s.cells(
    "{w} told us all about {a}.|what do you think of {a}?|everyone was talking about {a}.|{w} knew a lot about {a}.|"
    "first came {a}, then {b}.|{n} had a question about {a}.|I have never understood {a}.|{w} wrote to me about {a}.|"
    "tell me more about {a} and {b}.|who cares about {a}?|without {a} there would be no {bare}.|{w} looked at {a}.|"
    "{n} was responsible for {a} and {b}.|{w} liked {a} more than {b}.|it is all about {a}.|{w} pointed at {a}.|"
    "have you seen {a}?|{x}, and then we came to {a}.|{n} was not happy with {a}.|nothing is as important as {a}.|"
    "{n} asked about {b}, the {o} about {a}.|let me say something about {a}.|{w} could not forget {a}.|"
    "{w} spoke of {a}, {b} and {z}.|{A} surprised us all.|{A} came at the right moment.|{w} thought of {a}.|"
    "{A} changed everything, and {x}.|{w} waited for {a}.|it began with {a}.|{n} wrote down a few words about {a}.|"
    "{A} made my brother nervous.|in the end {a} mattered most.|{w} asked for {b}, not for {a}.|{A} went wrong.|"
    "{A} and {b} go together.|{w} noticed {a} first.|{A}? {X}.|we need to talk about {a} and {b}.|"
    "{n} and I disagree about {a}.|{a} and {b}: {x}.")


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
