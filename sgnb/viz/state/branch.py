"""The coloured text of one branch of a run. Knows neither events nor tokens.

A coloured text is a list of [kind, text] pairs; lengths and places are in characters unless said
otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .models import letter_of


@dataclass(slots=True, eq=False)
class Branch:
    """The text of one branch."""

    name: str
    parent: str
    segments: list[list[str]] = field(default_factory=list)
    shared: int = 0  # the first characters of `segments`, which the parent shows already
    forked_at: int = 0  # characters of the parent before the fork
    variables: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)
    """Of a variable the letter of the model that made it, "" for the run's own."""
    status: str = "running"
    error: str = ""
    generated_from: int | None = None  # where the generation begins that is shown now

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.segments)

    def own(self) -> list[list[str]]:
        """The segments without what the parent shows."""
        return drop(self.segments, self.shared)

    def append(self, kind: str, text: str) -> None:
        if not text:
            return
        if self.segments and self.segments[-1][0] == kind:
            self.segments[-1][1] += text
        else:
            self.segments.append([kind, text])

    def cut(self, length: int) -> None:
        """Keep the first `length` characters."""
        if length < self.length:
            self.segments = take(self.segments, length)

    def prompt(self, pieces: list[list[str]], generates: bool, of_other: bool = False) -> None:
        """Show a request's prompt; the prefix that it shares with text already coloured keeps its
        colour, and what another model made its mark. A request that only scores holds text that may
        never be chosen: no more of it is shown than the branch has. of_other: to another model,
        whose chat template may write the same roles in other words: those are not shown."""
        old, new = self.text, "".join(text for _, text in pieces)
        at = new.find(old)
        if at < 0 and (of_other or not generates):
            return
        marked = self._made_by_others() if at >= 0 else []
        if not generates:
            new = new[: at + len(old)]
            pieces = take(pieces, len(new))
        common = common_length(old, new)
        done = itertools.takewhile(lambda segment: segment[0] != "text", self.segments)
        coloured = min(common, sum(len(text) for _, text in done))
        self.shared = min(self.shared, common)
        self.cut(coloured)
        for kind, text in drop(pieces, coloured):
            self.append(kind, text)
        for begin, segment in marked:
            end = at + begin + len(segment[1])
            before, after = take(self.segments, at + begin), drop(self.segments, end)
            self.segments = [*before, segment, *after]
        self.generated_from = len(new) if generates else None

    def _made_by_others(self) -> list[tuple[int, list[str]]]:
        """What other models than the run's own made, each with where it begins."""
        ends = itertools.accumulate(len(text) for _, text in self.segments)
        begun = [(end - len(one[1]), one) for end, one in zip(ends, self.segments, strict=True)]
        return [(begin, [*one]) for begin, one in begun if letter_of(one[0])]

    def sent(self, pieces: list[list[str]]) -> None:
        """Colour text that stands here and was sent by a fork, with that prompt's pieces."""
        if all(kind != "text" for kind, _ in self.segments):
            return
        common = common_length(self.text, "".join(text for _, text in pieces))
        old, self.segments, at = self.segments, [], 0
        for kind, text in old:
            end = at + len(text)
            sent = max(at, min(end, common)) if kind == "text" else at
            for piece in [*take(drop(pieces, at), sent - at), [kind, text[sent - at :]]]:
                self.append(*piece)
            at = end

    @property
    def length(self) -> int:
        return sum(len(text) for _, text in self.segments)


def common_length(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Of the longest common prefix, by bisection: slices are compared much faster than their items
    one by one."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def take(segments: list[list[str]], length: int) -> list[list[str]]:
    """The first `length` characters of the segments."""
    taken = []
    for kind, text in segments:
        if length <= 0:
            break
        taken.append([kind, text[:length]])
        length -= len(text)
    return taken


def drop(segments: list[list[str]], length: int) -> list[list[str]]:
    """All but the first `length` characters of the segments."""
    rest = []
    for kind, text in segments:
        if len(text) > length:
            rest.append([kind, text[length:]])
        length = max(0, length - len(text))
    return rest
