"""Kinds of invented things that a passage may tell of, and what can be said and asked about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ..tables import Texts, table
from .invented import BEASTS, CITIES, JOBS, POOLS, brand, first_name, stem, surname, town

Name = tuple[str, str, str]
"""How a thing is called at first, how it is called later, and its pronoun ("" for the one of its kind)."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """predicates begin with the verb; sentences have {e}. noun is "" where "the noun of the thing" reads badly."""

    noun: str
    value: Callable[[Random], str]
    predicates: tuple[str, ...]
    sentences: tuple[str, ...]
    asks: tuple[str, ...]
    unseen_ask: str


@dataclass(frozen=True, slots=True)
class Kind:
    """what: begins a question for a thing, such as "Who" or "Which ship"."""

    noun: str
    what: str
    name: Callable[[Random], Name]
    pronoun: str
    intros: tuple[str, ...]
    attributes: tuple[Attribute, ...]


def _one(make: Callable[[Random], str]) -> Callable[[Random], Name]:
    def name(rng: Random) -> Name:
        made = make(rng)
        return made, made, ""

    return name


def _of(form: str, *words: str) -> Callable[[Random], Name]:
    return _one(lambda rng: form.format(rng.choice(words)))


def _person(rng: Random) -> Name:
    first, pronoun = first_name(rng)
    return (f"{first} {surname(rng)}" if rng.random() < 0.5 else first), first, pronoun


def _animal(rng: Random) -> Name:
    name = first_name(rng)[0]
    return f"{name} the {rng.choice(BEASTS)}", name, ""


COMMON: dict[str, tuple[str, ...]] = {
    "vehicle": ("car", "bike", "van", "truck", "scooter", "motorbike", "trailer", "tractor", "taxi", "camper"),
    "pet": ("dog", "cat", "rabbit", "parrot", "horse", "hamster", "goat", "pony", "donkey", "kitten", "puppy"),
    "relative": ("sister", "brother", "aunt", "uncle", "cousin", "neighbor", "roommate", "grandmother",
                 "grandfather", "daughter", "son", "friend", "colleague", "niece", "nephew"),
    "appointment": ("meeting", "concert", "exam", "interview", "party", "workshop", "lecture", "dinner", "rehearsal",
                    "course", "training"),
    "building": ("bridge", "tower", "wall", "mill", "church", "school", "hall", "tunnel", "gate", "barn", "castle",
                 "swimming pool"),
    "device": ("laptop", "phone", "printer", "oven", "lamp", "radio", "camera", "fridge", "vacuum cleaner", "heater",
               "washing machine", "tablet"),
    "journey": ("train", "bus", "ferry", "boat trip", "night train", "coach", "express"),
    "home": ("house", "flat", "cottage", "apartment", "cabin", "villa", "bungalow"),
    "parcel": ("parcel", "letter", "package", "crate", "envelope", "box", "suitcase"),
}
"""Things without a name of their own, by their kind."""
MARKS = ("old", "new", "small", "big", "second", "first", "other", "third", "heavy", "beautiful")


def _common(kind: str) -> Callable[[Random], Name]:
    """A thing as one speaks of it: the old car, Mira's car, the car of the baker, the train to Oslo."""

    def make(rng: Random) -> str:
        noun, way = rng.choice(COMMON[kind]), rng.random()
        if kind == "journey" and way < 0.7:
            return f"the {noun} to {town(rng) if way < 0.4 else rng.choice(CITIES)}"
        if kind in ("building", "home") and way < 0.4:
            return f"the {noun} in {town(rng)}"
        if kind == "building" or (kind != "relative" and way < 0.6):
            return f"the {rng.choice(MARKS)} {noun}"
        if way < 0.85:
            owner = first_name(rng)[0]
            return f"{owner}'{'' if owner.endswith('s') else 's'} {noun}"
        return f"the {noun} of the {rng.choice(JOBS)}"

    return _one(make)


def _relative(rng: Random) -> Name:
    name = _common("relative")(rng)[0]
    noun = name.replace("the ", "").split(" of ")[0].split()[-1]
    return name, name, "she" if noun in SHE else "he" if noun in HE else rng.choice(("he", "she"))


