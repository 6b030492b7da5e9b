"""How large an automaton may become; errors for larger and recursive ones. Knows no automaton."""

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
        message = f"rule {rule!r} uses itself, which no automaton can follow"
        super().__init__(message, "use a grammar library for it")
        self.rule = rule


class ThreadClock:
    """Whether this thread has computed for so many seconds since the clock was made."""

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._soonest = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Asks the system for the thread's time, where a busy one lets others run, only late."""
        return time.monotonic() > self._soonest and time.thread_time() > self._end


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one build."""

    states: int = 65_536  # of the minimal automaton, the dead one included
    building: int = 131_072  # states of an automaton before it is made minimal
    positions: int = 131_072  # of the NFA, about one per byte of the tree with repeats unrolled
    # CPU time of the thread: a busy machine refuses nothing that a quiet one makes. The step under
    # way, at most a few tenths of a second, is not cut short.
    seconds: float = 2.0


class Budget:
    """`limits` with the clock started. `blame()` names the largest part of the tree, for errors."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.blame: Callable[[], str] = lambda: "reading the tree"
        self._clock = ThreadClock(limits.seconds)

    def check_time(self, blame: Callable[[], str] | None = None) -> None:
        if self._clock.is_over:
            seconds = f"{self.limits.seconds:g}"
            limit = f"(limit seconds={seconds})"
            self._refuse(f"the automaton is not done after {seconds} s {limit}", blame)

    def check(
        self, name: str, reached: int, what: str, blame: Callable[[], str] | None = None
    ) -> None:
        """Raise TooLarge when `reached` is above the limit called `name`."""
        limit: int = getattr(self.limits, name)
        if reached > limit:
            needs = f"{reached:,} {what} or more (limit {name}={limit:,})"
            self._refuse(f"the automaton needs {needs}", blame)

    def _refuse(self, message: str, blame: Callable[[], str] | None) -> NoReturn:
        largest = (blame or self.blame)()
        hint = "bound that part, or ask for less in it"
        raise TooLarge(f"{message}; its largest part: {largest}", hint)
