"""How large an automaton may become, and the errors for what is larger or not regular. Knows no
automaton."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ...errors import GrammarError


class TooLarge(GrammarError):
    """An automaton would need more states, memory or time than its `Limits` allow."""


class Recursive(GrammarError):
    """Rule `rule` uses itself, so that no automaton can be made of the rules."""

    def __init__(self, rule: str) -> None:
        super().__init__(
            f"rule {rule!r} uses itself, which no automaton can follow",
            "use a grammar library for it",
        )
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one build.

    states: of the minimal automaton, the dead one included. building: of an automaton before it is
    made minimal. positions: of the NFA, about one for each byte of the tree with its repeats
    written out. seconds: processor time of the thread, so that a busy machine refuses nothing that
    a quiet one makes; the step under way, at most a few tenths of a second, is not cut short.
    """

    states: int = 65_536
    building: int = 131_072
    positions: int = 131_072
    seconds: float = 2.0


class Budget:
    """`limits` with the clock started. `blame()`, for the error, names the largest part of the
    tree."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.blame: Callable[[], str] = lambda: "reading the tree"
        self._end = time.thread_time() + limits.seconds

    def check_time(self, blame: Callable[[], str] | None = None) -> None:
        if time.thread_time() > self._end:
            seconds = self.limits.seconds
            self._refuse(
                f"the automaton is not done after {seconds:g} s (limit seconds={seconds:g})", blame
            )

    def check(
        self, name: str, reached: int, what: str, blame: Callable[[], str] | None = None
    ) -> None:
        """Raise TooLarge when `reached` is above the limit called `name`."""
        limit: int = getattr(self.limits, name)
        if reached > limit:
            self._refuse(
                f"the automaton needs {reached:,} {what} or more (limit {name}={limit:,})", blame
            )

    def _refuse(self, message: str, blame: Callable[[], str] | None) -> NoReturn:
        raise TooLarge(
            f"{message}; its largest part: {(blame or self.blame)()}",
            "bound that part, or ask for less in it",
        )
