"""Coloured text of a branch. Knows neither events nor tokens.

Coloured text is a list of [kind, text] pairs. Lengths and positions are in characters unless stated
otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...sequences import common_length
from .media import mark_of
from .models import letter_of


@dataclass(slots=True, eq=False)
class BranchText:
    """Coloured text of one branch."""

    name: str
    parent: str
    segments: list[list[str]] = field(default_factory=list)
    shared: int = 0  # length of the prefix already shown by the parent
    forked_at: int = 0  # length of the parent at the fork
    variables: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)
    """Per variable the letter of the generating model, or "" for the run's default model."""
    status: str = "running"
    error: str = ""
    generated_from: int | None = None  # start of the current generation, or None

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.segments)

    def items(self) -> dict[int, int]:
        """Return the first token ids of images, videos and sounds by position."""
        starts, at = dict[int, int](), 0
        for kind, text in self.segments:
            mark = mark_of(kind)
            if mark is not None:
                starts[at] = mark.first_id
            at += len(text)
        return starts

    def own(self) -> list[list[str]]:
        """Return the segments after the prefix shown by the parent."""
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
        """Show the prompt of a request. Text coloured earlier keeps the colour, and text of other
        models keeps the mark.

        Args:
            pieces: Prompt as coloured text.
            generates: False for scoring, because scored choices may be discarded: text beyond the
                branch stays hidden.
            of_other: True for a prompt to another model. A different chat template may render roles
                differently, and such prompts stay hidden.
        """
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
            head, after = take(self.segments, at + begin), drop(self.segments, end)
            self.segments = [*head, segment, *after]

        self.generated_from = len(new) if generates else None

    def _made_by_others(self) -> list[tuple[int, list[str]]]:
        """Return the segments of other models, each with the start position."""
        ends = itertools.accumulate(len(text) for _, text in self.segments)
        begun = [
            (end - len(segment[1]), segment)
            for end, segment in zip(ends, self.segments, strict=True)
        ]
        return [(begin, [*segment]) for begin, segment in begun if letter_of(segment[0])]

    def sent(self, pieces: list[list[str]]) -> None:
        """Colour constant text from the prompt of a fork's request."""
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


def take(segments: list[list[str]], length: int) -> list[list[str]]:
    """Return the first `length` characters of the segments."""
    result = []
    for kind, text in segments:
        if length <= 0:
            break
        result.append([kind, text[:length]])
        length -= len(text)
    return result


def drop(segments: list[list[str]], length: int) -> list[list[str]]:
    """Return the segments without the first `length` characters."""
    result = []
    for kind, text in segments:
        if len(text) > length:
            result.append([kind, text[length:]])
        length = max(0, length - len(text))
    return result


class Passage(NamedTuple):
    """Text of a branch between two forks."""

    branch: BranchText
    segments: list[list[str]]
    last: bool  # last passage of the branch


def passages(branches: Mapping[str, BranchText]) -> Iterator[Passage]:
    """Yield the text of branches in reading order, with forks at the fork position."""
    roots = [branch for branch in branches.values() if branch.parent not in branches]
    for root in roots:
        yield from _passages(branches, root)


def _passages(branches: Mapping[str, BranchText], branch: BranchText) -> Iterator[Passage]:
    at = branch.shared
    for child in [other for other in branches.values() if other.parent == branch.name]:
        if child.forked_at > at:
            yield Passage(branch, take(drop(branch.segments, at), child.forked_at - at), False)
            at = child.forked_at
        yield from _passages(branches, child)
    yield Passage(branch, drop(branch.segments, at), True)
