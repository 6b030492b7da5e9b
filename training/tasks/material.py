"""What a passage or a set of documents is made of: a scene of invented things, events, or both; and asking about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from ..items import held_out
from . import event_asks, passages
from .events import Event, events
from .passages import NOT_SAID, Asked, Scene, documents_scene, scene


@dataclass(frozen=True, slots=True)
class Material:
    """The facts of a text. There is a scene or there are events, or both."""

    scene: Scene | None
    events: tuple[Event, ...]

    @property
    def key(self) -> str:
        facts = "/".join(sorted(event.key for event in self.events))
        return "+".join(part for part in (self.scene.key if self.scene else "", facts and f"reading/{facts}") if part)


Make = Callable[[Random], Material]


def material(rng: Random) -> Material:
    """For one passage: events, a scene, or both."""
    way = rng.random()
    if way < 0.4:
        return Material(None, tuple(events(rng, rng.choice((2, 3, 4, 5, 6, 7)))))
    if way < 0.8:
        return Material(scene(rng), ())
    return Material(documents_scene(rng), tuple(events(rng, rng.randint(1, 4))))


def documents_material(rng: Random) -> Material:
    """For two to four documents, seldom more."""
    way = rng.random()
    if way < 0.45:
        return Material(None, tuple(events(rng, rng.randint(3, 7))))
    if way < 0.9:
        return Material(documents_scene(rng), ())
    return Material(documents_scene(rng), tuple(events(rng, rng.randint(2, 3))))


def on_side(make: Make, rng: Random, *, from_held_out: bool = False) -> Material:
    """Material of training's side, or of the other one."""
    made = make(rng)
    while held_out(made.key) != from_held_out:
        made = make(rng)
    return made


def told(rng: Random, made: Material) -> str:
    """One passage."""
    parts = [passages.told(rng, made.scene)] if made.scene else []
    if made.events:
        parts.append(" ".join(event_asks.sentences(rng, made.events)))
    rng.shuffle(parts)
    return " ".join(parts)


def told_each(rng: Random, made: Material) -> list[tuple[tuple[str, ...], str]]:
    """The documents, each with what it tells of: the things by their brief names, the events by their keys."""
    out: list[tuple[tuple[str, ...], str]] = []
    if made.scene:
        out += [((thing.brief,), text) for thing, text in passages.told_each(rng, made.scene)]
    left = list(made.events)
    while left:
        size = min(len(left), rng.choice((1, 2, 2, 3)) if out else 1 + len(left) // 3)
        some, left = left[:size], left[size:]
        out.append((tuple(event.key for event in some), " ".join(event_asks.sentences(rng, some))))
    rng.shuffle(out)
    return out


def asked(rng: Random, made: Material, *, answered: bool | None = None, unseen: bool = False) -> Asked:
    """A question; the text holds an answer two times in three if not said."""
    if answered is None:
        answered = rng.random() < 0.66
    if made.scene and (not made.events or rng.random() < 0.5):
        ask = passages.asked(rng, made.scene, answered=answered, unseen=unseen)
        return replace(ask, where=ask.fact.thing.brief if ask.fact else "")
    if not answered:
        return Asked(event_asks.not_answered(rng, made.events, unseen), NOT_SAID, NOT_SAID, None)
    found = event_asks.answered(rng, made.events, unseen)
    return Asked(found.question, found.short, found.full, None, found.event.key)
