"""Scenes, passages that tell them, and questions about them.

A scene is some invented things and what is true of them; a passage tells a scene in sentences. Everything asked is
about the scene, so the right answer is known, and so is whether the passage holds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ..items import a, upper_first
from .scenes import KINDS, Attribute, Kind

NOT_SAID = "The text does not say."


@dataclass(frozen=True, slots=True)
class Thing:
    """name: how it is called at first and in answers. brief: how it may be called later."""

    kind: Kind
    name: str
    brief: str
    pronoun: str


@dataclass(frozen=True, slots=True)
class Fact:
    thing: Thing
    attribute: Attribute
    value: str


@dataclass(frozen=True, slots=True)
class Scene:
    """strangers: for each kind of thing told of, one more thing of which nothing is told."""

    things: tuple[Thing, ...]
    facts: tuple[Fact, ...]
    strangers: tuple[Thing, ...]

    @property
    def key(self) -> str:
        told = sorted(f"{f.thing.name}:{f.attribute.asks[0]}={f.value}" for f in self.facts)
        return f"reading/{'/'.join(told)}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a text. fact: what of a scene answers it. where: what document tells it, "" if none does."""

    question: str
    short: str
    full: str
    fact: Fact | None
    where: str = ""


# Making a scene

def _things(rng: Random, kind: Kind, count: int, taken: set[str]) -> list[Thing]:
    made: list[Thing] = []
    while len(made) < count:
        name, brief, pronoun = kind.name(rng)
        if brief not in taken:
            taken.add(brief)
            made.append(Thing(kind, name, brief, pronoun or kind.pronoun or "it"))
    return made


def _facts(rng: Random, things: Sequence[Thing], attributes: Sequence[Attribute], taken: set[str]) -> list[Fact]:
    """Values of one attribute differ; nobody in a value is called like one of the things."""
    told = []
    for attribute in attributes:
        having = [thing for thing in things if len(things) == 1 or rng.random() < 0.7] or [rng.choice(things)]
        values: list[str] = []
        while len(values) < len(having):
            value = attribute.value(rng)
            if value not in values and value.partition(" ")[0] not in taken:
                values.append(value)
        told += [Fact(*row) for row in zip(having, [attribute] * len(having), values, strict=True)]
    return told


def _scene(rng: Random, groups: Sequence[tuple[Kind, int, int]]) -> Scene:
    """groups: a kind, how many things of it, how many attributes are told; one attribute never is."""
    taken: set[str] = set()
    things: list[Thing] = []
    strangers, facts = [], []
    for kind, count, _ in groups:
        *some, stranger = _things(rng, kind, count + 1, taken)
        things += some
        strangers.append(stranger)
    for kind, _, told in groups:
        attributes = rng.sample(kind.attributes, min(told, len(kind.attributes) - 1))
        facts += _facts(rng, [thing for thing in things if thing.kind is kind], attributes, taken)
    return Scene(tuple(things), tuple(facts), tuple(strangers))


def scene(rng: Random) -> Scene:
    """One to four things of a kind, seldom of two kinds: four to twelve facts or so."""
    if rng.random() < 0.15:
        return _scene(rng, [(kind, 1, rng.randint(2, 4)) for kind in rng.sample(KINDS, 2)])
    count, told = rng.choice(((1, (4, 6)), (2, (3, 5)), (2, (3, 5)), (3, (2, 4)), (4, (2, 3))))
    return _scene(rng, [(rng.choice(KINDS), count, rng.randint(*told))])


def documents_scene(rng: Random) -> Scene:
    """For two to four documents: one thing in each, some of them of the same kind."""
    kinds = rng.sample(KINDS, rng.randint(1, 2))
    return _scene(rng, [(kind, rng.randint(2, 3) if len(kinds) == 1 else rng.randint(1, 2), rng.randint(2, 3))
                        for kind in kinds])


# Telling a scene

