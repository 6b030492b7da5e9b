"""The closed world of facts that the model knows, as plain tables. General knowledge; no prose, no phrasing.

A name that takes an article carries it ("the Netherlands"); `bare` drops it.
"""

from __future__ import annotations

from typing import NamedTuple

from .tables import Pairs, table

DATA = table("world")


class Country(NamedTuple):
    name: str
    capital: str
    continent: str
    language: str
    currency: str
    sights: tuple[str, str]


class Animal(NamedTuple):
    name: str
    kind: str
    food: str
    home: str
    young: str
    legs: str


class Element(NamedTuple):
    name: str
    symbol: str
    number: str
    state: str
    kind: str


class Planet(NamedTuple):
    name: str
    place: str
    kind: str
    note: str


PLURALS = DATA.get("plurals", Pairs)


def plural(noun: str) -> str:
    """More than one of an animal or a class of animals."""
    return "fish" if noun == "fish" else PLURALS.get(noun, f"{noun}s")


def bare(name: str) -> str:
    return name.removeprefix("the ")


COUNTRIES = DATA.get("countries", list[Country])

ANIMALS = DATA.get("animals", list[Animal])

ELEMENTS = DATA.get("elements", list[Element])

PLANETS = DATA.get("planets", list[Planet])
