"""Which parts of a program's text are data: texts that it was given as arguments or that a model
wrote, and in which special tokens are written. Knows no tokenizer and no execution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ...segment import Kind


class TaintedTexts:
    """The texts that are data wherever a program appends them."""

    def __init__(self, marks: re.Pattern[str] | None) -> None:
        """marks: finds the special tokens that a tokenizer would read in a text."""
        self._marks = marks
        self._texts: dict[str, None] = {}  # those that spell marks
        self._whole: set[str] = set()

    def has_special_tokens(self, text: str) -> bool:
        return self._marks is not None and self._marks.search(text) is not None

    def add(self, value: Any) -> None:
        """Take a text, or those in a list, tuple, set or mapping, which may hold itself."""
        todo, seen = [value], {}
        while todo:
            one = todo.pop()
            if isinstance(one, str):
                self._add_text(one)
            elif isinstance(one, (Mapping, list, tuple, set, frozenset)) and id(one) not in seen:
                seen[id(one)] = one  # lives on, so that no other has its id
                todo += chain.from_iterable(one.items()) if isinstance(one, Mapping) else one

    def _add_text(self, text: str) -> None:
        self._whole.add(text)
        if self.has_special_tokens(text):
            self._texts[text.strip()] = None

    def split_by_taint(self, text: str) -> list[tuple[str, Kind]]:
        """`text` in order, as raw stretches and data. A known text that the program took apart
        counts line by line. One that is appended whole is data too where it spells no mark: beside
        others it may."""
        if text in self._whole:
            return [(text, "data")]
        if not self._texts or not self.has_special_tokens(text):
            return [(text, "raw")]
        result: list[tuple[str, Kind]] = []
        at = 0
        for start, end in _merged(self._found(text)):
            result += [(text[at:start], "raw"), (text[start:end], "data")]
            at = end
        return [(part, kind) for part, kind in [*result, (text[at:], "raw")] if part]

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        for known in self._texts:
            places = list(_places(known, text))
            if not places:
                lines = {
                    line.strip() for line in known.splitlines() if self.has_special_tokens(line)
                }
                places = [place for line in lines for place in _places(line, text)]
            yield from places


def _places(part: str, text: str) -> Iterator[tuple[int, int]]:
    """Where `part` lies in `text`: start and end."""
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + 1)


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
