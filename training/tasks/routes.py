"""Routes on a small map of roads: the neighbours of a place, whether there is a road, a route found by a search that
is written out. Names of places stand between blanks, so that a name is the same token everywhere; lists of neighbours
are in the order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..forms import chat
from ..items import JOINT, Item, Passage
from .puzzle_words import IS_ROAD, NEIGHBOURS, PLACES, ROUTE, worded

Road = tuple[str, str]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def roads(rng: Random) -> tuple[list[Road], str, str]:
    """Four to six places, all connected, with at most two roads more than needed; and two places, mostly apart.

    Half of the maps are in the order of the alphabet, the others in no order.
    """
    places = rng.sample(LETTERS, rng.randint(4, 6))
    made = {_road(places[i], places[rng.randrange(max(0, i - 2), i)]) for i in range(1, len(places))}
    made |= {_road(*rng.sample(places, 2)) for _ in range(rng.randint(0, 2))}
    out = sorted(made)
    if rng.random() < 0.5:
        out = [road if rng.random() < 0.5 else road[::-1] for road in out]
        rng.shuffle(out)
    start = rng.choice(places)
    near = neighbours(out, start)
    goal = rng.choice([p for p in places if p != start and p not in near] or near)
    return out, start, goal


def _road(a: str, b: str) -> Road:
    return (a, b) if a < b else (b, a)


def neighbours(made: Sequence[Road], place: str) -> list[str]:
    """In the order of the alphabet."""
    return sorted(b if a == place else a for a, b in made if place in (a, b))


def shown(made: Sequence[Road]) -> str:
    return ", ".join(f"{a} - {b}" for a, b in made)


def key(made: Sequence[Road]) -> str:
    """The map, whatever the order of its roads."""
    return f"map/{' '.join(sorted(min(a, b) + max(a, b) for a, b in made))}"


def asked(rng: Random, words: tuple[str, ...], made: Sequence[Road], a: str, b: str = "") -> str:
    """A question about the map in one of the wordings."""
    return worded(rng, words, PLACES).format(r=shown(made), a=a, b=b)


def next_said(made: Sequence[Road], place: str) -> str:
    return f"From {place}: {', '.join(neighbours(made, place))}"


def next_places(rng: Random, words: tuple[str, ...] = NEIGHBOURS) -> Item:
    made, start, _ = roads(rng)
    return Item(key(made), asked(rng, words, made, start), ", ".join(neighbours(made, start)), next_said(made, start),
                f"{shown(made)}. From: {start}", ("Roads", "Neighbours"))


def road_said(made: Sequence[Road], a: str, b: str) -> tuple[str, str]:
    """Yes or no, and the same after the neighbours that it depends on."""
    short = "Yes" if b in neighbours(made, a) else "No"
    return short, f"{next_said(made, a)}. {short}."


def is_road(rng: Random, words: tuple[str, ...] = IS_ROAD) -> Item:
    made, start, other = roads(rng)
    if rng.random() < 0.5:
        other = rng.choice(neighbours(made, start))
    return Item(key(made), asked(rng, words, made, start, other), *road_said(made, start, other), choices=("Yes", "No"))


def search(made: Sequence[Road], start: str, goal: str) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Breadth first: each place looked at with the new places found from it; and the way back from the goal."""
    came, looked, waiting = {start: ""}, [], [start]
    while goal not in came:
        place = waiting.pop(0)
        new = [p for p in neighbours(made, place) if p not in came]
        came |= dict.fromkeys(new, place)
        waiting += new
        looked.append((place, new))
    back = [goal]
    while came[back[-1]]:
        back.append(came[back[-1]])
    return looked, back


def written_search(made: Sequence[Road], start: str, goal: str) -> tuple[str, str, str]:
    """Search, way back and route as lines: all that the route depends on stands before it."""
    looked, back = search(made, start, goal)
    steps = ". ".join(f"{place}: {', '.join(new) or 'nothing new'}" for place, new in looked)
    return f"{steps}.", ", ".join(back), " - ".join(reversed(back))


def route_said(made: Sequence[Road], start: str, goal: str) -> str:
    looked, back, answer = written_search(made, start, goal)
    return f"Search: {looked}\nBack: {back}\nRoute: {answer}"


def route(rng: Random, words: tuple[str, ...] = ROUTE) -> Item:
    """A shortest route; the full answer has the search before it."""
    made, start, goal = roads(rng)
    return Item(key(made), asked(rng, words, made, start, goal), written_search(made, start, goal)[2],
                route_said(made, start, goal), f"{shown(made)}. From {start} to {goal}", ("Roads", "Route"))


def _places(rng: Random, made: Sequence[Road], least: int) -> list[str]:
    places = sorted({p for road in made for p in road})
    return rng.sample(places, rng.randint(least, len(places)))


def route_text(rng: Random) -> Passage:
    """The map, then the neighbours of its places, roads and a search, where a program may take over."""
    made, start, goal = roads(rng)
    lines = [f"Neighbours of {p}:{JOINT} {', '.join(neighbours(made, p))}" for p in _places(rng, made, 2)]
    if rng.random() < 0.4:
        pairs = [rng.sample(_places(rng, made, 2), 2) for _ in range(rng.randint(1, 4))]
        lines += [f"Road between {a} and {b}:{JOINT} {road_said(made, a, b)[1]}" for a, b in pairs]
    if rng.random() < 0.5:
        looked, back, answer = written_search(made, start, goal)
        lines.append(f"Search:{JOINT} {looked}\nBack:{JOINT} {back}\nRoute:{JOINT} {answer}")
    return Passage(key(made), f"{asked(rng, ROUTE, made, start, goal)}\n" + "\n".join(lines) + "\n")


def route_talk(rng: Random) -> Passage:
    """A chat about one map, told once: neighbours, roads and routes in turn."""
    made, start, goal = roads(rng)
    turns, facts = [], PLACES
    for a in (start, *_places(rng, made, 3)):
        b = goal if a == start else start
        words, answer = rng.choice(((NEIGHBOURS, next_said(made, a)), (IS_ROAD, road_said(made, a, b)[1]),
                                    (ROUTE, route_said(made, a, b))))
        turns.append((worded(rng, words, facts).format(r=shown(made), a=a, b=b), answer))
        facts = {}
    return Passage(key(made), chat(turns))
