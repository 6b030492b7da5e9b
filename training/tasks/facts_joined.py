"""Questions that join several facts: chains, comparisons, belonging, counting, the odd one out.

The facts that an answer rests on are said before the answer itself.
"""

from __future__ import annotations

from functools import cache
from random import Random

from ..alternatives import expand
from ..items import Item, a, listing, upper_first
from ..relations import BY_NAME
from ..tables import Pairs, table
from ..things import DAYS, MONTHS
from ..wording import Relation, sentence, unique, write
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS
from .facts import groups, told
from .list_words import COUNT_CORES, NOT_CORES, ODD_CORES, about_list, key_of

DATA = table("facts_joined")

COUNT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CHAIN_HEADS = DATA.get("chain_heads", Pairs)
CHAIN_HEADS_UNSEEN = {"capital": "the nation governed from {v}", "currency": "the place where the {v} is used",
                      "symbol": "what chemists write as {v}", "number": "element number {v}",
                      "planet": "planet number {v}"}
CHAIN_TAILS = {"capital": ("language", "currency", "continent"), "currency": ("capital", "language", "continent"),
               "symbol": ("number", "state", "element"), "number": ("symbol", "state", "element"), "planet": ("giant",)}
CITY_HEADS = ("the [country|land|nation] [where {c} is|that {c} is in|in which {c} lies|of the city {c}|of {c}"
              "|that {c} belongs to|where {c} is found|where the city of {c} is]")
CITY_TAILS = ("capital", "language", "currency", "continent")


def chain(rng: Random) -> Item:
    """A fact about something that is only described: the description is resolved first."""
    return _city_chain(rng) if rng.random() < 0.45 else _described_chain(rng, CHAIN_HEADS)


def unseen_chain(rng: Random) -> Item:
    """The same under descriptions that training never uses."""
    return _described_chain(rng, CHAIN_HEADS_UNSEEN)


def _described_chain(rng: Random, heads: dict[str, str]) -> Item:
    head = rng.choice(("capital", "capital", "capital", "currency", "symbol", "number", "planet"))
    first, second = BY_NAME[head], BY_NAME[rng.choice(CHAIN_TAILS[head])]
    entity = rng.choice(unique(first))
    value = first.facts[entity]
    ask = _ask_of(rng, second, expand(rng, heads[head]).format(v=value))
    full = f"{sentence(first.back_say, entity, value)} {told(second, entity)}"
    return Item(f"chain/{head}/{second.name}/{entity}", ask, second.facts[entity], full)


def _city_chain(rng: Random) -> Item:
    """From a city to what its country has."""
    where, second = BY_NAME["city"], BY_NAME[rng.choice(CITY_TAILS)]
    city = rng.choice(_cities(second.name))
    country = where.facts[city]
    ask = _ask_of(rng, second, expand(rng, CITY_HEADS).format(c=city))
    return Item(f"chain/city/{second.name}/{city}", ask, second.facts[country],
                f"{told(where, city)} {told(second, country)}")


@cache
def _cities(wanted: str) -> tuple[str, ...]:
    """All cities; without the capitals if the capital is asked for."""
    capitals = {land.capital for land in COUNTRIES}
    return tuple(c for c in BY_NAME["city"].facts if wanted != "capital" or c not in capitals)


