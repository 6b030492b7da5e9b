"""What a held-out question is, how an answer is judged, and the shapes of prompt that most suites use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sgnb.lang.decorator import SglFunction

from .. import forms
from ..items import JOINT, Draw, Item, draw
from .programs import complete


@dataclass(frozen=True, slots=True)
class Case:
    """`keys` are the instances that must be unknown to training; choices, if any, are scored instead of generating."""

    prompt: str
    want: str
    keys: tuple[str, ...]
    choices: tuple[str, ...] = ()


Judge = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Suite:
    """`make` gives one question, or is the whole set where it was written down.

    judge(answer, wanted): whether it is right. stop: ends the answer besides the end of the turn. bar: the share of
    right answers to reach, 0 to 1, if there is one. program: called with `case` and `stop`; its value is the answer.
    """

    name: str
    make: Callable[[Random], Case] | tuple[Case, ...]
    judge: Judge
    stop: str = ""
    bar: float | None = None
    program: SglFunction = complete

    def cases(self, count: int) -> list[Case]:
        """The first `count` questions, always the same ones."""
        if isinstance(self.make, tuple):
            return list(self.make[:count])
        rng = Random(f"evaluate/{self.name}")
        return [self.make(rng) for _ in range(count)]


def exact(answer: str, want: str) -> bool:
    return answer.strip() == want.strip()


def contains(answer: str, want: str) -> bool:
    """The wanted words stand in the answer, whole and in any case: "O" is not in "oxygen"."""
    return re.search(rf"(?<!\w){re.escape(want)}(?!\w)", answer, re.IGNORECASE) is not None


def starts(answer: str, want: str) -> bool:
    return answer.strip().startswith(want)


def ends(answer: str, want: str) -> bool:
    return answer.strip().rstrip(".").endswith(want)


def same_json(answer: str, want: str) -> bool:
    """Equal as JSON values; text that is not JSON is wrong."""
    try:
        return bool(json.loads(answer) == json.loads(want))
    except json.JSONDecodeError:
        return False


def valid_json(answer: str, want: str) -> bool:
    return same_json(answer, answer)


def short(item: Item) -> str:
    return item.short


def ask(question: str, system: str = "") -> str:
    """A chat that waits for the answer to one question."""
    return forms.chat([(question, "")], system).partition(JOINT)[0]


def chat(make: Draw, *, want: Callable[[Item], str] = short, system: str = "") -> Callable[[Random], Case]:
    """One turn of chat about a held-out item."""

    def case(rng: Random) -> Case:
        item = draw(make, rng, from_held_out=True)
        return Case(ask(item.ask, system), want(item), (item.key,))

    return case


def few_shot(make: Draw, shots: int, *, by_choice: bool = False, end: str = "") -> Callable[[Random], Case]:
    """`shots` examples, then a held-out item; `end` follows the last label (a blank, to test prompts that end so)."""

    def case(rng: Random) -> Case:
        before = [draw(make, rng) for _ in range(shots)]
        item = draw(make, rng, from_held_out=True)
        lines = [forms.shot(i, item.labels, short=True).replace(JOINT, "") for i in before]
        last = forms.shot(item, item.labels, short=True).partition(JOINT)[0]
        return Case("\n\n".join([*lines, last]) + end, item.short, (item.key,), item.choices if by_choice else ())

    return case
