"""Stop regexes on a growing text, matched character by character. Knows no tokens.

All open match starts run through one automaton; starts in the same state merge into the earliest. A
character costs at most one step per automaton state, independent of the text length.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...grammar.automaton.automaton import DEAD, START, Automaton, BuildLimits, build
from ...grammar.regex.parser import parse_occurrence
from ...grammar.syntax import Rules, alternate

LIMITS = BuildLimits(states=4096, work=2_000_000)


class _CompiledRegex(NamedTuple):
    automaton: Automaton  # of the union of the patterns
    parts: tuple[Automaton, ...]  # per pattern


@lru_cache(256)
def compile_stop(patterns: tuple[str, ...]) -> _CompiledRegex:
    """Compile patterns. Raises the errors of `parse_occurrence`, also for oversized patterns."""
    nodes = [parse_occurrence(pattern) for pattern in patterns]
    union = build(Rules(alternate(*nodes)), LIMITS)
    if len(nodes) == 1:
        return _CompiledRegex(union, (union,))
    return _CompiledRegex(union, tuple(build(Rules(node), LIMITS) for node in nodes))


class StopRegex:
    """Search for the first match in a growing text, and the length safe to show. The first match
    ends first; ties go to the earliest start."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """patterns: at least one pattern."""
        self._automaton, parts = compile_stop(patterns)
        self._parts = tuple(zip(patterns, parts, strict=True))
        self._final = self._automaton.final.tolist()
        self._first: dict[str, int] = {}  # state after the first character of a match
        self._begun: dict[int, int] = {}  # state -> earliest start leading to the state
        self._read = 0

    def ignore(self, text: str) -> None:
        """Ignore matches that begin in `text`."""
        self._begun, self._read = {}, len(text)

    def find(self, text: str) -> tuple[int, str] | None:
        """Return the start and the pattern of the first match in `text`, or None. `text` extends
        the text of the last call."""
        for place in range(self._read, len(text)):
            self._begun = self._step(text[place], place)
            if ends := [begin for state, begin in self._begun.items() if self._final[state]]:
                begin = min(ends)
                match = text[begin : place + 1].encode()
                return begin, next(p for p, part in self._parts if part.accepts(match))
        self._read = len(text)
        return None

    def safe_length(self, text: str) -> int:
        """Return the length of the prefix of `text` outside any possible match. Call after `find`
        returned None."""
        return min(self._begun.values(), default=len(text))

    def _step(self, character: str, place: int) -> dict[int, int]:
        """Return `_begun` after the character at `place`."""
        first = self._first.get(character)
        if first is None:
            first = self._automaton.step(START, character.encode())
            self._first[character] = first
        if not self._begun:
            return {first: place} if first != DEAD else self._begun

        data, begun = character.encode(), dict[int, int]()
        for state, begin in self._begun.items():
            state = self._automaton.step(state, data)
            if state != DEAD:
                begun[state] = min(begin, begun.get(state, begin))
        if first != DEAD:
            begun.setdefault(first, place)
        return begun
