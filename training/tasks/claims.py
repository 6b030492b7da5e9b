"""Many claims in one text, true and false ones: they teach to compare what is said with what is so.

A single yes-or-no question has one word to learn from; here the facts of a few things are asked for and checked again
and again, now before the fact was said and now after it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..forms import chat, shots
from ..items import Item, Passage, draw
from ..wording import SEEN, Relation, doubtful
from .facts import CHECK_WEIGHTS, CHECKED, asked_about, checked, claimed, stated
from .talk import BRIEF_SYSTEMS


def claims(rng: Random) -> Passage:
    """A row of checks, as a chat or as lines; each of them is on training's side."""
    items = checks(rng)
    if rng.random() < 0.4:
        brief = rng.random() < 0.5
        turns = [(item.ask, item.short if brief else item.full) for item in items]
        text = chat(turns, rng.choice(BRIEF_SYSTEMS) if brief else "")
    else:
        text = shots(rng, items, short=rng.random() < 0.7)
    return Passage(f"claims/{text}", text)


def checks(rng: Random) -> list[Item]:
    """Three to ten items about things of one kind; some things come up again, with another claim or with the fact."""
    relation = rng.choices(CHECKED, cum_weights=CHECK_WEIGHTS)[0]
    known = doubtful(relation)
    chosen = rng.sample(known, min(len(known), rng.randint(2, 5)))
    make = rng.choice((_check, _check, _check, _true_or_false))
    items = [_drawn(rng, make, relation, entity) for entity in chosen for _ in range(rng.choice((1, 2)))]
    if make is _check:
        items += [_drawn(rng, asked_about, relation, entity) for entity in chosen if rng.random() < 0.3]
    rng.shuffle(items)
    return items


def _drawn(rng: Random, make: Callable[[Random, Relation, str], Item], relation: Relation, entity: str) -> Item:
    return draw(lambda inner: make(inner, relation, entity), rng)


def _check(rng: Random, relation: Relation, entity: str) -> Item:
    return checked(rng, SEEN, *claimed(rng, relation, entity))


def _true_or_false(rng: Random, relation: Relation, entity: str) -> Item:
    return stated(rng, *claimed(rng, relation, entity))
