"""The wordings of the puzzles with numbers and maps: templates with alternatives in brackets, of which one is taken.

What a template leaves out (the moves, the map) is told in a sentence of its own, before or after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from ..alternatives import expand
from ..items import upper_first
from ..tables import Pairs, Texts, table

DATA = table("puzzle_words")

OPENINGS = DATA.get("openings", Texts)

LEFT = DATA.get("left", str)
FACTS = DATA.get("facts", Pairs)
WITH_LEFT = {**FACTS, "n": LEFT}
"""What the puzzle consists of, each told in one of these ways."""


PATH_HEADS = DATA.get("path_heads", Texts)
PROPOSE = DATA.get("propose", Texts)
PROPOSE_UNSEEN = DATA.get("propose_unseen", Texts)
DISTANCE = DATA.get("distance", Texts)
DISTANCE_UNSEEN = DATA.get("distance_unseen", Texts)
REACH = DATA.get("reach", Texts)
REACH_UNSEEN = DATA.get("reach_unseen", Texts)
SOLVE = DATA.get("solve", Texts)
SOLVE_UNSEEN = DATA.get("solve_unseen", Texts)
CHECK = DATA.get("check", Texts)

PLACES = DATA.get("places", Pairs)
NEIGHBOURS = DATA.get("neighbours", Texts)
NEIGHBOURS_UNSEEN = DATA.get("neighbours_unseen", Texts)
IS_ROAD = DATA.get("is_road", Texts)
ROUTE = DATA.get("route", Texts)
ROUTE_UNSEEN = DATA.get("route_unseen", Texts)


def worded(rng: Random, words: Sequence[str], facts: Mapping[str, str]) -> str:
    """One of the templates, with a sentence for each fact whose field it leaves out. Fields stay in braces."""
    asked = upper_first(expand(rng, rng.choice(words)))
    told = [upper_first(expand(rng, fact)) for field, fact in facts.items() if f"{{{field}}}" not in asked]
    if not told:
        return asked
    rng.shuffle(told)
    if rng.random() < 0.7:
        told.append(asked)
    else:
        ended = f"{asked[:-1]}?" if asked[-1] == ":" else asked + "." * (asked[-1] == "}")
        told.insert(rng.randrange(len(told)), ended)
    if rng.random() < 0.15:
        told.insert(0, upper_first(expand(rng, rng.choice(OPENINGS))))
    return rng.choice((" ", " ", "\n")).join(told)
