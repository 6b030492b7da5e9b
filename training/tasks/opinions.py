"""What people say of products, places and services they liked or did not like: experiences, verdicts, moods."""

from __future__ import annotations

from typing import NamedTuple

from ..tables import Groups, Texts, table

DATA = table("opinions")


class Experience(NamedTuple):
    """things: what it is about. good, bad: what was experienced, as clauses that stand alone."""

    things: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]


EXPERIENCES = DATA.get("experiences", dict[str, Experience])

PARTS = DATA.get("parts", Texts)
PERSONS = DATA.get("persons", Groups)
"""Who one meets there."""
GOOD_EVENTS = DATA.get("good_events", Groups)
BAD_EVENTS = DATA.get("bad_events", Groups)
GOOD_TRAITS = DATA.get("good_traits", Texts)
BAD_TRAITS = DATA.get("bad_traits", Texts)
GOOD_FEELINGS = DATA.get("good_feelings", Texts)
BAD_FEELINGS = DATA.get("bad_feelings", Texts)
DEGREES = DATA.get("degrees", Texts)

GOOD_VERDICTS = DATA.get("good_verdicts", Texts)
BAD_VERDICTS = DATA.get("bad_verdicts", Texts)
