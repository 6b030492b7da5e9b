"""Sums of up to three digits, asked bare and in chat; written-out steps; ordering numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from ..items import Item, draw
from ..tasks import numbers
from .base import Case, Suite, chat, ends, exact, few_shot


def bare(signs: str, digits: int) -> Callable[[Random], Case]:
    """`345 + 278 =`, and nothing before it."""

    def case(rng: Random) -> Case:
        item = draw(partial(numbers.equation, signs=signs, digits=digits), rng, from_held_out=True)
        return Case(item.ask, item.short, (item.key,))

    return case


def asked(signs: str, digits: int, unseen: bool = False) -> Callable[[Random], Case]:
    make = partial(numbers.sum_question, signs=signs, digits=digits, unseen=unseen)
    return chat(make, want=equals)


def equals(item: Item) -> str:
    """The end of a right answer that repeats the sum or writes out steps."""
    return f" = {item.short}"


def after_thinking(item: Item) -> str:
    return f"\n{item.short}"


SUITES = (
    Suite("two-digit addition and subtraction, chat", asked("+-", 2), ends, bar=0.97),
    Suite("two-digit addition and subtraction, bare (`12 + 34 =`)", bare("+-", 2), exact, "\n", bar=0.97),
    Suite("three-digit addition, chat", asked("+", 3), ends, bar=0.97),
    Suite("three-digit addition, bare (`345 + 278 =`)", bare("+", 3), exact, "\n", bar=0.97),
    Suite("three-digit subtraction, chat", asked("-", 3), ends, bar=0.97),
    Suite("three-digit subtraction, bare", bare("-", 3), exact, "\n", bar=0.97),
    Suite("sums of up to three digits, phrasing never seen, chat", asked("+-", 0, unseen=True), ends, bar=0.85),
    Suite("sums of up to three digits, Q/A, two examples",
          few_shot(partial(numbers.sum_question, signs="+-"), 2), exact, "\n", bar=0.97),
    Suite("sums of up to three digits, steps between thinking marks",
          chat(numbers.thought_sum, want=after_thinking, system="Think step by step."), ends, bar=0.97),
    Suite("sums of up to three digits, steps asked for, phrasing never seen",
          chat(partial(numbers.worked_sum, unseen=True), want=equals), ends),
    Suite("two digits times one, with steps, chat", chat(numbers.long_product, want=equals), ends),
    Suite("which number is larger or smaller, phrasing never seen, Q/A", few_shot(
        partial(numbers.compare, unseen=True), 2), exact, "\n"),
    Suite("numbers sorted, chat", chat(numbers.sorting), exact),
    Suite("numbers sorted, phrasing never seen, chat", chat(partial(numbers.sorting, unseen=True)), exact),
)
