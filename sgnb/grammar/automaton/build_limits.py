"""Limits of an automaton build in sizes and counted work, and errors for large and recursive
grammars. Knows no automaton.

No limit reads a clock: a grammar compiles on every machine or on none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ...errors import GrammarError


class TooLarge(GrammarError):
    """The automaton would exceed the states, memory or work of its `BuildLimits`."""


class Recursive(GrammarError):
    """A rule refers to itself, so the rules have no automaton.

    Args:
        rule: name of the recursive rule.
    """

    def __init__(self, rule: str) -> None:
        message = f"rule {rule!r} uses itself, which no automaton can follow"
        super().__init__(message, "match the rules with llguidance")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Limits of a single build."""

    states: int = 65_536  # of the minimal automaton, including the dead state
    building: int = 131_072  # states before minimisation
    positions: int = 131_072  # of the NFA: about one per byte of the unrolled tree
    work: int = 2_000_000  # steps, of about a microsecond each


class Budget:
    """Limits of a running build.

    `blame()` names the largest part of the tree, for error messages.

    Args:
        limits: limits of the build.
    """

    def __init__(self, limits: BuildLimits) -> None:
        self.limits = limits
        self.blame: Callable[[], str] = lambda: "reading the tree"
        self.spent = 0  # steps so far

    def spend(self, steps: int, blame: Callable[[], str] | None = None) -> None:
        """Count work.

        Args:
            steps: number of steps, of about a microsecond each.
            blame: names the largest part; None for `self.blame`.

        Raises:
            TooLarge: the steps exceed the limit.
        """
        self.spent += steps
        if self.spent > self.limits.work:
            work = f"{self.limits.work:,}"
            limit = f"(limit work={work})"
            self._refuse(f"the automaton is not done after {work} steps {limit}", blame)

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
