"""Who tells a word problem and how: persons, the forms of verbs, numbers as digits or words."""

from __future__ import annotations

from functools import cache
from random import Random

from ..tables import Pairs, table
from .problem_schema import HER, HIM, NAMES

DATA = table("problem_teller")

IRREGULAR = DATA.get("irregular", Pairs)
NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
                "twelve")
ROLES = ("a farmer", "a baker", "a teacher", "a gardener", "a driver", "a cook", "a student", "a girl", "a boy",
         "a woman", "a man", "a child", "a painter", "a doctor", "a shopkeeper")
KIN = ("my sister", "my brother", "my mother", "my father", "my uncle", "my aunt", "my friend", "my neighbor")
SHE = {"a girl", "a woman", "my sister", "my mother", "my aunt"}
HE = {"a boy", "a man", "my brother", "my father", "my uncle"}
OTHERS = ("my cousin", "the neighbor", "my grandmother")


@cache
def past(verb: str) -> str:
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


@cache
def third(verb: str) -> str:
    """`gives`, `carries`, `goes`"""
    if verb == "have":
        return "has"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "go", "do")) else f"{verb}s"


class Teller(dict[str, str]):
    """Fills the slots of clauses one after the other.

    {s} the main person: by name first, later often by pronoun. {n} the same, never by pronoun. {whom} and {poss}: the
    same as an object and as an owner. {he} {him} {his}: pronouns. A verb in braces agrees with {s}, after m_ with one
    other person or thing, after t_ with several things.
    """

    def __init__(self, rng: Random, named: dict[str, str], *, alone: bool = False) -> None:
        """`alone`: the main person has a name or is the one who asks."""
        super().__init__(named)
        self.rng, self.past, self.met = rng, False, False
        self.plain = False
        kind = rng.random()
        self.first = self.later = named["n"]
        if kind < 0.16:
            self._speaker("I", "me", "my")
        elif kind < 0.22 and not alone:
            self._speaker("we", "us", "our")
        elif kind < 0.36 and not alone:
            self._other(rng.choice(ROLES + KIN))
        if kind > 0.22 and rng.random() < 0.1:
            self["m"] = rng.choice(OTHERS)
        self.words = rng.random() < 0.25

    def _speaker(self, subject: str, him: str, his: str) -> None:
        self.first = self.later = subject
        self.plain = True
        self |= {"he": subject, "him": him, "his": his, "n": subject}

    def _other(self, who: str) -> None:
        girl = who in SHE or (who not in HE and self.rng.random() < 0.5)
        self.first, self.later = who, f"the {who[2:]}" if who.startswith("a ") else who
        self |= (HER if girl else HIM) | {"n": who}

    @property
    def is_named(self) -> bool:
        """Whether the main person has a name, so that a solution may use it."""
        return self.first in NAMES

    def number(self, value: int) -> str:
        return NUMBER_WORDS[value] if self.words and value <= 12 and self.rng.random() < 0.7 else str(value)

    def tell(self, template: str) -> str:
        return template.format_map(self)

    def __getitem__(self, slot: str) -> str:
        if slot in ("s", "n", "whom", "poss"):
            return self._person(slot)
        return super().__getitem__(slot)

    def __missing__(self, slot: str) -> str:
        number, _, verb = slot.rpartition("_")
        plain = number == "t" or (not number and self.plain)
        if verb == "be":
            return self._be(number, plain)
        if self.past:
            return past(verb)
        return verb if plain else third(verb)

    def _person(self, slot: str) -> str:
        known, self.met = self.met, True
        name = self.later if known else self.first
        if self.plain:
            return {"whom": self.get("him", ""), "poss": self.get("his", "")}.get(slot, self.first)
        if slot == "poss":
            return f"{name}'" if name.endswith("s") else f"{name}'s"
        return self["he"] if slot == "s" and known and self.rng.random() < 0.7 else name

    def _be(self, number: str, plain: bool) -> str:
        if self.past:
            return "were" if number == "t" or (self.first == "we" and not number) else "was"
        if not plain:
            return "is"
        return "am" if self.first == "I" and not number else "are"
