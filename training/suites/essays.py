"""Judging essays on a dimension and altogether; daily plans, memories and talks of characters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import sgnb as sgl

from ..items import Item, held_out
from ..tasks import essay_words, essays, plan_words, plans
from .base import Case, Suite, ask, chat, exact, same_json

TIME = re.compile(r"(\d{1,2}):(00|30)")
MERGED = ("clarity", "focus", "tone")


def _full(item: Item) -> str:
    return item.full


def held_out_essay(rng: Random, dimension: str) -> essays.Essay:
    while True:
        made = essays.essay(rng, dimension)
        if held_out(made.key):
            return made


def judged(dimension: str, asks: Sequence[str], rng: Random) -> Case:
    """Wanted are all the scores that fit: "3/4" where the essay is between them. No dimension: any of them."""
    dimension = dimension or rng.choice(tuple(essays.DIMENSIONS))
    made = held_out_essay(rng, dimension)
    name = rng.choice(essays.DIMENSIONS[dimension])
    scores = essays.seen(made, dimension)[1]
    return Case(ask(essays.judge_ask(rng, asks, name, made)), "/".join(map(str, scores)), (made.key,))


def fitting_score(answer: str, want: str) -> bool:
    """The answer ends with one of the wanted scores."""
    return answer.strip().rpartition("Score: ")[2] in want.split("/")


@sgl.function
def judge_and_merge(s: Any, case: Any, stop: str) -> str:
    """The program for judging by branches: is it an essay, a branch for each dimension, the merge to JSON."""
    s += sgl.user(f"Please evaluate an essay.\n\nEssay: {case.prompt}")
    s += sgl.assistant("Sure!")
    s += sgl.user("Is it a valid essay?")
    s += sgl.assistant(sgl.select("valid", ["yes", "no"]))
    branches = s.fork(len(MERGED))
    for branch, name in zip(branches, MERGED, strict=True):
        branch += sgl.user(f"Evaluate the essay on the following dimension: {name}. "
                           "End your judgment with the word END.")
        branch += sgl.assistant("Judgment:" + sgl.gen("judgment", max_tokens=120, stop=stop))
    texts = [str(branch["judgment"]).strip() for branch in branches]
    shown = "\n".join(f"{name}: {text}" for name, text in zip(MERGED, texts, strict=True))
    s += sgl.user(f"{shown}\n\nGive a summary and a grade as JSON.")
    s += sgl.assistant(sgl.gen("merged", max_tokens=80))
    return json.dumps({"valid": s["valid"], "judgments": texts, "merged": s["merged"]})


def whole(rng: Random) -> Case:
    """The essay; wanted are the scores that fit on each dimension."""
    made = held_out_essay(rng, rng.choice(MERGED))
    return Case(made.text, json.dumps([essays.seen(made, name)[1] for name in MERGED]), (made.key,))


def whole_is_right(answer: str, want: str) -> bool:
    """A valid essay, every score fits, and summary and grade follow from the scores."""
    out = json.loads(answer)
    given = [text.rpartition("Score: ")[2] for text in out["judgments"]]
    fits = [score in map(str, right) for score, right in zip(given, json.loads(want), strict=True)]
    return out["valid"] == "yes" and all(fits) and _merge_follows(out["merged"], MERGED, [int(n) for n in given])


def _merge_follows(text: str, names: Sequence[str], scores: Sequence[int]) -> bool:
    wanted = (json.dumps(essays.verdict(names, scores, letter)) for letter in essays.grades(scores))
    return any(same_json(text, one) for one in wanted)


def grade_follows(answer: str, want: str) -> bool:
    """`want` is the key: the scores by name."""
    pairs = [part.split("=") for part in want.split("/")[1:]]
    return _merge_follows(answer, [name for name, _ in pairs], [int(score) for _, score in pairs])


def _key(item: Item) -> str:
    return item.key


def planned(asks: Sequence[str], rng: Random) -> Case:
    """Wanted: how many lines, the name, and all that may stand in the plan."""
    while True:
        who, count, item = plans.plan_case(rng, asks)
        if held_out(item.key):
            return Case(ask(item.ask), json.dumps([count, who.name, sorted(plans.fitting(who))]), (item.key,))


def _is_plan(steps: Sequence[tuple[str, str]], count: int, known: set[str]) -> bool:
    """As many steps as asked, at ascending times, all of them of the character."""
    times = [TIME.fullmatch(time) for time, _ in steps]
    hours = [int(time[1]) + (time[2] == "30") / 2 for time in times if time]
    return (len(hours) == len(steps) == count and all(x < y for x, y in pairwise(hours))
            and hours[-1] < 24 and {do for _, do in steps} <= known)


def valid_plan(answer: str, want: str) -> bool:
    count, _, known = json.loads(want)
    lines = (line.partition(" ") for line in answer.strip().splitlines())
    return _is_plan([(time, do) for time, _, do in lines], count, set(known))


def valid_plan_json(answer: str, want: str) -> bool:
    count, name, known = json.loads(want)
    try:
        made = json.loads(answer)
        steps = [(step["time"], step["do"]) for step in made["plan"]]
    except (ValueError, KeyError, TypeError):
        return False
    return made["name"] == name and _is_plan(steps, count, set(known))


def rated(asks: Sequence[str], rng: Random) -> Case:
    """Wanted is the number without noise."""
    while True:
        base, item = plans.rating_case(rng, asks)
        if held_out(item.key):
            return Case(ask(item.ask), str(base), (item.key,))


def within(distance: int) -> Callable[[str, str], bool]:
    def judge(answer: str, want: str) -> bool:
        return answer.strip().isdigit() and abs(int(answer) - int(want)) <= distance

    return judge


SUITES = (
    *(Suite(f"essay judged on {name}: the score fits", partial(judged, name, essay_words.JUDGE_ASKS), fitting_score,
            bar=0.9) for name in essays.DIMENSIONS),
    Suite("essay judged, phrasing never seen", partial(judged, "", essay_words.UNSEEN_JUDGE_ASKS), fitting_score,
          bar=0.8),
    Suite("is it an essay, chat", chat(essays.is_essay), exact, bar=0.95),
    Suite("is the essay about this subject, chat", chat(essays.is_about, want=_full), exact, bar=0.92),
    Suite("scores into summary and grade, JSON", chat(essays.grade, want=_key), grade_follows, bar=0.92),
    Suite("scores into summary and grade, phrasing never seen", chat(essays.grade_unseen, want=_key), grade_follows,
          bar=0.8),
    Suite("essay judged in branches, then merged: all of it right", whole, whole_is_right, "END", bar=0.75,
          program=judge_and_merge),
    Suite("plan of a day: count, times, activities", partial(planned, plan_words.PLAN_ASKS), valid_plan, bar=0.9),
    Suite("plan of a day, phrasing never seen", partial(planned, plan_words.UNSEEN_PLAN_ASKS), valid_plan, bar=0.8),
    Suite("plan of a day as JSON", partial(planned, plan_words.JSON_ASKS), valid_plan_json, bar=0.9),
    Suite("what a character does at an hour of the plan", chat(plans.at_hour, want=_full), exact, bar=0.9),
    Suite("what a character does next", chat(plans.next_action, want=_full), exact, bar=0.92),
    Suite("importance of a memory, within 1", partial(rated, plan_words.RATING_ASKS), within(1), bar=0.95),
    Suite("importance of a memory, phrasing never seen, within 2", partial(rated, plan_words.UNSEEN_RATING_ASKS),
          within(2), bar=0.9),
    Suite("what a character remembers about another", chat(plans.remembers), exact, bar=0.9),
)
