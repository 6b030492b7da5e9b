"""Regexes that end a text which grows, read character by character. Knows no tokens.

Each place where a match has begun and may still come is followed through one automaton; two that
are in the same state go on alike, and the first of them stays. So a character costs at most one
step for each state of the automaton, however long the text is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ...grammar.automaton.automaton import DEAD, START, Automaton, Limits, build
from ...grammar.regex.parser import parse_occurrence
from ...grammar.syntax import Rules, alternate

LIMITS = Limits(states=4096, seconds=1.4)


class _Compiled(NamedTuple):
    automaton: Automaton  # of the texts that one of the patterns matches
    patterns: tuple[re.Pattern[str], ...]


@lru_cache(256)
def compile_stop(patterns: tuple[str, ...]) -> _Compiled:
    """Raises GrammarError as `parse_occurrence`, and for patterns that are too large."""
    nodes = [parse_occurrence(pattern) for pattern in patterns]
    return _Compiled(build(Rules(alternate(*nodes)), LIMITS), tuple(map(re.compile, patterns)))


class StopRegex:
    """Finds where the first match in a text that grows begins, and says how much of the text can be
    shown already. The first match is the one that ends first; of several that end there, the one
    that begins first."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """patterns: one or more."""
        self._automaton, self._patterns = compile_stop(patterns)
        self._final = self._automaton.final.tolist()
        self._first: dict[str, int] = {}  # the state after a character that begins a match
        self._begun: dict[int, int] = {}  # state -> the first place that led to it
        self._read = 0

    def ignore(self, text: str) -> None:
        """Matches that begin in `text` no longer count."""
        self._begun, self._read = {}, len(text)

    def find(self, text: str) -> tuple[int, str] | None:
        """Where the first match begins in `text`, which has only grown since the last call, and its
        pattern; None if there is none."""
        for place in range(self._read, len(text)):
            self._begun = self._step(text[place], place)
            if ends := [begin for state, begin in self._begun.items() if self._final[state]]:
                begin = min(ends)
                matching = (p for p in self._patterns if p.fullmatch(text, begin, place + 1))
                return begin, next(matching).pattern
        self._read = len(text)
        return None

    def safe_length(self, text: str) -> int:
        """How much of `text`, in which nothing was found, can be in no match, however it goes
        on."""
        return min(self._begun.values(), default=len(text))

    def _step(self, character: str, place: int) -> dict[int, int]:
        """`_begun` after the character at `place`."""
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
