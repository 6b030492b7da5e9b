"""Overlap of two regular pieces at the same position: continuations of a piece after the end of
another.

Results are sets of bytes. They may be too large (counts and differences are over-approximated),
never too small. Uses Glushkov's position automata (1961). Knows no rules and no library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from ...errors import GrammarError
from ..syntax import (
    Alternate,
    Chars,
    Concatenate,
    Literal,
    Node,
    Ranges,
    Reference,
    Repeat,
    children,
)

MOST_POSITIONS = 150_000
"""Maximum number of positions per piece; a position takes a few hundred bytes."""


class WorkBudget:
    """Work limit for the analysis, which is quadratic in the pieces at a position. Equal on all
    machines.

    Args:
        limit: steps, of about a microsecond each.
    """

    def __init__(self, limit: int) -> None:
        self._remaining = limit

    def spend(self, steps: int) -> None:
        """Count work.

        Args:
            steps: estimated microseconds of the next step.

        Raises:
            GrammarError: the work exceeds the limit.
        """
        self._remaining -= steps
        if self._remaining < 0:
            self.refuse()

    def refuse(self) -> NoReturn:
        problem = "the grammar is too large for llguidance"
        raise GrammarError(
            f"{problem}: too many options at a position",
            "fewer rules, fewer options, or fewer optional properties in an object",
        )


@dataclass(slots=True)
class Piece:
    """Position automaton of a regular tree."""

    nullable: bool = False
    chars: list[Ranges] = field(default_factory=list)  # characters of each position
    # first bytes of each position, as in `lead_bytes`
    leads: list[int] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)  # next positions of each position
    first: set[int] = field(default_factory=set)
    word: str | None = None  # the text, if the piece has only one
    last: set[int] = field(default_factory=set)

    @property
    def lead(self) -> int:
        return self.leads_of(self.first)

    def leads_of(self, positions: set[int]) -> int:
        leads = 0
        for position in positions:
            leads |= self.leads[position]
        return leads


@dataclass(frozen=True, slots=True)
class Clash:
    """Overlap of two pieces at the same position."""

    longer: int  # first bytes of the second piece after an end of the first
    shorter: int  # first bytes of the first piece after an end of the second
    same: bool  # True if a text may belong to both


NO_CLASH = Clash(0, 0, False)


@lru_cache(4096)
def lead_bytes(ranges: Ranges) -> int:
    """Return the first UTF-8 bytes of the characters, as an int with bit b for byte b.

    Args:
        ranges: characters.
    """
    bits = 0
    for low, high in ranges:
        first, last = chr(low).encode()[0], chr(high).encode()[0]
        bits |= (2 << last) - (1 << first)
    return bits


def piece(node: Node, rule: Callable[[str], Node], budget: WorkBudget) -> Piece:
    """Return the position automaton of a tree with rules inlined.

    Args:
        node: regular tree.
        rule: returns the tree of a rule.
        budget: limit of the work.
    """
    return _PieceBuilder(rule, budget).build(node)


Part = tuple[bool, set[int], set[int]]


class _PieceBuilder:
    def __init__(self, rule: Callable[[str], Node], budget: WorkBudget) -> None:
        self.rule, self.budget, self.piece = rule, budget, Piece()

    def build(self, node: Node) -> Piece:
        self.piece.word = node.text if isinstance(node, Literal) else None
        self.piece.nullable, self.piece.first, self.piece.last = self.part(node)
        return self.piece

    def part(self, node: Node) -> Part:
        self.budget.spend(1)

        match node:
            case Literal(text):
                return self.words([text])
            case Chars(ranges):
                position = self.add_position(ranges)
                return False, {position}, {position}
            case Reference(name):
                return self.part(self.rule(name))
            case Concatenate(parts):
                return self.sequence(parts)
            case Alternate(options):
                words = [option.text for option in options if isinstance(option, Literal)]
                pieces = [
                    self.part(option) for option in options if not isinstance(option, Literal)
                ]
                pieces += [self.words(words)] if words else []
                firsts, lasts = [first for _, first, _ in pieces], [last for _, _, last in pieces]
                nullable = any(empty for empty, _, _ in pieces)
                return nullable, set().union(*firsts), set().union(*lasts)
            case Repeat(inner, least, most):
                nullable, first, last = self.part(inner)
                if most != 1:
                    self.join(last, first)
                return nullable or least == 0, first, last

        return self.part(children(node)[0])

    def add_position(self, ranges: Ranges) -> int:
        if len(self.piece.chars) >= MOST_POSITIONS:
            self.budget.refuse()
        self.piece.chars.append(ranges)
        self.piece.leads.append(lead_bytes(ranges))
        self.piece.follow.append(set())
        return len(self.piece.chars) - 1

    def join(self, sources: set[int], targets: set[int]) -> None:
        self.budget.spend(len(sources) * len(targets))
        for position in sources:
            self.piece.follow[position] |= targets

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
        """Add the words as a trie, so 10,000 choices do not cause 10,000 ** 2 comparisons."""
        trie: dict[tuple[int, str], int] = {}
        first: set[int] = set()
        last: set[int] = set()

        for word in words:
            position = -1
            for char in word:
                self.budget.spend(3)
                following = trie.get((position, char))
                if following is None:
                    following = trie[position, char] = self.add_position(((ord(char), ord(char)),))
                    (first if position < 0 else self.piece.follow[position]).add(following)
                position = following
            if word:
                last.add(position)
        return "" in words, first, last


def clash(piece_a: Piece, piece_b: Piece, budget: WorkBudget) -> Clash:
    """Return the overlap of two pieces at the same position. A piece can overlap with itself.

    Args:
        piece_a: first piece.
        piece_b: second piece.
        budget: limit of the work.
    """
    budget.spend(1)
    if not piece_a.lead & piece_b.lead:
        return NO_CLASH
    if piece_a.word and piece_b.word:
        return _clash_of_words(piece_a, piece_a.word, piece_b, piece_b.word)
    longer = shorter = 0
    same = False
    visited: set[tuple[int, int]] = set()
    waiting = [(piece_a.first, piece_b.first)]
    while waiting:
        mine, theirs = waiting.pop()
        budget.spend(len(mine) * len(theirs))

        for a in mine:
            for b in theirs:
                if (a, b) in visited or not piece_a.leads[a] & piece_b.leads[b]:
                    continue
                if not _overlap(piece_a.chars[a], piece_b.chars[b]):
                    continue
                visited.add((a, b))
                waiting.append((piece_a.follow[a], piece_b.follow[b]))
                if a in piece_a.last:
                    longer |= piece_b.leads_of(piece_b.follow[b])
                if b in piece_b.last:
                    shorter |= piece_a.leads_of(piece_a.follow[a])
                same = same or (a in piece_a.last and b in piece_b.last)

    return Clash(longer, shorter, same)


def _clash_of_words(piece_a: Piece, word: str, piece_b: Piece, other_word: str) -> Clash:
    if word == other_word:
        return Clash(0, 0, True)
    if other_word.startswith(word):
        return Clash(piece_b.leads[len(word)], 0, False)
    if word.startswith(other_word):
        return Clash(0, piece_a.leads[len(other_word)], False)
    return NO_CLASH


def _overlap(a: Ranges, b: Ranges) -> bool:
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


class Clashes:
    """Memoized `clash` of two kinds of pieces.

    Args:
        pieces: returns the piece of a kind.
        budget: limit of the work.
    """

    def __init__(self, pieces: Callable[[str], Piece], budget: WorkBudget) -> None:
        self.pieces, self.budget = pieces, budget
        self._results: dict[tuple[str, str], Clash] = {}

    def __call__(self, kind_a: str, kind_b: str) -> Clash:
        result = self._results.get((kind_a, kind_b))
        if result is None:
            result = clash(self.pieces(kind_a), self.pieces(kind_b), self.budget)
            self._results[kind_a, kind_b] = result
        return result
