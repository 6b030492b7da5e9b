"""Word problems told in clauses that are put together at random: persons, order, tense, digits or words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from ..alternatives import expand
from ..items import upper_first
from .problem_clauses import CROWDS, OWN, PLACE, PURSE
from .problem_plots import EVENTS, PLOTS, TALES, WORLDS
from .problem_schema import Schema
from .problem_teller import Teller

PLACES = ("table", "shelf", "desk", "counter", "cart", "bench", "rug", "stage")
CURRENCIES = ("dollars", "dollars", "dollars", "dollars", "euros", "euros", "cents", "pounds", "coins")
ALWAYS_NOW = frozenset(("older, in some years", "younger, in some years"))
ALONE = ALWAYS_NOW | {"share and use"}
LINKS = (". ", ". ", ". ", ". ", ". ", ", and ", "; ")
EVENT_LINKS = (". ", ". ", ". ", ". Then ", ". Then ", ". Later ", ". After that, ", ", and ", " and then ", ", then ",
               ". Next, ", ". Soon ", ". The next day ", "; ")
BEFORE_IF = ("if ", "if ", "when ", "given that ")
SENTENCE_START = re.compile(r"(?:^|[.?!] )[a-z]")


@dataclass(frozen=True, slots=True)
class Plot:
    """`clauses` and `asks`: templates to choose from; `events`: which clauses are something that happens next."""

    world: str
    things: str
    at: str
    clauses: tuple[tuple[str, ...], ...]
    events: tuple[bool, ...]
    asks: tuple[str, ...]


def _with_numbers(templates: tuple[str, ...], numbers: list[str]) -> tuple[str, ...]:
    for slot, number in zip(("{x}", "{y}"), numbers, strict=False):
        templates = tuple(template.replace(slot, f"{{{number}}}") for template in templates)
    return templates


def _of_world(plot: str, world: dict[str, tuple[str, ...]]) -> Plot | None:
    """The plot in this world, if the world has all its clauses; what belongs to somebody is told of him."""
    *parts, ask = (part.split() for part in plot.split("; "))
    tables = {**OWN, **world} if world not in (PLACE, PURSE, *CROWDS) else world
    if any(role not in tables for role, *_ in (*parts, ask)):
        return None
    name = "own" if world is OWN else "purse" if world is PURSE else "crowd" if world in CROWDS else "other"
    clauses = tuple(_with_numbers(tables[role], names) for role, *names in parts)
    things, at = (world.get(slot, ("",))[0] for slot in ("things", "at"))
    return Plot(name, things, at, clauses, tuple(role in EVENTS for role, *_ in parts), tables[ask[0]])


@cache
def plots(name: str) -> tuple[Plot, ...]:
    """All plots of a structure; those about somebody's things come as often as all others."""
    if name in TALES:
        return tuple(Plot("tale", "", "", clauses, (False,) * len(clauses), asks) for *most, asks in TALES[name]
                     for clauses in [tuple(most)])
    made = [plot for text in PLOTS.get(name, ()) for world in WORLDS if (plot := _of_world(text, world))]
    own = [plot for plot in made if plot.world == "own"]
    return tuple(made + own * max(0, (len(made) - len(own)) // max(1, len(own)) - 1))


def story(rng: Random, schema: Schema, numbers: dict[str, int], named: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The problem, and the words that a solution may use: only what the problem itself names."""
    plot = rng.choice(plots(schema.name))
    teller = Teller(rng, named, alone=schema.name in ALONE)
    teller |= {"cur": rng.choice(CURRENCIES), "place": rng.choice(PLACES)}
    if plot.things:
        teller |= {"t": expand(rng, plot.things), "at": expand(rng, plot.at)}
    teller |= {name: teller.number(value) for name, value in numbers.items() if len(name) == 1}
    teller.past = schema.name not in ALWAYS_NOW and rng.random() < 0.5
    text = _told(rng, plot, teller)
    if not teller.is_named:
        teller["n"] = ""
    return text, dict(teller)


def _told(rng: Random, plot: Plot, teller: Teller) -> str:
    """Mostly the clauses and then the question; now and then the question comes first."""
    manner, ask = rng.random(), expand(rng, rng.choice(plot.asks))
    tell = _clauses(rng, plot, teller)
    if manner < 0.75:
        text = f"{''.join(tell)}. {upper_first(_question(rng, ask, teller))}"
    elif manner < 0.88 or not ask.endswith("?"):
        text = f"{_question(rng, ask, teller)} {''.join(tell)}."
    else:
        question = _question(rng, ask, teller).rstrip("?")
        parts = [teller.tell(expand(rng, rng.choice(clause))) for clause in plot.clauses]
        body = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        text = f"{question} {rng.choice(BEFORE_IF)}{body}?"
    return SENTENCE_START.sub(lambda found: found.group().upper(), text)


def _clauses(rng: Random, plot: Plot, teller: Teller) -> Iterator[str]:
    for i, (clause, event) in enumerate(zip(plot.clauses, plot.events, strict=True)):
        if i:
            yield rng.choice(EVENT_LINKS if event else LINKS)
        yield teller.tell(expand(rng, rng.choice(clause)))


def _question(rng: Random, ask: str, teller: Teller) -> str:
    """In the time of the story or, as most people ask, in the present."""
    told, teller.past = teller.past, teller.past and " now" not in ask and rng.random() < 0.45
    text = teller.tell(ask)
    text = f"{text[:-1]}?" if text.startswith("what") else text
    teller.past = told
    return text
