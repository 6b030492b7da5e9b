"""What was said earlier, what the system line says, and how likely what is left to chance is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import exp
from random import Random
from typing import Any

import sgnb as sgl

from .. import forms
from ..items import JOINT, Item, draw, held_out
from ..tasks import facts, memory, roles, talk
from .base import Case, Suite, ask, exact
from .reading import says

NEAR = 0.1


def _until_last(items: Sequence[Item], key: str, system: str = "") -> Case:
    """All turns, the last one without its answer."""
    prompt = forms.chat([(item.ask, item.full) for item in items], system).rpartition(JOINT)[0]
    return Case(prompt.replace(JOINT, ""), items[-1].short, (key,))


def later(make: Callable[[Random], Sequence[Item]]) -> Callable[[Random], Case]:
    """What is told, three other questions, then the question about what was told."""

    def case(rng: Random) -> Case:
        made = make(rng)
        while not held_out(made[0].key):
            made = make(rng)
        others = [draw(facts.question, rng) for _ in range(3)]
        return _until_last([*made[:-1], *others, made[-1]], made[0].key)

    return case


def system_fact(rng: Random, *, unseen: bool = False) -> Case:
    """One of three things that the system line says, asked after two other questions."""
    line, asks = roles.system_facts(rng, 3, unseen=unseen)
    while not held_out(asks[0].key):
        line, asks = roles.system_facts(rng, 3, unseen=unseen)
    others = [draw(facts.question, rng) for _ in range(2)]
    return _until_last([*others, asks[0]], asks[0].key, line)


def styled(rng: Random) -> Case:
    """A fact that the system line says, to be answered in the manner that it asks for."""
    line, asks = roles.system_facts(rng, 2)
    while not held_out(asks[0].key):
        line, asks = roles.system_facts(rng, 2)
    manner, sound = roles.style(rng)
    return Case(ask(asks[0].ask, f"{line} {manner}"), sound(asks[0].full), (asks[0].key,))


def bag(rng: Random, *, unseen: bool = False) -> Case:
    """A bag of colored balls; wanted is the probability of each color, as JSON."""
    item, balls = talk.bag(rng, unseen=unseen)
    while not held_out(item.key):
        item, balls = talk.bag(rng, unseen=unseen)
    chances = {color.capitalize(): count / sum(balls.values()) for color, count in balls.items()}
    return Case(ask(item.ask), json.dumps(chances), (item.key,))


@sgl.function
def chances(s: Any, case: Any, stop: str) -> str:
    """The probability of each answer among those wanted, as JSON."""
    s += case.prompt
    s += sgl.select("drawn", list(json.loads(case.want)))
    scores = s.get_meta_info("drawn")["choice_scores"]
    weights = [exp(sum(score.logprobs)) for score in scores]
    names = s.get_meta_info("drawn")["choices"]
    return json.dumps({name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)})


def near(answer: str, want: str) -> bool:
    """Every probability is within NEAR of the right one."""
    got, right = json.loads(answer), json.loads(want)
    return all(abs(got[name] - chance) < NEAR for name, chance in right.items())


SUITES = (
    Suite("memory over four turns", later(memory.remembered), says, bar=0.95),
    Suite("memory over four turns, phrasing never seen", later(lambda rng: memory.remembered(rng, unseen=True)), says),
    Suite("memory over four turns: one of three things told", later(memory.among_others), says, bar=0.95),
    Suite("memory over four turns: the newest of two values", later(memory.changed), says, bar=0.95),
    Suite("memory over four turns: mine or my friend's", later(memory.of_friend), says),
    Suite("memory over four turns: never told", later(memory.not_told), exact),
    Suite("what the system line says, after two other turns", system_fact, says),
    Suite("what the system line says, phrasing never seen", lambda rng: system_fact(rng, unseen=True), says),
    Suite("the manner that the system line asks for", styled, exact),
    Suite("a ball from a bag: probabilities within 0.1", bag, near, program=chances),
    Suite("a ball from a bag, phrasing never seen: probabilities within 0.1", lambda rng: bag(rng, unseen=True), near,
          program=chances),
)
