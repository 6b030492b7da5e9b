"""Taint tracking: which parts of a program's text are data, i.e. arguments or generated texts, and
must not be read as special tokens. Independent of tokenizers and execution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ...segment import Kind
from ..location import caller, warn_once

_CONTAINERS = (Mapping, list, tuple, set, frozenset)


class TaintedTexts:
    """Texts that are data wherever a program appends them.

    Args:
        special_tokens: Matches special tokens; None if the tokenizer has no special tokens.
    """

    def __init__(self, special_tokens: re.Pattern[str] | None) -> None:
        self._special_tokens = special_tokens
        self._texts: dict[str, None] = {}  # texts with special tokens
        self._exact_texts: set[str] = set()

    def has_special_tokens(self, text: str) -> bool:
        return self._special_tokens is not None and self._special_tokens.search(text) is not None

    def add(self, value: Any) -> None:
        """Add a text, or all texts inside a list, tuple, set or mapping. Containers may contain
        themselves."""
        pending, visited = [value], {}
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                self._add_text(item)
            elif isinstance(item, _CONTAINERS) and id(item) not in visited:
                visited[id(item)] = item  # keeps the object alive: its id stays unique
                pending += chain.from_iterable(item.items()) if isinstance(item, Mapping) else item

    def _add_text(self, text: str) -> None:
        self._exact_texts.add(text)
        if self.has_special_tokens(text):
            self._texts[text.strip()] = None

    def split_by_taint(self, text: str) -> list[tuple[str, Kind]]:
        """Split `text` into raw and data stretches.

        A tainted text without an exact match is searched line by line. A `text` equal to a tainted
        text is data even without special tokens, because neighboring text may complete a special
        token.
        """
        if text in self._exact_texts:
            return [(text, "data")]
        if not self._texts or not self.has_special_tokens(text):
            return [(text, "raw")]
        result: list[tuple[str, Kind]] = []
        position = 0
        for start, end in _merged(self._spans(text)):
            result += [(text[position:start], "raw"), (text[start:end], "data")]
            position = end
        return [(part, kind) for part, kind in [*result, (text[position:], "raw")] if part]

    def warn_of_special_tokens(self, text: str, role: str) -> None:
        """Warn, once per line, that special tokens written by the program in a role are plain
        text."""
        stretches = self.split_by_taint(text)
        if any(kind == "raw" and self.has_special_tokens(part) for part, kind in stretches):
            message = f"special tokens in the content of the role {role!r} are plain text"
            warn_once(f"{message}; write raw(text) where they are meant", caller())

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for tainted in self._texts:
            spans = list(_occurrences(tainted, text))
            if not spans:
                lines = {
                    line.strip() for line in tainted.splitlines() if self.has_special_tokens(line)
                }
                spans = [span for line in lines for span in _occurrences(line, text)]
            yield from spans


def _occurrences(part: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each occurrence of `part` in `text`."""
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + 1)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