SHE = frozenset(("sister", "aunt", "grandmother", "daughter", "niece"))
HE = frozenset(("brother", "uncle", "grandfather", "son", "nephew"))
NAMES: dict[str, Callable[[Random], Name]] = {
    "person": _person, "animal": _animal, "town": _one(town), "company": _one(brand),
    "festival": _one(lambda rng: f"the {rng.choice((stem(rng), 'Lantern', 'Harvest', 'River', 'Moon', 'Kite'))} "
                                 f"{rng.choice(('Festival', 'Fair', 'Parade'))}"),
    "museum": _one(lambda rng: f"the {rng.choice((stem(rng), town(rng)))} Museum"),
    "expedition": _one(lambda rng: f"the {surname(rng)} expedition"),
    "dish": _one(lambda rng: f"{rng.choice((stem(rng), town(rng)))} "
                             f"{rng.choice(('soup', 'stew', 'sauce', 'porridge'))}"),
    "product": _one(lambda rng: f"the {brand(rng)} {rng.choice(('lamp', 'clock', 'radio', 'fan', 'drill', 'kettle'))}"),
    "lesson": _of("the {} lesson", "art", "music", "history", "science", "cooking", "swimming", "writing", "dance",
                  "drawing", "math", "chess", "singing"),
    "things to borrow": _of("{}", "novels", "films", "maps", "magazines", "comics", "games", "records", "atlases",
                            "picture books", "newspapers", "puzzles", "guidebooks"),
    "club": _of("the {} club", "chess", "garden", "film", "book", "cooking", "sailing", "hiking", "photo", "card",
                "running", "knitting", "theater"),
    "room": _of("the {}", "kitchen", "bedroom", "hall", "cellar", "attic", "library", "bathroom", "dining room",
                "office", "guest room", "playroom", "workshop"),
    "book": _one(lambda rng: f"The {rng.choice(('Silent', 'Golden', 'Last', 'Lost', 'Green', 'Broken', 'Secret'))} "
                             f"{rng.choice(('Harbor', 'Garden', 'Letter', 'Tower', 'Island', 'Winter', 'Mirror'))}"),
    "ship": _one(lambda rng: f"the {rng.choice((stem(rng), 'Morning', 'Northern', 'Silver', 'Brave', 'Blue'))} "
                             f"{rng.choice(('Star', 'Queen', 'Gull', 'Wave', 'Swan', 'Arrow'))}"),
    "shop": _one(lambda rng: f"the {surname(rng)} shop"),
    "team": _one(lambda rng: f"{town(rng)} {rng.choice(('United', 'City', 'Rovers', 'Athletic'))}"),
    "bus": _one(lambda rng: f"bus {rng.randint(2, 99)}"), "hotel": _one(lambda rng: f"the {stem(rng)} Hotel"),
    "farm": _one(lambda rng: f"the {surname(rng)} farm"), "island": _one(lambda rng: f"the island of {stem(rng)}a"),
    **{f"common {kind}": _common(kind) for kind in COMMON}, "common relative": _relative,
    "robot": _one(lambda rng: f"robot {stem(rng)} {rng.randint(2, 9)}"),
}


class Told(NamedTuple):
    """An attribute as the table holds it."""

    noun: str
    pool: str
    says: Texts
    asks: Texts
    unseen_ask: str


class Thing(NamedTuple):
    """A kind of thing as the table holds it."""

    noun: str
    what: str
    names: str
    pronoun: str
    intros: Texts
    attributes: tuple[Told, ...]


def _attribute(told: Told) -> Attribute:
    return Attribute("" if told.noun.startswith("(") else told.noun, POOLS[told.pool],
                     tuple(say for say in told.says if "{e}" not in say),
                     tuple(say for say in told.says if "{e}" in say), told.asks, told.unseen_ask)


def _kind(thing: Thing) -> Kind:
    return Kind(thing.noun, thing.what, NAMES[thing.names], thing.pronoun, thing.intros,
                tuple(_attribute(told) for told in thing.attributes))


KINDS = tuple(_kind(thing) for thing in table("scenes").get("kinds", tuple[Thing, ...]))
