"""How facts about people's works, words, numbers, the calendar and everyday things are asked and said."""

from __future__ import annotations

from typing import Any

from .tables import Groups, Pairs, table
from .things import (
    AUTHORS,
    COLORS,
    COMPOSERS,
    COUNTS,
    DAYS,
    DEFINITIONS,
    DISCOVERERS,
    DISHES,
    FIRSTS,
    GROWS,
    HELLO,
    INSTRUMENTS,
    INVENTORS,
    KINDS,
    MADE_FROM,
    MIXES,
    MONTHS,
    OPPOSITES,
    ORDER,
    PAINTERS,
    PAST,
    PLURAL_WORDS,
    RECORDS,
    SEASONS,
    SENSES,
    SIDES,
    SPORTS,
    WORK,
    WORKPLACES,
)
from .wording import Relation, relation, with_words

DATA = table("everyday")


def _relation(name: str, about: str, facts: Pairs, **options: Any) -> Relation:
    """A relation with the clauses that the table holds under its name."""
    return relation(name, about, facts, DATA.get(name, Groups), **options)


def _next(row: tuple[str, ...], step: int) -> dict[str, str]:
    return {name: row[(i + step) % len(row)] for i, name in enumerate(row)}


WORK_FOR_ALL = ("a school", "a hospital", "a laboratory", "a bank", "a kitchen", "a library")
_months = tuple(MONTHS)
EITHER_WAY = {" and ".join(reversed(pair.split(" and "))): color for pair, color in MIXES.items()}

WORKS_OF_PEOPLE = (
    _relation("inventor", "invention", INVENTORS, who="who"),
    _relation("discoverer", "discovery", DISCOVERERS, who="who"),
    _relation("author", "book", AUTHORS, who="who"),
    _relation("painter", "work", PAINTERS, who="who"),
    _relation("composer", "work", COMPOSERS, who="who"),
)

WORDS = (
    _relation("opposite", "word", {**OPPOSITES, **{v: k for k, v in OPPOSITES.items()}}),
    _relation("past", "word", PAST),
    _relation("plural", "word", PLURAL_WORDS),
    _relation("hello", "language", HELLO),
    _relation("definition", "thing", DEFINITIONS),
)

COUNTING_AND_TIME = (
    _relation("count", "count", COUNTS),
    _relation("sides", "shape", SIDES),
    _relation("days", "month", MONTHS),
    _relation("month", "month", dict(zip(_months, ORDER, strict=True))),
)

DAY_RELATIONS = tuple(
    relation(f"{what} {way}", "time", facts,
             with_words(DATA.get("next_to", Groups), {"{what}": what, "{way}": way}))
    for what, row in (("day", DAYS), ("month", _months), ("season", SEASONS))
    for way, facts in (("after", _next(row, 1)), ("before", _next(row, -1))))

THINGS = (
    _relation("color", "thing", COLORS),
    _relation("mix", "paint", MIXES | EITHER_WAY),
    _relation("record", "record", RECORDS),
    _relation("first", "person", FIRSTS, who="who"),
    _relation("origin", "dish", DISHES),
    _relation("made", "stuff", MADE_FROM),
    _relation("tool", "sport", SPORTS),
    _relation("instrument", "thing", INSTRUMENTS,
              near=lambda entity, value: entity == "the piano"),
    _relation("kind", "thing", KINDS),
    _relation("grows", "plants", GROWS,
              near=lambda entity, value: "trees" in value and entity == "grapes"),
    _relation("sense", "body", SENSES),
    _relation("work", "person", WORK, back_who="who"),
    _relation("workplace", "person", WORKPLACES, near=lambda person, place: place in WORK_FOR_ALL),
)

EVERYDAY = (*WORKS_OF_PEOPLE, *WORDS, *COUNTING_AND_TIME, *DAY_RELATIONS, *THINGS)
