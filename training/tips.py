"""Topics with tips, and subjects with points for and against. Lists, paragraphs and essays are written from these."""

from __future__ import annotations

from typing import NamedTuple

from .tables import table

DATA = table("tips")


class Tip(NamedTuple):
    title: str
    detail: str


TIPS = DATA.get("tips", dict[str, tuple[Tip, ...]])


class Point(NamedTuple):
    """One thing that speaks for or against a subject. `example` has a place {n} for a person."""

    title: str
    reason: str
    example: str


class Subject(NamedTuple):
    """`name` is a gerund or another singular; `things` is how one asks for advantages of it."""

    name: str
    things: str
    good: tuple[Point, ...]
    bad: tuple[Point, ...]


SUBJECTS = DATA.get("subjects", tuple[Subject, ...])