@cache
def _clauses(relation: Relation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Questions and noun phrases that can take a long description in place of a name."""
    return (tuple(q for q in relation.ask if "{e}'s" not in q), tuple(n for n in relation.noun if "{e}'s" not in n))


NOUN_FRAMES = (
    "what is {p}?", "{p}?", "{p}", "{p}, please.", "[please |kindly |][tell me|name|give me|say|find|look up] {p}.",
    "[do you know|can you name|can you tell me|could you name|can you find|who knows] {p}[|, please]?",
    "[I am looking for|I need|I want to know|I would like to know|I have to find|my question is about] {p}.",
    "[what's|what would be|so what is|and what is|tell me, what is|a question: what is] {p}?",
)


def _ask_of(rng: Random, relation: Relation, described: str) -> str:
    asks, nouns = _clauses(relation)
    if rng.random() < 0.5:
        return f"{upper_first(write(rng.choice(asks), described))}?"
    frame = expand(rng, rng.choice(NOUN_FRAMES))
    return upper_first(frame.format(p=write(rng.choice(nouns), described)))


@cache
def kinds() -> dict[str, tuple[str, ...]]:
    """Words by what they are: each word belongs to one kind only."""
    found = {"country": [c.name for c in COUNTRIES], "animal": [x.name for x in ANIMALS], "planet":
             [p.name for p in PLANETS if p.name != "Mercury"], "month": list(MONTHS), "day of the week": list(DAYS),
             "chemical element": [e.name for e in ELEMENTS if e.name != "mercury"],
             "city": list(BY_NAME["city"].facts), "color": [c for c in groups()["colors"] if c != "orange"]}
    found |= {kind: groups()[more_than_one(kind)] for kind in COUNTED[1:]}
    taken = [name for names in found.values() for name in names]
    return {kind: tuple(n for n in names if taken.count(n) == 1 and "," not in n) for kind, names in found.items()}


COUNTED = ("animal", "fruit", "vegetable", "tool", "tree", "flower", "vehicle", "toy", "building",
           "piece of furniture", "piece of clothing")


def one_of(kind: str, name: str) -> str:
    """The word as the subject of a sentence."""
    return a(name) if kind in COUNTED else name


PLURAL_KINDS = {"country": "countries", "city": "cities", "day of the week": "days of the week",
                "piece of furniture": "pieces of furniture", "piece of clothing": "pieces of clothing"}


def more_than_one(kind: str) -> str:
    return PLURAL_KINDS.get(kind, f"{kind}s")


BELONGS_ASKS = ("is {n} {o}?", "is {n} {o}?", "what is {n}: {o}?", "{n}: {o}?", "{n}, is it {o}?", "{n} - {o}?",
    "[what|which|what kind of thing|which of these] is {n}[:|,| -] {o}?",
    "[is|would you call] {n} {o}[, please|, do you know]?",
    "[do|would|should|can] [you|we|I|one] call {n} {o}?", "[how|as what] would you class {n}: as {o}?",
    "[tell me|say|decide|find out|I want to know|please tell me|I wonder] [whether|if] {n} is {o}.",
    "[which|what] is it, is {n} {o}?", "does {n} count as {o}?",
    "[choose|pick|select]: [is {n}|{n} is] {o}?", "[my son asks|a question|tell me|quiz|so]: is {n} {o}?")


def belongs(rng: Random) -> Item:
    """What kind of thing a word is, out of two or three kinds named."""
    kind, *others = rng.sample(list(kinds()), rng.choice((2, 3)))
    name = rng.choice(kinds()[kind])
    offered = [kind, *others]
    rng.shuffle(offered)
    either = " or ".join((", ".join(a(k) for k in offered[:-1]), a(offered[-1])))
    ask = expand(rng, rng.choice(BELONGS_ASKS))
    shown = one_of(kind, name)
    said = f"{upper_first(shown)} is {a(kind)}."
    return Item(f"belongs/{name}/{key_of(offered)}", upper_first(ask.format(n=shown, o=either)), a(kind), said,
                choices=tuple(a(k) for k in offered))


ODD_ASKS_UNSEEN = ("There is an intruder here: {l}. Who is it?",
    "Three of these go together. Which one is left over? {l}")


def odd_one_out(rng: Random) -> Item:
    """Three of a kind and one of another."""
    shown, odd, full = _odd(rng)
    ask = about_list(rng, ODD_CORES, shown)
    return Item(f"odd/{key_of(shown)}", ask, odd, full, choices=tuple(shown))


def unseen_odd_one_out(rng: Random) -> Item:
    """The same in wordings that training never uses."""
    shown, odd, full = _odd(rng)
    ask = rng.choice(ODD_ASKS_UNSEEN).format(l=", ".join(shown))
    return Item(f"odd/{key_of(shown)}", ask, odd, full, choices=tuple(shown))


def _odd(rng: Random) -> tuple[list[str], str, str]:
    """A list, what does not belong in it, and why; the others are named in the order of the list."""
    if rng.random() < 0.5:
        kind, other = rng.sample(list(kinds()), 2)
        names, odd = rng.sample(kinds()[kind], 3), rng.choice(kinds()[other])
        why = f"are {more_than_one(kind)}, but {one_of(other, odd)} is {a(other)}."
    else:
        here, there = rng.sample(("Africa", "Asia", "Europe", "South America", "North America"), 2)
        names = rng.sample(groups()[f"countries in {here}"], 3)
        odd = rng.choice(groups()[f"countries in {there}"])
        why = f"are in {here}, but {odd} is in {there}."
    shown = [*names, odd]
    rng.shuffle(shown)
    alike = [name for name in shown if name != odd]
    return shown, odd, f"{upper_first(listing(alike))} {why} So the odd one out is {odd}."


def count_members(rng: Random) -> Item:
    """How many words of a list are of a kind; they are named before they are counted."""
    kind, *others = rng.sample(list(kinds()), rng.choice((2, 3)))
    count = rng.randint(1, 5)
    members = rng.sample(kinds()[kind], min(count, len(kinds()[kind])))
    shown = [*members, *(rng.choice(kinds()[other]) for other in others)]
    shown = list(dict.fromkeys(shown))
    rng.shuffle(shown)
    members = [name for name in shown if name in members]
    many = more_than_one(kind)
    said = (f"The {many} are {listing(members)}" if len(members) > 1 else f"The only {kind} is {members[0]}")
    number = COUNT_WORDS[len(members)]
    return Item(f"members/count/{kind}/{key_of(shown)}", about_list(rng, COUNT_CORES, shown, k=many), number,
                f"{said}, so there {'are' if len(members) > 1 else 'is'} {number}.")


def not_one_of(rng: Random) -> Item:
    """Which of the things named is not of a kind."""
    if rng.random() < 0.5:
        kind, other = rng.sample(list(kinds()), 2)
        names, odd, many = rng.sample(kinds()[kind], rng.choice((2, 3))), rng.choice(kinds()[other]), a(kind)
        said = f"{upper_first(one_of(other, odd))} is not {a(kind)}, it is {a(other)}."
    else:
        here, there = rng.sample(("Africa", "Asia", "Europe", "South America", "North America"), 2)
        names = rng.sample(groups()[f"countries in {here}"], rng.choice((2, 3)))
        odd, many = rng.choice(groups()[f"countries in {there}"]), f"in {here}"
        said = f"{upper_first(odd)} is not in {here}, it is in {there}."
    shown = [*names, odd]
    rng.shuffle(shown)
    return Item(f"not/{many}/{key_of(shown)}", about_list(rng, NOT_CORES, shown, k=many), odd, said,
                choices=tuple(shown))