WRAPPERS = ("As everyone knows, {s}", "It is true that {s}", "The notes say that {s}", "By the way, {s}",
            "One can read that {s}", "People say that {s}", "Also, {s}")
FILLERS = ("There is more to tell another day.", "The rest of the page is torn.", "Somebody took a photo.",
           "That is all we heard this morning.", "Not everyone knows this.", "The list is getting longer.",
           "Many readers asked about this.", "A few lines are hard to read.", "We checked it twice.")


def _filled(template: str, fact: Fact, name: str) -> str:
    text = template.replace("{v}", fact.value).replace("{e}", name)
    return text.replace("{a}", a(fact.value)) if "{a}" in text else text


class _Teller:
    """Says facts one after the other. A pronoun stands only after a sentence that begins with the same thing."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.named: set[str] = set()
        self.last: Thing | None = None

    def _call(self, thing: Thing) -> str:
        name = thing.brief if thing.brief in self.named else thing.name
        self.named.add(thing.brief)
        return name

    def _clause(self, fact: Fact, name: str) -> str:
        return f"{name} {_filled(self.rng.choice(fact.attribute.predicates), fact, name)}"

    def one(self, fact: Fact) -> str:
        rng, name = self.rng, self._call(fact.thing)
        if fact.thing is self.last and rng.random() < 0.6:
            return self._clause(fact, fact.thing.pronoun)
        if rng.random() < 0.3:
            self.last = None
            return _filled(rng.choice(fact.attribute.sentences), fact, name)
        self.last = fact.thing
        return self._clause(fact, name)

    def two(self, first: Fact, second: Fact) -> str:
        """Two facts in one sentence."""
        name = first.thing.pronoun if first.thing is self.last else self._call(first.thing)
        clause = self._clause(first, name)
        if second.thing is first.thing:
            self.last = first.thing
            return f"{clause} and {_filled(self.rng.choice(second.attribute.predicates), second, name)}"
        self.last = None
        link = self.rng.choice((", while ", ", and ", "; "))
        return f"{clause}{link}{self._clause(second, self._call(second.thing))}"

    def sentence(self, text: str) -> str:
        if self.rng.random() < 0.06:
            text = self.rng.choice(WRAPPERS).replace("{s}", text)
        return upper_first(text) + "."

    def all(self, facts: Sequence[Fact]) -> list[str]:
        out, at = [], 0
        while at < len(facts):
            if at and self.rng.random() < 0.05:
                out.append(self.rng.choice(FILLERS))
                self.last = None
            if at + 1 < len(facts) and self.rng.random() < 0.35:
                out.append(self.sentence(self.two(facts[at], facts[at + 1])))
                at += 2
            else:
                out.append(self.sentence(self.one(facts[at])))
                at += 1
        return out


def told_each(rng: Random, scene: Scene) -> list[tuple[Thing, str]]:
    """One short passage for each thing of which something is told, in any order."""
    parts = {thing.brief: [fact for fact in scene.facts if fact.thing is thing] for thing in scene.things}
    things = [thing for thing in rng.sample(scene.things, len(scene.things)) if parts[thing.brief]]
    return [(thing, _passage(rng, parts[thing.brief])) for thing in things]


def _passage(rng: Random, facts: list[Fact]) -> str:
    rng.shuffle(facts)
    return " ".join(_Teller(rng).all(facts))


def told(rng: Random, scene: Scene) -> str:
    """The passage: thing by thing, or mixed."""
    facts = list(scene.facts)
    rng.shuffle(facts)
    if rng.random() < 0.6:
        facts.sort(key=lambda fact: scene.things.index(fact.thing))
    sentences = _Teller(rng).all(facts)
    if rng.random() < 0.5:
        sentences.insert(0, rng.choice(scene.things[0].kind.intros))
    return (" " if rng.random() < 0.9 else "\n").join(sentences)


# Asking about it

NOUN_ASKS = ("Can you tell me the {n} of {e}?", "Tell me the {n} of {e}.", "I need the {n} of {e}.",
             "What does the text say about the {n} of {e}?", "Find the {n} of {e}.", "The {n} of {e}?", "{n} of {e}")
WHO_ASKS = ("{w} {p}?", "{w} {p}?", "{w} {p}?", "Find out: {w} {p}?", "I would like to know: {w} {p}?")
UNSEEN_WHO_ASKS = ("{w}, according to what is written, {p}?", "Look it up, please. {w} {p}?")


def _ask_for_value(rng: Random, thing: Thing, attribute: Attribute, unseen: bool) -> str:
    name = thing.name if rng.random() < 0.6 else thing.brief
    if unseen:
        template = attribute.unseen_ask
    elif attribute.noun and rng.random() < 0.25:
        template = rng.choice(NOUN_ASKS).replace("{n}", attribute.noun)
    else:
        template = rng.choice(attribute.asks)
    return upper_first(template.replace("{e}", name))


def _ask_for_thing(rng: Random, fact: Fact, unseen: bool) -> str:
    """Who or what it is that the fact is true of."""
    template = rng.choice(UNSEEN_WHO_ASKS if unseen else WHO_ASKS)
    predicate = _filled(rng.choice(fact.attribute.predicates), fact, "")
    return upper_first(template.replace("{w}", fact.thing.kind.what).replace("{p}", predicate))


def _answered(rng: Random, scene: Scene, unseen: bool) -> Asked:
    fact = rng.choice(scene.facts)
    full = upper_first(f"{fact.thing.name} {_filled(fact.attribute.predicates[0], fact, '')}.")
    if rng.random() < 0.2:
        return Asked(_ask_for_thing(rng, fact, unseen), fact.thing.name, full, fact)
    return Asked(_ask_for_value(rng, fact.thing, fact.attribute, unseen), fact.value, full, fact)


def _not_answered(rng: Random, scene: Scene, unseen: bool) -> Asked:
    """Of a stranger, or what is told of another thing only, or of none; or who it is, and nobody is."""
    way = rng.random()
    some = rng.choice(scene.facts)
    if way < 0.2:
        question = _ask_for_value(rng, _stranger(scene, some), some.attribute, unseen)
    elif way < 0.35:
        question = _ask_for_thing(rng, Fact(some.thing, some.attribute, _other_value(rng, scene, some)), unseen)
    else:
        question = _ask_for_value(rng, *_gap(rng, scene, elsewhere=way < 0.7), unseen)
    return Asked(question, NOT_SAID, NOT_SAID, None)


def _stranger(scene: Scene, fact: Fact) -> Thing:
    return next(thing for thing in scene.strangers if thing.kind is fact.thing.kind)


def _other_value(rng: Random, scene: Scene, fact: Fact) -> str:
    """One that the attribute has for none of the things."""
    told = {f.value for f in scene.facts if f.attribute is fact.attribute}
    value = fact.attribute.value(rng)
    while value in told:
        value = fact.attribute.value(rng)
    return value


def _gap(rng: Random, scene: Scene, *, elsewhere: bool) -> tuple[Thing, Attribute]:
    """What is not told of a thing; `elsewhere`: told of another thing, if there is such a gap."""
    told = {(fact.thing.brief, id(fact.attribute)) for fact in scene.facts}
    mentioned = [fact.attribute for fact in scene.facts] if elsewhere else []
    gaps = [(thing, attribute) for thing in scene.things for attribute in mentioned
            if attribute in thing.kind.attributes and (thing.brief, id(attribute)) not in told]
    thing = rng.choice(scene.things)
    return rng.choice(gaps or [(thing, attribute) for attribute in thing.kind.attributes
                               if (thing.brief, id(attribute)) not in told])


def asked(rng: Random, scene: Scene, *, answered: bool | None = None, unseen: bool = False) -> Asked:
    """answered: whether the passage holds an answer; it does two times in three if not said."""
    if answered is None:
        answered = rng.random() < 0.66
    return (_answered if answered else _not_answered)(rng, scene, unseen)
