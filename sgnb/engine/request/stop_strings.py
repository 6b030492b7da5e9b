"""Stop strings in a text that grows. Knows no tokens.

However many there are, each new character is looked up in their sorted lists once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class SortedWords:
    """Words among which those are found that a text begins with. Never changes."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(set(words))
        self._shorter: dict[str, str | None] = {}  # of each the longest other that it begins with
        path = list[str]()
        for word in self._words:
            while path and not word.startswith(path[-1]):
                path.pop()
            self._shorter[word] = path[-1] if path else None
            path.append(word)

    def longest_in(self, text: str) -> str | None:
        """The longest word that `text` begins with."""
        # All of those lie in the order between the shortest of them and `text`, and so are
        # beginnings of the last word there.
        at = bisect_right(self._words, text)
        word = self._words[at - 1] if at else None
        while word is not None and not text.startswith(word):
            word = self._shorter[word]
        return word

    def continues(self, text: str) -> bool:
        """Whether some word begins with `text`."""
        at = bisect_left(self._words, text)
        return at < len(self._words) and self._words[at].startswith(text)


class _Compiled(NamedTuple):
    forwards: SortedWords
    backwards: SortedWords  # each word from its end to its beginning
    longest: int  # characters


@lru_cache(16)
def _compiled(stops: tuple[str, ...]) -> _Compiled:
    backwards = SortedWords(stop[::-1] for stop in stops)
    return _Compiled(SortedWords(stops), backwards, max(map(len, stops)))


class StopStrings:
    """Finds the first stop string in a text that grows, and says how much of the text can be shown
    already."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        """stops: one or more."""
        self._stops = _compiled(stops)
        self._begin = 0  # stop strings that begin before this place do not count
        self._searched = 0  # none ends up to here
        self._safe = 0  # none begins before this place, however the text goes on

    def ignore(self, text: str) -> None:
        """Stop strings that begin in `text` no longer count."""
        self._begin = self._searched = self._safe = len(text)

    def find(self, text: str) -> tuple[int, str] | None:
        """Where the first stop string begins in `text`, which has only grown since the last call,
        and the longest that begins there; None if there is none."""
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
        """How much of `text`, in which nothing was found, can be in no stop string, however it goes
        on."""
        self._safe = max(self._safe, len(text) - self._stops.longest + 1)
        while self._safe < len(text) and not self._stops.forwards.continues(text[self._safe :]):
            self._safe += 1
        return self._safe
