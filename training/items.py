"""What a generator makes: one question with its answer, or one piece of running text.

Whether something is held out is decided here, by a hash of its key, and nowhere else: training draws only what is
not held out, evaluation only what is. This module knows nothing of facts, templates or tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")
Made = TypeVar("Made", "Item", "Passage")

JOINT = "\x00"
"""Stands in a text where a prompt may end and a generation begin."""

HELD_OUT_ONE_IN = 16


@dataclass(frozen=True, slots=True)
class Item:
    """A question and its answer.

    key: what it is an instance of; equal keys are the same instance in other words.
    ask: the request as a person makes it. given: the input alone, as a few-shot prompt shows it (`ask` if empty).
    short: the bare answer. full: the answer as an assistant says it.
    labels: the words before input and answer in a few-shot prompt.
    choices: the possible short answers, where they are few.
    """

    key: str
    ask: str
    short: str
    full: str
    given: str = ""
    labels: tuple[str, str] = ("Q", "A")
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """Running text, with JOINT where it may be cut into prompt and continuation."""

    key: str
    text: str


Draw = Callable[[Random], Item]


def held_out(key: str) -> bool:
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0


def draw(make: Callable[[Random], Made], rng: Random, *, from_held_out: bool = False) -> Made:
    """Call `make` until it gives an instance of the wanted side. RuntimeError if it never does."""
    for _ in range(10_000):
        made = make(rng)
        if held_out(made.key) == from_held_out:
            return made
    raise RuntimeError(f"{make} makes nothing with held_out={from_held_out}")


def weighted(rng: Random, table: Sequence[tuple[float, T]]) -> T:
    """One value of a table of (weight, value)."""
    at = rng.random() * sum(weight for weight, _ in table)
    for weight, value in table:
        at -= weight
        if at < 0:
            return value
    return table[-1][1]


def a(noun: str) -> str:
    """The noun with "a" or "an"."""
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def tidy(text: str) -> str:
    """One full stop after a name that ends in one."""
    return text.replace("..", ".")


def listing(words: Sequence[str]) -> str:
    """`x, y and z`"""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
