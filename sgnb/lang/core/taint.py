"""Taint tracking: which parts of a program's text are data, i.e. arguments or generated texts, and
must not be read as special tokens. Independent of tokenizers and execution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ...segment import Kind


class TaintedTexts:
    """Texts that are data wherever a program appends them.

    Args:
        marks: Matches special tokens; None if the tokenizer has no special tokens.
    """

    def __init__(self, marks: re.Pattern[str] | None) -> None:
        self._marks = marks
        self._texts: dict[str, None] = {}  # texts with special tokens
        self._whole: set[str] = set()

    def has_special_tokens(self, text: str) -> bool:
        return self._marks is not None and self._marks.search(text) is not None

    def add(self, value: Any) -> None:
        """Add a text, or all texts inside a list, tuple, set or mapping. Containers may contain
        themselves."""
        todo, seen = [value], {}
        while todo:
            one = todo.pop()
            if isinstance(one, str):
                self._add_text(one)
            elif isinstance(one, (Mapping, list, tuple, set, frozenset)) and id(one) not in seen:
                seen[id(one)] = one  # keeps the object alive: its id stays unique
                todo += chain.from_iterable(one.items()) if isinstance(one, Mapping) else one

    def _add_text(self, text: str) -> None:
        self._whole.add(text)
        if self.has_special_tokens(text):
            self._texts[text.strip()] = None

    def split_by_taint(self, text: str) -> list[tuple[str, Kind]]:
        """Split `text` into raw and data stretches.

        A tainted text without an exact match is searched line by line. A `text` equal to a tainted
        text is data even without special tokens, because neighboring text may complete a special
        token.
        """
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
    """Yield begin and end of each occurrence of `part` in `text`."""
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
