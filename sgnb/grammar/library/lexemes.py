"""Two regular pieces of a grammar at one place: where one can end, how can the other continue?

The answers, sets of bytes, may be too large (counts and differences are over-approximated), never
too small. The position automata are Glushkov's (1961). Knows no rules and no library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from ...errors import GrammarError
from ..automaton.limits import ThreadClock
from ..syntax import Alternate, Chars, Concat, Literal, Node, Ranges, Reference, Repeat
from .normal import children

MOST_POSITIONS = 150_000
"""Of one piece: a few hundred bytes each."""


class Budget:
    """CPU time of this thread for the analysis, which is quadratic in the pieces at one place."""

    def __init__(self, seconds: float) -> None:
        self._clock = ThreadClock(seconds)
        self._unchecked = 0

    def spend(self, steps: int) -> None:
        """`steps`: about as many microseconds. The clock is read now and then; GrammarError."""
        self._unchecked += steps
        if self._unchecked > 1000:
            self._unchecked = 0
            if self._clock.is_over:
                self.refuse()

    def refuse(self) -> NoReturn:
        problem = "the grammar is too large for the grammar library"
        raise GrammarError(
            f"{problem}: too much is possible at one place",
            "fewer rules, fewer options at one place, or fewer optional properties in one object",
        )


@dataclass(slots=True)
class Piece:
    """The position automaton of a regular tree."""

    nullable: bool = False
    chars: list[Ranges] = field(default_factory=list)  # of each position
    leads: list[int] = field(default_factory=list)  # their first bytes, as `lead_bytes`
    follow: list[set[int]] = field(default_factory=list)  # the next positions of each
    first: set[int] = field(default_factory=set)
    word: str | None = None  # the text, if there is only one
    last: set[int] = field(default_factory=set)

    @property
    def lead(self) -> int:
        return self.leads_of(self.first)

    def leads_of(self, positions: set[int]) -> int:
        found = 0
        for position in positions:
            found |= self.leads[position]
        return found


@dataclass(frozen=True, slots=True)
class Clash:
    """How two pieces at one place overlap."""

    longer: int  # first bytes with which the second piece continues where the first can end
    shorter: int  # the other way round
    same: bool  # whether one text may be both


NO_CLASH = Clash(0, 0, False)


@lru_cache(4096)
def lead_bytes(ranges: Ranges) -> int:
    """The first bytes, in UTF-8, of the characters: bit b for byte b."""
    found = 0
    for low, high in ranges:
        first, last = chr(low).encode()[0], chr(high).encode()[0]
        found |= (2 << last) - (1 << first)
    return found


def piece(node: Node, rule: Callable[[str], Node], budget: Budget) -> Piece:
    """The position automaton of `node`, with the rules it refers to inlined."""
    return _PieceBuilder(rule, budget).build(node)


Part = tuple[bool, set[int], set[int]]


class _PieceBuilder:
    def __init__(self, rule: Callable[[str], Node], budget: Budget) -> None:
        self.rule, self.budget, self.made = rule, budget, Piece()

    def build(self, node: Node) -> Piece:
        self.made.word = node.text if isinstance(node, Literal) else None
        self.made.nullable, self.made.first, self.made.last = self.part(node)
        return self.made

    def part(self, node: Node) -> Part:
        self.budget.spend(1)
        match node:
            case Literal(text):
                return self.words([text])
            case Chars(ranges):
                place = self.place(ranges)
                return False, {place}, {place}
            case Reference(name):
                return self.part(self.rule(name))
            case Concat(parts):
                return self.sequence(parts)
            case Alternate(options):
                words = [option.text for option in options if isinstance(option, Literal)]
                found = [self.part(option) for option in options if not isinstance(option, Literal)]
                found += [self.words(words)] if words else []
                firsts, lasts = [first for _, first, _ in found], [last for _, _, last in found]
                nullable = any(empty for empty, _, _ in found)
                return nullable, set().union(*firsts), set().union(*lasts)
            case Repeat(inner, least, most):
                nullable, first, last = self.part(inner)
                if most != 1:
                    self.join(last, first)
                return nullable or least == 0, first, last
        return self.part(children(node)[0])

    def place(self, ranges: Ranges) -> int:
        if len(self.made.chars) >= MOST_POSITIONS:
            self.budget.refuse()
        self.made.chars.append(ranges)
        self.made.leads.append(lead_bytes(ranges))
        self.made.follow.append(set())
        return len(self.made.chars) - 1

    def join(self, before: set[int], after: set[int]) -> None:
        self.budget.spend(len(before) * len(after))
        for place in before:
            self.made.follow[place] |= after

    def sequence(self, parts: tuple[Node, ...]) -> Part:
        nullable, first, last = True, set[int](), set[int]()
        for part in parts:
            empty, begins, ends = self.part(part)
            self.join(last, begins)
            first |= begins if nullable else set()
            last = ends | last if empty else ends
            nullable = nullable and empty
        return nullable, first, last

    def words(self, words: list[str]) -> Part:
        """As a trie, so that ten thousand choices do not meet ten thousand others."""
        known: dict[tuple[int, str], int] = {}
        first: set[int] = set()
        last: set[int] = set()
        for word in words:
            place = -1
            for char in word:
                self.budget.spend(3)
                following = known.get((place, char))
                if following is None:
                    following = known[place, char] = self.place(((ord(char), ord(char)),))
                    (first if place < 0 else self.made.follow[place]).add(following)
                place = following
            if word:
                last.add(place)
        return "" in words, first, last


def clash(one: Piece, other: Piece, budget: Budget) -> Clash:
    """How two pieces that are possible at the same place overlap; one can clash with itself."""
    budget.spend(1)
    if not one.lead & other.lead:
        return NO_CLASH
    if one.word and other.word:
        return _clash_of_words(one, one.word, other, other.word)
    longer = shorter = 0
    same = False
    seen: set[tuple[int, int]] = set()
    waiting = [(one.first, other.first)]
    while waiting:
        mine, theirs = waiting.pop()
        budget.spend(len(mine) * len(theirs))
        for a in mine:
            for b in theirs:
                if (a, b) in seen or not one.leads[a] & other.leads[b]:
                    continue
                if not _overlap(one.chars[a], other.chars[b]):
                    continue
                seen.add((a, b))
                waiting.append((one.follow[a], other.follow[b]))
                if a in one.last:
                    longer |= other.leads_of(other.follow[b])
                if b in other.last:
                    shorter |= one.leads_of(one.follow[a])
                same = same or (a in one.last and b in other.last)
    return Clash(longer, shorter, same)


def _clash_of_words(one: Piece, word: str, other: Piece, other_word: str) -> Clash:
    if word == other_word:
        return Clash(0, 0, True)
    if other_word.startswith(word):
        return Clash(other.leads[len(word)], 0, False)
    if word.startswith(other_word):
        return Clash(0, one.leads[len(other_word)], False)
    return NO_CLASH


def _overlap(one: Ranges, other: Ranges) -> bool:
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][1] < other[j][0]:
            i += 1
        elif other[j][1] < one[i][0]:
            j += 1
        else:
            return True
    return False


class Clashes:
    """`clash` of two kinds of pieces, cached."""

    def __init__(self, pieces: Callable[[str], Piece], budget: Budget) -> None:
        self.pieces, self.budget = pieces, budget
        self._known: dict[tuple[str, str], Clash] = {}

    def __call__(self, one: str, other: str) -> Clash:
        found = self._known.get((one, other))
        if found is None:
            found = clash(self.pieces(one), self.pieces(other), self.budget)
            self._known[one, other] = found
        return found
