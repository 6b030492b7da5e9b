"""The facts of the world as records with named fields; every field may go by several names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from ..items import a
from ..things import AUTHORS, INVENTORS
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, bare
from .json_text import Record, Shape, dump, in_style

LEGS = {"no": 0, "two": 2, "four": 4, "six": 6, "eight": 8, "ten": 10}
PLACES = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}
FLIES = ("bat", "bee", "beetle", "butterfly", "dragonfly", "fly", "ladybug", "mosquito", "moth", "wasp")
FLIGHTLESS = ("chicken", "emu", "kiwi", "ostrich", "penguin", "turkey")
WATERS = ("sea", "river", "pond", "lake", "ocean", "reef")


class Field(NamedTuple):
    """names: the keys it goes by, the usual one first. values: one for every thing of the kind."""

    names: tuple[str, ...]
    type: str
    values: Sequence[Any]


class Kind(NamedTuple):
    """things: how each is called in a sentence. usual: so many of the first fields are given where none are named.

    unknown: fields that people ask for and the model cannot know.
    """

    name: str
    plural: str
    things: Sequence[str]
    fields: tuple[Field, ...]
    usual: int
    unknown: tuple[tuple[str, str], ...] = ()


def _text(names: str, values: Sequence[str]) -> Field:
    return Field(tuple(names.split()), "string", values)


def _number(names: str, values: Sequence[int]) -> Field:
    return Field(tuple(names.split()), "integer", values)


def _check(names: str, values: Sequence[bool]) -> Field:
    return Field(tuple(names.split()), "boolean", values)


def _flies(name: str, kind: str) -> bool:
    return name in FLIES or (kind == "bird" and name not in FLIGHTLESS)


_EURO = [c.currency == "euro" for c in COUNTRIES]
_IN_EUROPE = [c.continent == "Europe" for c in COUNTRIES]

COUNTRY = Kind(
    "country", "countries", [c.name for c in COUNTRIES],
    (_text("name country country_name", [bare(c.name) for c in COUNTRIES]),
     _text("capital capital_city", [c.capital for c in COUNTRIES]),
     _text("continent continent_name", [c.continent for c in COUNTRIES]),
     _text("language main_language spoken_language", [c.language for c in COUNTRIES]),
     _text("currency currency_name money", [c.currency for c in COUNTRIES]),
     Field(("sights", "landmarks", "attractions", "places_to_visit"), "array", [list(c.sights) for c in COUNTRIES]),
     _check("in_europe is_in_europe", _IN_EUROPE), _check("uses_euro uses_the_euro", _EURO)),
    5, (("population", "integer"), ("area", "integer"), ("president", "string"), ("anthem", "string")))
CITY = Kind(
    "city", "cities", [c.capital for c in COUNTRIES],
    (_text("name city city_name", [c.capital for c in COUNTRIES]),
     _text("country country_name", [bare(c.name) for c in COUNTRIES]),
     _text("continent", [c.continent for c in COUNTRIES]),
     _text("language main_language", [c.language for c in COUNTRIES]),
     _text("currency local_currency", [c.currency for c in COUNTRIES]),
     _check("is_capital", [True] * len(COUNTRIES)), _check("in_europe is_in_europe", _IN_EUROPE)),
    4, (("population", "integer"), ("mayor", "string"), ("founded", "integer")))
ANIMAL = Kind(
    "animal", "animals", [a(x.name) for x in ANIMALS],
    (_text("name animal", [x.name for x in ANIMALS]),
     _text("class animal_class kind", [x.kind for x in ANIMALS]),
     _text("food diet eats", [x.food for x in ANIMALS]),
     _text("home habitat lives_in", [x.home for x in ANIMALS]),
     _number("legs number_of_legs leg_count", [LEGS[x.legs] for x in ANIMALS]),
     _text("young baby baby_name", [x.young for x in ANIMALS]),
     _check("is_mammal mammal", [x.kind == "mammal" for x in ANIMALS]),
     _check("can_fly flies", [_flies(x.name, x.kind) for x in ANIMALS]),
     _check("lives_in_water", [any(water in x.home for water in WATERS) for x in ANIMALS])),
    5, (("weight", "number"), ("lifespan", "integer"), ("top_speed", "integer")))
ELEMENT = Kind(
    "element", "elements", [x.name for x in ELEMENTS],
    (_text("name element element_name", [x.name for x in ELEMENTS]),
     _text("symbol chemical_symbol", [x.symbol for x in ELEMENTS]),
     _number("number atomic_number protons", [int(x.number) for x in ELEMENTS]),
     _text("state state_at_room_temperature", [x.state for x in ELEMENTS]),
     _text("type kind", [x.kind for x in ELEMENTS]),
     _check("is_metal metal", [x.kind == "metal" for x in ELEMENTS]),
     _check("is_gas gas", [x.state == "gas" for x in ELEMENTS])),
    4, (("melting_point", "number"), ("density", "number"), ("discovered_by", "string")))
PLANET = Kind(
    "planet", "planets", [x.name for x in PLANETS],
    (_text("name planet planet_name", [x.name for x in PLANETS]),
     _number("position order place_from_sun", [PLACES[x.place] for x in PLANETS]),
     _text("type planet_type kind", [x.kind for x in PLANETS]),
     _text("note fact", [x.note for x in PLANETS]),
     _check("is_rocky rocky", [x.kind == "rocky planet" for x in PLANETS])),
    3, (("diameter", "integer"), ("temperature", "integer"), ("mass", "number")))
BOOK = Kind("book", "books", list(AUTHORS),
            (_text("title book name", list(AUTHORS)), _text("author writer written_by", list(AUTHORS.values()))),
            2, (("pages", "integer"), ("publisher", "string"), ("year", "integer")))
INVENTION = Kind("invention", "inventions", list(INVENTORS),
                 (_text("name invention", [bare(x) for x in INVENTORS]),
                  _text("inventor invented_by", list(INVENTORS.values()))),
                 2, (("year", "integer"), ("patent", "string")))

KINDS = ((30, COUNTRY), (12, CITY), (26, ANIMAL), (18, ELEMENT), (6, PLANET), (3, BOOK), (3, INVENTION))

_uses = Counter(str(name).lower() for _, kind in KINDS for name in kind.fields[0].values)
SHARED = {name for name, count in _uses.items() if count > 1}
"""Names of more than one kind of thing (mercury, Singapore): a request must say the kind."""


def in_words(rng: Random, kind: Kind, at: int) -> str:
    """The thing as a sentence names it."""
    name = str(kind.fields[0].values[at])
    thing = kind.things[at]
    if name.lower() in SHARED or rng.random() < 0.25:
        return f"the {kind.name} {name}"
    return rng.choice((thing, f"the {name}", name)) if kind is ANIMAL else thing


def choose(rng: Random, kind: Kind) -> list[int]:
    """Which fields are asked for, in the order asked: mostly the name first, then any of the others."""
    others = list(range(1, len(kind.fields)))
    rng.shuffle(others)
    chosen = others[:rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8))]
    named = rng.random()
    if named < 0.7:
        return [0, *chosen]
    if named < 0.85:
        chosen.insert(rng.randint(0, len(chosen)), 0)
    return chosen


def keys(rng: Random, kind: Kind, chosen: list[int], style: str) -> Shape:
    """The keys of the chosen fields with their types; now and then one that the model cannot know."""
    plain = 0.5
    shape: Shape = {}
    for i in chosen:
        names = [name for name in kind.fields[i].names if in_style(name, style) not in shape]
        name = names[0] if rng.random() < plain else rng.choice(names)
        shape[in_style(name, style)] = kind.fields[i].type
    if kind.unknown and rng.random() < 0.08:
        name, type_ = rng.choice(kind.unknown)
        shape[in_style(name, style)] = f"{type_} or null"
    return shape


def record(kind: Kind, at: int, chosen: list[int], shape: Shape) -> Record:
    """The thing under the keys of `shape`; keys beyond the chosen fields are unknown."""
    values = [kind.fields[i].values[at] for i in chosen]
    return dict(zip(shape, values + [None] * (len(shape) - len(values)), strict=True))


def key_of(kind: Kind, at: int, made: Record) -> str:
    """The instance that an object about a thing is, however it was asked for and whatever its indent."""
    return f"json/{kind.name}/{kind.things[at]}/{dump(made)}"
