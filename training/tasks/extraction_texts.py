"""Short texts of a dozen kinds that say some fields of something: people, orders, flights, matches and others.

A slot is a field, or `a_` and a field for the word with its article. Slots that are no field are noise.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ..tables import Groups, Texts, table
from .extraction_sentences import (
    ORDER_PARTS,
    ORDER_WHOLE,
    PERSON_ME_PARTS,
    PERSON_ME_WHOLE,
    PERSON_PARTS,
    PERSON_WHOLE,
)
from .extraction_values import (
    appointment,
    book,
    booking,
    contact,
    flat,
    flight,
    match,
    order,
    parcel,
    person,
    product,
    recipe,
    weather,
)
from .json_text import Record

Values = Callable[[Random], tuple[Record, Record]]
"""Makes the values of the fields, and those of the noise."""


class Domain(NamedTuple):
    """fields: the keys that a field goes by, the usual one first, then its JSON type. whole: the sentences that open.

    parts: sentences that say one more field. unseen: openings that only the evaluation uses. noise: sentences that say
    no field, though they may name somebody or some number. usual: so many fields are given where none are named.
    me: the openings and the parts of texts in the first person.
    """

    title: str
    fields: dict[str, tuple[str, ...]]
    values: Values
    whole: tuple[str, ...]
    unseen: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    noise: tuple[str, ...]
    usual: int = 5
    me: tuple[tuple[str, ...], dict[str, tuple[str, ...]]] = ((), {})


NO_PARTS: Groups = {}


class Said(NamedTuple):
    """What the table says of a domain; those of people and orders have their sentences elsewhere."""

    title: str
    fields: Groups
    unseen: Texts
    noise: Texts
    whole: Texts = ()
    parts: Groups = NO_PARTS
    usual: int = 5


def _domain(name: str, values: Values) -> Domain:
    said = table("extraction_texts").get(name, Said)
    return Domain(said.title, said.fields, values, said.whole, said.unseen, said.parts, said.noise,
                  said.usual)


PERSON = _domain("person", person)._replace(
    whole=PERSON_WHOLE, parts=PERSON_PARTS, me=(PERSON_ME_WHOLE, PERSON_ME_PARTS))
ORDER = _domain("order", order)._replace(whole=ORDER_WHOLE, parts=ORDER_PARTS)
APPOINTMENT = _domain("appointment", appointment)
PRODUCT = _domain("product", product)
FLIGHT = _domain("flight", flight)
CONTACT = _domain("contact", contact)
WEATHER = _domain("weather", weather)
MATCH = _domain("match", match)
BOOK = _domain("book", book)
BOOKING = _domain("booking", booking)
FLAT = _domain("flat", flat)
RECIPE = _domain("recipe", recipe)
PARCEL = _domain("parcel", parcel)

DOMAINS = ((26, PERSON), (16, ORDER), (8, APPOINTMENT), (8, PRODUCT), (8, FLIGHT), (8, CONTACT), (7, WEATHER),
           (8, MATCH), (7, BOOK), (6, BOOKING), (6, FLAT), (5, RECIPE), (6, PARCEL))
