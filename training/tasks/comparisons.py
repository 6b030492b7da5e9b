"""Two things of the world side by side: which is more, which comes first, whether both are so.

The facts are said first, then how they compare, then the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..alternatives import expand
from ..items import Item, upper_first
from ..relations import BY_NAME
from ..tables import Groups, Texts, table
from ..things import MONTHS
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, plural
from .facts import YES_NO, told
from .list_words import key_of

DATA = table("comparisons")

LEGS = {"no": 0, "two": 2, "four": 4, "six": 6, "eight": 8}

WHICH_ASKS = DATA.get("which_asks", Texts)
"""{is} {m}: a verb and what it says."""

YES_ASKS = ("{q}?", "{q}?", "{q}?", "{q}?",
            "[yes or no|a question|tell me|just checking|my son asks|well|so][: |, ]{q}?",
            "{q}? [Yes or no|What do you think|Do you know|Can you tell me]?", "{q}, [please|do you know|yes or no]?")
LEG_ASKS = ("do {a} have more legs than {b}", "have {a} got more legs than {b}",
            "is the number of legs of {a} larger than that of {b}",
            "[is it true|is it right|is it so|do you think] that {a} have more legs than {b}",
            "compared with {b}, do {a} have more legs",
            "do {a} have [a larger|a greater|a higher] number of legs than {b}")
BOTH_ASKS = ("are {a} and {b} both in {c}", "are both {a} and {b} in {c}", "do {a} and {b} both lie in {c}",
             "[is it true|is it right|is it so|do you think] that {a} and {b} are [both |]in {c}",
             "can I [find|visit|see] both {a} and {b} in {c}", "do both {a} and {b} [lie in|belong to] {c}",
             "are {a} and {b} [both countries in|two countries of|both part of] {c}",
             "does {c} [have|contain] both {a} and {b}")
SAME_ASKS = DATA.get("same_asks", Groups)


def compare_facts(rng: Random) -> Item:
    """Two things side by side, by number, place or size."""
    return rng.choice((_protons, _protons, _legs, _both_there, _both_there, _nearer_sun, _earlier, _same_value))(rng)


def _which(rng: Random, one: str, two: str, verb: str, more: str) -> str:
    """Which of two things is more in some way."""
    ask = expand(rng, rng.choice(WHICH_ASKS))
    return upper_first(ask.format_map({"a": one, "b": two, "A": upper_first(one), "is": verb, "m": more}))


def _whether(rng: Random, asks: Sequence[str], one: str, two: str, where: str = "") -> str:
    """A yes-or-no question about two things."""
    plain = expand(rng, rng.choice(asks)).format(a=one, b=two, c=where)
    return upper_first(expand(rng, rng.choice(YES_ASKS)).format(q=plain))


MORE_PROTONS = ("the larger atomic number", "the larger atomic number", "the higher atomic number", "more protons")
FEWER_PROTONS = ("the smaller atomic number", "the smaller atomic number", "the lower atomic number", "fewer protons")


def _protons(rng: Random) -> Item:
    one, two = rng.sample(ELEMENTS, 2)
    larger = rng.random() < 0.6
    word = "larger" if larger else "smaller"
    most, least = sorted((one, two), key=lambda element: int(element.number), reverse=larger)
    said = rng.choice(MORE_PROTONS if larger else FEWER_PROTONS)
    full = (f"{upper_first(one.name)} has the atomic number {one.number} and {two.name} has the atomic number "
            f"{two.number}. {most.number} is {word} than {least.number}, so the {word} atomic number is that of "
            f"{most.name}.")
    return Item(f"compare/number/{key_of([one.name, two.name])}/{word}", _which(rng, one.name, two.name, "has", said),
                most.name, full)


def _legs(rng: Random) -> Item:
    one, two = rng.sample(ANIMALS, 2)
    first, second = plural(one.name), plural(two.name)
    more = LEGS[one.legs] > LEGS[two.legs]
    said = (f"{upper_first(first)} have {one.legs} legs and {second} have {two.legs} legs. "
            f"{upper_first(_number(one.legs))} is {'' if more else 'not '}more than {_number(two.legs)}")
    return _so(f"compare/legs/{key_of([first, second])}", _whether(rng, LEG_ASKS, first, second), said, more)


def _number(legs: str) -> str:
    return "zero" if legs == "no" else legs


def _so(key: str, ask: str, said: str, holds: bool) -> Item:
    """First the facts, then yes or no."""
    return Item(key, ask, YES_NO[not holds], f"{said}, so the answer is {YES_NO[not holds].lower()}.", choices=YES_NO)


def _both_there(rng: Random) -> Item:
    one, far = rng.choice(COUNTRIES), rng.random() < 0.5
    two = rng.choice([c for c in COUNTRIES if c is not one and (c.continent == one.continent or far)])
    where = rng.choice((one, one, two)).continent
    said = f"{upper_first(one.name)} is in {one.continent} and {two.name} is in {two.continent}"
    ask = _whether(rng, BOTH_ASKS, one.name, two.name, where)
    return _so(f"compare/both/{key_of([one.name, two.name])}", ask, said,
               one.continent == two.continent == where)


def _same_value(rng: Random) -> Item:
    """Whether two countries share a continent or a currency or a language."""
    name, asks = rng.choice(list(SAME_ASKS.items()))
    one, two = rng.sample(COUNTRIES, 2)
    if rng.random() < 0.4:
        two = rng.choice([c for c in COUNTRIES if c.continent == one.continent and c is not one])
    relation = BY_NAME[name]
    answer = YES_NO[relation.facts[one.name] != relation.facts[two.name]]
    return Item(f"compare/same/{name}/{key_of([one.name, two.name])}", _whether(rng, asks, one.name, two.name), answer,
                f"{told(relation, one.name)} {told(relation, two.name)} So the answer is {answer.lower()}.",
                choices=YES_NO)


def _nearer_sun(rng: Random) -> Item:
    one, two = rng.sample(PLANETS, 2)
    near = rng.random() < 0.6
    word = "closer to" if near else "farther from"
    winner, other = sorted((one, two), key=PLANETS.index, reverse=not near)
    said = rng.choice((word, "nearer to" if near else "farther away from"))
    full = (f"Counted from the sun, {one.name} comes {one.place} and {two.name} comes {two.place}. "
            f"{upper_first(winner.place)} is {'before' if near else 'after'} {other.place}, "
            f"so {winner.name} is {word} the sun.")
    ask = _which(rng, one.name, two.name, "is", f"{said} the sun")
    return Item(f"compare/sun/{key_of([one.name, two.name])}/{near}", ask, winner.name, full)


def _earlier(rng: Random) -> Item:
    """Which of two months comes first in the year."""
    months = list(MONTHS)
    one, two = rng.sample(months, 2)
    early = rng.random() < 0.6
    word = "earlier" if early else "later"
    winner, other = sorted((one, two), key=months.index, reverse=not early)
    places = BY_NAME["month"].facts
    full = (f"{one} is the {places[one]} month and {two} is the {places[two]} month. {upper_first(places[winner])} is "
            f"{'before' if early else 'after'} {places[other]}, so {winner} comes {word} in the year.")
    ask = _which(rng, one, two, rng.choice(("is", "comes")), f"{word} in the year")
    return Item(f"compare/month/{key_of([one, two])}/{word}", ask, winner, full)
