"""How the properties of invented things are asked: clauses for the wording engine, by kind and property.

{e} is the thing; in comparisons {a} is the one that has more (or less, where it is a matter of age), {b} the other.
"""

from __future__ import annotations

from random import Random

from ..items import upper_first
from ..tables import Groups, table
from ..wording import SEEN, Relation, relation, request, wordings

ABOUT = {"town": "city", "book": "book"}
PERSONS = ("mayor", "author", "director", "architect")


def _relation(name: str, clauses: Groups) -> Relation:
    kind, _, noun = name.partition("/")
    who = "who" if noun in PERSONS else "what"
    return relation(name, ABOUT.get(kind, ""), {}, clauses, who=who)


ASKS = {name: _relation(name, clauses)
        for name, clauses in table("tool_asks").get("asks", dict[str, Groups]).items()}


def question(rng: Random, asks: Relation, **names: object) -> str:
    """A request in one of the many wordings of training."""
    core, plain = wordings(asks, SEEN).pick(rng)
    return upper_first(request(rng, core, plain).format(**names))
