"""Stop strings in a growing text. Knows no tokens.

Each new character costs one lookup in sorted lists, independent of the number of strings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class SortedWords:
    """Immutable word list with prefix lookup."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(set(words))
        # longest proper prefix of each word among the words
        self._shorter: dict[str, str | None] = {}
        path = list[str]()
        for word in self._words:
            while path and not word.startswith(path[-1]):
                path.pop()
            self._shorter[word] = path[-1] if path else None
            path.append(word)

    def longest_in(self, text: str) -> str | None:
        """Return the longest word that is a prefix of `text`."""
        # All prefixes of `text` sort between the shortest prefix and `text`, and are prefixes of
        # the last word in the range.
        at = bisect_right(self._words, text)
        word = self._words[at - 1] if at else None
        while word is not None and not text.startswith(word):
            word = self._shorter[word]
        return word

    def continues(self, text: str) -> bool:
        """True if `text` is a prefix of some word."""
        at = bisect_left(self._words, text)
        return at < len(self._words) and self._words[at].startswith(text)


class _CompiledStops(NamedTuple):
    forwards: SortedWords
    backwards: SortedWords  # reversed words
    longest: int  # length in characters


@lru_cache(16)
def _compiled(stops: tuple[str, ...]) -> _CompiledStops:
    backwards = SortedWords(stop[::-1] for stop in stops)
    return _CompiledStops(SortedWords(stops), backwards, max(map(len, stops)))


class StopStrings:
    """Search for the first stop string in a growing text, and the length safe to show."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        """stops: at least one string."""
        self._stops = _compiled(stops)
        self._begin = 0  # earlier starts are ignored
        self._searched = 0  # no stop string ends before this position
        self._safe = 0  # no stop string can begin before this position

    def ignore(self, text: str) -> None:
        """Ignore stop strings that begin in `text`."""
        self._begin = self._searched = self._safe = len(text)

    def find(self, text: str) -> tuple[int, str] | None:
        """Return the start of the first stop string in `text` and the longest string at the start,
        or None. `text` extends the text of the last call."""
        first = len(text)
        for end in range(self._searched + 1, len(text) + 1):
            begin = max(self._begin, end - self._stops.longest)
            stop = self._stops.backwards.longest_in(text[begin:end][::-1])
            if stop is not None:
                first = min(first, end - len(stop))
        self._searched = len(text)
        stop = self._stops.forwards.longest_in(text[first : first + self._stops.longest])
        return None if stop is None else (first, stop)

    def safe_length(self, text: str) -> int:
        """Return the length of the prefix of `text` outside any possible stop string. Call after
        `find` returned None."""
        self._safe = max(self._safe, len(text) - self._stops.longest + 1)
        while self._safe < len(text) and not self._stops.forwards.continues(text[self._safe :]):
            self._safe += 1
        return self._safe
