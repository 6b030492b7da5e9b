"""Puzzles: paths of numbers and routes on a map, by search and all at once, and the single steps of the searches."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import sgnb as sgl

from ..items import Item, held_out
from ..tasks import puzzle_words, puzzles, routes
from .base import Case, Suite, ask, chat, ends, exact, few_shot, short

MOST_MOVES = 4
KEPT = 3
MOVE = re.compile(r"([-+*/]\d+) -> (\d+)")


@dataclass(frozen=True, slots=True)
class SearchCase(Case):
    """start, goal: the state where a search begins and the one where it ends, as they are written."""

    start: str = ""
    goal: str = ""


@sgl.function
def path_tree(s: Any, case: Any, stop: str) -> str:
    """Tree of thought: propose from each new number, rate it by the proposals, go on from the nearest to the goal."""
    s += case.prompt
    found, edge = {case.start: ""}, [case.start]
    for _ in range(MOST_MOVES):
        looked = s.fork(len(edge))
        looked += [f"State: {at}\nNext states:" + sgl.gen("next", max_tokens=40, stop="\n") + "\nMoves to go:"
                   + sgl.select("far", [f" {d}" for d in puzzles.DISTANCES]) for at in edge]
        nearest = sorted(zip(edge, looked, strict=True),
                         key=lambda pair: puzzles.DISTANCES.index(pair[1]["far"].strip()))[:KEPT]
        grown = {to: f"{found[at]}, {move} -> {to}" for at, branch in nearest
                 for move, to in MOVE.findall(branch["next"]) if to not in found}
        found, edge = found | grown, list(grown)
        if case.goal in grown or not grown:
            break
    return found.get(case.goal, "").removeprefix(", ")


@sgl.function
def route_search(s: Any, case: Any, stop: str) -> str:
    """Breadth first: the model tells the neighbours of every new place, until the goal is among them."""
    s += case.prompt
    found, edge = {case.start: case.start}, [case.start]
    while edge:
        branches = s.fork(len(edge))
        branches += [f"Neighbours of {at}:" + sgl.gen("next", max_tokens=24, stop="\n") for at in edge]
        told = {place: f"{found[at]} - {place}" for at, branch in zip(edge, branches, strict=True)
                for place in branch["next"].strip().split(", ")}
        edge = [place for place in told if place not in found]
        found = told | found
        if case.goal in found:
            return found[case.goal]
    return ""


def leads_there(answer: str, want: str) -> bool:
    """The moves, done one after the other as the path at the end says, end at the goal. `want`: moves|start|goal."""
    moves, start, goal = want.split("|")
    at, steps = int(start), MOVE.findall(answer.rpartition("Path: ")[2])
    for move, to in steps:
        if (move, int(to)) not in puzzles.results(tuple(moves.split(",")), at):
            return False
        at = int(to)
    return at == int(goal) and 0 < len(steps) <= MOST_MOVES


def is_route(answer: str, want: str) -> bool:
    """The last line is a route on the roads of the map from the start to the goal. `want`: roads|start|goal."""
    roads, start, goal = want.split("|")
    places = answer.strip().rpartition("Route: ")[2].split(" - ")
    there = {road for a, _, b in (road.partition(" - ") for road in roads.split(", ")) for road in (a + b, b + a)}
    steps = [a + b for a, b in pairwise(places)]
    return (places[0], places[-1]) == (start, goal) and there.issuperset(steps)


def path_case(rng: Random, words: tuple[str, ...] | None) -> Case:
    """A puzzle of two moves or more: as a request in these words, or as the opening of a search."""
    moves, start, goal = puzzles.puzzle(rng, low=2)
    while not held_out(key := puzzles.path_key(moves, start, goal)):
        moves, start, goal = puzzles.puzzle(rng, low=2)
    text = (ask(puzzles.asked(rng, words, moves, start, goal)) if words
            else puzzles.path_head(rng, moves, start, goal))
    return SearchCase(text, f"{','.join(moves)}|{start}|{goal}", (key,), (), str(start), str(goal))


def route_case(rng: Random, words: tuple[str, ...], as_chat: bool) -> Case:
    """A map and two places, as a request in these words or as the opening of a search."""
    roads, start, goal = routes.roads(rng)
    while not held_out(key := routes.key(roads)):
        roads, start, goal = routes.roads(rng)
    question = routes.asked(rng, words, roads, start, goal)
    prompt = ask(question) if as_chat else f"{question}\n"
    return SearchCase(prompt, f"{routes.shown(roads)}|{start}|{goal}", (key,), (), start, goal)


def full(item: Item) -> str:
    return item.full


def in_words(make: Callable[[Random, tuple[str, ...]], Item], words: tuple[str, ...], *,
             want: Callable[[Item], str] = short) -> Callable[[Random], Case]:
    return chat(lambda rng: make(rng, words), want=want)


SUITES = (
    Suite("number path, tree search (3 kept, 4 deep)", partial(path_case, words=None), leads_there, program=path_tree),
    Suite("number path, written out, chat", partial(path_case, words=puzzle_words.SOLVE), leads_there),
    Suite("number path, written out, chat, phrasing never seen", partial(path_case, words=puzzle_words.SOLVE_UNSEEN),
          leads_there),
    Suite("number path, next states, chat", chat(puzzles.propose), exact),
    Suite("number path, next states, chat, phrasing never seen",
          in_words(puzzles.propose, puzzle_words.PROPOSE_UNSEEN), exact),
    Suite("number path, moves to go, 2 examples, by choice", few_shot(puzzles.distance, 2, by_choice=True), exact),
    Suite("number path, moves to go, chat", chat(puzzles.distance), ends),
    Suite("number path, moves to go, chat, phrasing never seen",
          in_words(puzzles.distance, puzzle_words.DISTANCE_UNSEEN), ends),
    Suite("number path, sure, maybe or impossible, chat", chat(puzzles.reach), ends),
    Suite("number path, sure, maybe or impossible, chat, phrasing never seen",
          in_words(puzzles.reach, puzzle_words.REACH_UNSEEN), ends),
    Suite("number path, a path checked, chat", chat(puzzles.check), ends),
    Suite("route by search over neighbours", partial(route_case, words=puzzle_words.ROUTE, as_chat=False), is_route,
          program=route_search),
    Suite("route with its search written out, chat", partial(route_case, words=puzzle_words.ROUTE, as_chat=True),
          is_route),
    Suite("route, chat, phrasing never seen", partial(route_case, words=puzzle_words.ROUTE_UNSEEN, as_chat=True),
          is_route),
    Suite("neighbours on a map, chat", chat(routes.next_places, want=full), exact),
    Suite("neighbours on a map, chat, phrasing never seen",
          in_words(routes.next_places, puzzle_words.NEIGHBOURS_UNSEEN, want=full), exact),
    Suite("is there a road, chat", chat(routes.is_road), ends),
)
