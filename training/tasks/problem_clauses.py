"""Clauses of word problems by what they do: each world has its own ways to say that something is there, comes or goes.

Alternatives stand in brackets; slots as in `Teller`; {x} and {y} are the numbers of the clause. A clause has no full
stop inside, so that clauses can follow one another in any manner.
"""

from __future__ import annotations

from ..tables import Groups, Texts, table

DATA = table("problem_clauses")

REST = DATA.get("rest", str)
THEM = DATA.get("them", str)
THEY = DATA.get("they", str)
SUM = DATA.get("sum", str)

OWN = DATA.get("own", Groups)

def _of_rest(templates: tuple[str, ...]) -> tuple[str, ...]:
    """The same about what is left."""
    others = REST.replace("the rest|", "")
    return tuple(text.replace(THEM, REST).replace(THEY, others) for text in templates if THEM in text or THEY in text)


OWN |= {"sharerest": _of_rest(OWN["share"]), "fillrest": _of_rest(OWN["fill"])}

PLACE = DATA.get("place", Groups)

CROWD = DATA.get("crowd", Groups)
CROWD_WORDS = DATA.get("crowd_words", tuple[Texts, ...])


def _crowd(things: str, at: str, come: str, go: str) -> Groups:
    """The clauses about a crowd that comes and goes."""
    clauses = {name: tuple(text.replace("{come}", come).replace("{go}", go) for text in texts)
               for name, texts in CROWD.items()}
    return {**clauses, "things": (things,), "at": (at,)}


CROWDS = tuple(_crowd(*words) for words in CROWD_WORDS)

PURSE = DATA.get("purse", Groups)

SHOP = DATA.get("shop", Groups)
