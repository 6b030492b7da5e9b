"""Size limits of an automaton build, and errors for large and recursive grammars. Knows no
automaton."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ...errors import GrammarError


class TooLarge(GrammarError):
    """The automaton would exceed the states, memory or time of its `BuildLimits`."""


class Recursive(GrammarError):
    """A rule refers to itself, so the rules have no automaton.

    Args:
        rule: name of the recursive rule.
    """

    def __init__(self, rule: str) -> None:
        message = f"rule {rule!r} uses itself, which no automaton can follow"
        super().__init__(message, "match the rules with llguidance")
        self.rule = rule


class ThreadClock:
    """Deadline in CPU time of the current thread.

    Args:
        seconds: CPU seconds from now to the deadline.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._soonest = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True after the deadline.

        Reads the thread's CPU time only after the same wall time, because the system call yields to
        other threads on a busy machine.
        """
        return time.monotonic() > self._soonest and time.thread_time() > self._end


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Limits of a single build."""

    states: int = 65_536  # of the minimal automaton, including the dead state
    building: int = 131_072  # states before minimisation
    positions: int = 131_072  # of the NFA: about one per byte of the unrolled tree
    # CPU time of the thread, so a busy machine refuses no grammar that an idle machine accepts. The
    # current step, at most a few tenths of a second, is not interrupted.
    seconds: float = 2.0


class Budget:
    """Limits of a running build.

    `blame()` names the largest part of the tree, for error messages.

    Args:
        limits: limits; the clock starts now.
    """

    def __init__(self, limits: BuildLimits) -> None:
        self.limits = limits
        self.blame: Callable[[], str] = lambda: "reading the tree"
        self._clock = ThreadClock(limits.seconds)

    def check_time(self, blame: Callable[[], str] | None = None) -> None:
        if self._clock.is_over:
            seconds = f"{self.limits.seconds:g}"
            limit = f"(limit seconds={seconds})"
            self._refuse(f"the automaton is not done after {seconds} s {limit}", blame)

    def check(
        self, name: str, reached: int, unit: str, blame: Callable[[], str] | None = None
    ) -> None:
        """Compare a count with a limit.

        Args:
            name: field of `BuildLimits`.
            reached: current count.
            unit: unit of the count, for the message.
            blame: names the largest part; None for `self.blame`.

        Raises:
            TooLarge: `reached` exceeds the limit.
        """
        limit: int = getattr(self.limits, name)
        if reached > limit:
            needs = f"{reached:,} {unit} or more (limit {name}={limit:,})"
            self._refuse(f"the automaton needs {needs}", blame)

    def _refuse(self, message: str, blame: Callable[[], str] | None) -> NoReturn:
        largest = (blame or self.blame)()
        hint = "bound this part, or simplify it"
        raise TooLarge(f"{message}; its largest part: {largest}", hint)
