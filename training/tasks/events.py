"""Events put together from some hundreds of words, and questions about any part of them.

An event is who did what to what, and some of where, when, why, with whom and so on. A question gives some parts in the
words of the text and asks for another one; one without an answer differs from the text in a single part. The words are
in data/events.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from ..items import a
from ..tables import Groups, Texts, table
from .invented import CITIES, DAYS, JOBS, KNOWN_PEOPLE, MONTHS, POOLS, first_name, surname, town

DATA = table("events")

RELATIVES = ("sister", "brother", "mother", "father", "aunt", "uncle", "neighbor", "boss", "cousin", "grandmother",
             "grandfather", "roommate", "daughter", "son", "colleague", "wife", "husband")
ADJECTIVES = ("old", "new", "small", "big", "heavy", "cheap", "beautiful", "strange", "broken", "tiny")
COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "brown", "black", "white", "gray")
COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty")
PEOPLE_PARTS = frozenset(("with", "for", "to", "from"))
UNCOLORED = frozenset(("meals", "games", "subjects", "writings", "sights", "pictures", "cakes", "prizes", "groceries",
                       "wild", "plants", "animals"))
STATES = {"road": "closed dirty blocked icy", "bridge": "closed blocked narrow", "school": "closed empty",
             "kitchen": "dirty cold empty", "train": "late full", "bus": "late full", "weather": "bad hot wonderful",
             "heating": "off broken", "night": "cold long clear", "shop next door": "closed full noisy",
             "baby": "asleep sick hungry", "boss": "angry away sick", "teacher": "late sick away",
             "elevator": "broken slow", "party": "boring noisy over", "wind": "strong cold", "river": "high frozen"}
PURPOSES = ("because of the rain", "because of the snow", "because of the noise", "because of the heat",
            "because of a bad storm", "to save money", "to win a bet", "to surprise the children", "to pass the time",
            "to help a friend", "to learn something new", "to impress the neighbors", "to keep a promise")
REASONS = (*PURPOSES,
           *(f"because the {noun} was {state}" for noun, states in STATES.items() for state in states.split()),
           "because it was raining", "because guests were coming", "because nobody else had time")


@dataclass(frozen=True, slots=True)
class Noun:
    """plural is "" for what is not counted."""

    one: str
    plural: str
    colored: bool


@dataclass(frozen=True, slots=True)
class Verb:
    """ways: pairs of base form and past; all of them mean the same."""

    ways: tuple[tuple[str, str], ...]
    objects: tuple[Noun, ...]
    places: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """noun is None where the verb has no object. count and color are "" where the text gives none.

    parts: what is told besides, by its name: where, when, why, with, for, to, from, price.
    """

    subject: str
    pronoun: str
    verb: Verb
    noun: Noun | None
    count: str
    adjective: str
    parts: dict[str, str] = field(default_factory=dict)
    future: bool = False

    @property
    def object(self) -> str:
        """As the text has it."""
        if not self.noun:
            return ""
        if not self.noun.plural:
            return self.noun.one
        if self.count:
            return " ".join(word for word in (self.count, self.adjective, self.noun.plural) if word)
        return a(f"{self.adjective} {self.noun.one}".strip())

    @property
    def known(self) -> str:
        """As one goes on to speak of it."""
        if not self.noun or not self.noun.plural:
            return self.noun.one if self.noun else ""
        return f"the {self.noun.plural if self.count else self.noun.one}"

    @property
    def key(self) -> str:
        told = "/".join(f"{name}={value}" for name, value in sorted(self.parts.items()))
        return f"{self.subject}/{self.verb.ways[0][0]}/{self.object}/{told}"


def _noun(word: str, colored: bool) -> Noun:
    if word.endswith("*"):
        return Noun(word[:-1], "", False)
    one, _, plural = word.partition("/")
    return Noun(one, plural or one + "s", colored)


NOUNS = {name: tuple(_noun(word, name not in UNCOLORED) for word in words)
         for name, words in DATA.get("nouns", Groups).items()}
PLACES = DATA.get("places", Groups)


def _verb(forms: str, kinds: str, where: str, parts: str) -> Verb:
    words = forms.split()
    objects = tuple(noun for kind in kinds.split() if kind != "-" for noun in NOUNS[kind])
    return Verb(tuple(zip(words[::2], words[1::2], strict=True)), objects,
                tuple(place for kind in where.split() for place in PLACES[kind]),
                tuple(parts.split()))


VERBS = tuple(_verb(*row) for row in DATA.get("verbs", tuple[Texts, ...]))


# Making events

def person(rng: Random) -> tuple[str, str]:
    """Somebody in a text, and the pronoun."""
    way = rng.random()
    if way < 0.2:
        return f"the {rng.choice(JOBS)}", ""
    name, pronoun = first_name(rng)
    if way < 0.3:
        return f"{name}'{'' if name.endswith('s') else 's'} {rng.choice(RELATIVES)}", ""
    return (f"{name} {surname(rng)}" if way < 0.4 else name), pronoun


def teller(rng: Random) -> tuple[str, str]:
    """The user, mostly, or somebody the user calls mine."""
    return ("I", "I") if rng.random() < 0.65 else (f"my {rng.choice(RELATIVES)}", "")


def _somebody(rng: Random) -> str:
    return rng.choice(KNOWN_PEOPLE)[0] if rng.random() < 0.5 else person(rng)[0]


def _place(rng: Random, verb: Verb) -> str:
    place = rng.choice(verb.places)
    if "{" not in place:
        return place
    spot = rng.choice(CITIES) if rng.random() < 0.4 else town(rng)
    return place.replace("{t}", spot).replace("{n}", str(rng.randint(2, 40))).replace("{s}", POOLS["street"](rng))


def _time(rng: Random, future: bool) -> str:
    way = rng.random()
    if way < 0.3:
        return f"on {rng.choice(DAYS)}{rng.choice(('', '', ' morning', ' evening', ' afternoon'))}"
    if way < 0.45:
        return f"in {rng.choice(MONTHS)}"
    if way < 0.6:
        return f"at {rng.choice((POOLS['morning'], POOLS['evening']))(rng)}"
    if way < 0.7:
        return f"on {rng.choice(MONTHS)} {rng.randint(1, 28)}"
    if future:
        return rng.choice(("tomorrow", "next week", "next month", "in two weeks", "after lunch", "tonight"))
    if way < 0.8:
        return f"in {rng.randint(1950, 2025)}"
    return rng.choice(("yesterday", "last week", "last year", "last night", "after lunch", "before breakfast",
                       "during the holidays", "three days ago", "two years ago", "at midnight", "early in the morning"))


def _part(rng: Random, name: str, verb: Verb, future: bool) -> str:
    if name == "where":
        return _place(rng, verb)
    if name == "when":
        return _time(rng, future)
    if name == "why":
        return rng.choice(PURPOSES if future else REASONS)
    if name == "price":
        return f"{rng.choice((rng.randint(2, 20), rng.randint(2, 90), rng.randint(10, 95) * 10))} " \
               f"{rng.choice(('dollars', 'dollars', 'euros', 'pounds'))}"
    return _somebody(rng)


def _parts(rng: Random, verb: Verb, future: bool, taken: set[str]) -> dict[str, str]:
    """One to three of the parts that the verb allows; people in them are in nothing else of the text."""
    names = [name for name in parts_of(verb) if name != "for" or rng.random() < 0.6]
    parts: dict[str, str] = {}
    for name in rng.sample(names, min(rng.choice((1, 1, 2, 2, 3)), len(names))):
        if (name in ("for", "why") and parts.keys() & {"for", "why"}) or (name == "price" and "for" in parts):
            continue
        value = _part(rng, name, verb, future)
        if name in PEOPLE_PARTS:
            if who(value) in taken:
                continue
            taken.add(who(value))
        parts[name] = value
    if "for" in parts:
        parts.pop("price", None)
    return parts or {"when": _time(rng, future)}


def parts_of(verb: Verb) -> tuple[str, ...]:
    """What may be told besides who does what."""
    return (*(("where",) if verb.places else ()), "when", "why", *verb.parts)


def who(name: str) -> str:
    """What two names of one person have in common."""
    return name if name.startswith(("the ", "my ")) else name.split("'")[0].split()[0]


def event(rng: Random, subject: tuple[str, str], taken: set[str], before: Sequence[Event] = ()) -> Event:
    """An event of the subject's; often it has the verb, the object, the place or the time of an earlier one."""
    verb = rng.choice(before).verb if before and rng.random() < 0.35 else rng.choice(VERBS)
    noun = rng.choice(verb.objects) if verb.objects else None
    if before and noun and rng.random() < 0.35:
        other = rng.choice(before).noun
        noun = other if other in verb.objects else noun
    count = adjective = ""
    if noun and noun.plural:
        count = rng.choice(COUNTS) if rng.random() < 0.25 else ""
        way = rng.random()
        adjective = rng.choice(COLORS) if noun.colored and way < 0.3 else rng.choice(ADJECTIVES) if way > 0.9 else ""
    future = rng.random() < 0.12
    parts = _parts(rng, verb, future, taken)
    if before and rng.random() < 0.25:
        earlier = rng.choice(before)
        parts |= {name: earlier.parts[name] for name in ("when",) if name in parts and name in earlier.parts
                  and earlier.future == future}
    return Event(*subject, verb, noun, count, adjective, parts, future)


def events(rng: Random, count: int, some: Callable[[Random], tuple[str, str]] = person) -> list[Event]:
    """So many events or a few less; the same person does the same to the same thing only once."""
    subjects: dict[str, tuple[str, str]] = {}
    for _ in range(rng.randint(1 if some is teller else 2, max(2, count))):
        made = some(rng)
        subjects.setdefault(who(made[0]), made)
    taken, people = set(subjects), tuple(subjects.values())
    out: list[Event] = []
    for _ in range(count):
        made_event = event(rng, rng.choice(people), taken, out)
        if not any(same(made_event, other) for other in out):
            out.append(made_event)
    return out


def same(one: Event, other: Event) -> bool:
    return one.subject == other.subject and one.verb is other.verb and one.noun is other.noun
