"""A compressed automaton as lines for people: its transitions, and the tokens at each choice.

Characters are whole here: one that spans several edges is shown with the edge that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .advice import Encoder
from .automaton.compressed import Edge
from .automaton.dfa import START
from .compiler import CompiledGrammar
from .masks import TokenMasks
from .vocabulary import Vocabulary

BEYOND_ASCII = "[not ASCII]"

SOME_TOKENS = 6
PARTS_SHOWN = 2


class Tokenizer(Encoder, Protocol):
    """An encoder whose tokens can be listed."""

    @property
    def vocabulary(self) -> Vocabulary: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A transition between states of the compressed automaton."""

    start: int
    target: int
    text: str  # one of the characters in brackets, then what is forced, in quotes
    part: str  # of the pattern or schema that it comes from
    forced: bool  # whether it is the only transition from `start`
    final: bool  # whether the text may end at `target`


@dataclass(frozen=True, slots=True)
class Allowed:
    """The tokens that a state allows."""

    state: int
    count: int
    some: tuple[bytes, ...]  # those with the lowest ids


def lines(grammar: CompiledGrammar) -> list[Line]:
    """The compressed automaton, breadth first; nothing without an automaton."""
    if grammar.automaton is None:
        return []
    ways: dict[int, list[Edge]] = {}
    for edge in grammar.compressed.edges():
        ways.setdefault(edge.source, []).append(edge)
    final, found = grammar.automaton.final, []
    queue, seen = [(START, b"")], {(START, b"")}
    for state, begun in queue:
        for (target, text, rest), (part, forced) in _from(ways, state, begun).items():
            found.append(Line(state, target, text, part, forced, bool(final[target])))
            if (target, rest) not in seen:
                seen.add((target, rest))
                queue.append((target, rest))
    return found


def allowed_tokens(
    grammar: CompiledGrammar, tokenizer: Tokenizer, states: Iterable[int]
) -> list[Allowed]:
    """The tokens that may follow in each of the `states`; nothing without an automaton."""
    if grammar.automaton is None:
        return []
    vocabulary = tokenizer.vocabulary
    masks = TokenMasks(grammar.automaton, vocabulary)
    rows = []
    for state in states:
        bits = np.unpackbits(masks.mask(state).view(np.uint8), bitorder="little")
        tokens = np.flatnonzero(bits)
        some = tuple(vocabulary.pieces[i] for i in tokens[:SOME_TOKENS].tolist())
        rows.append(Allowed(state, len(tokens), some))
    return rows


def _from(
    ways: Mapping[int, Sequence[Edge]], state: int, begun: bytes
) -> dict[tuple[int, str, bytes], tuple[str, bool]]:
    """(target, text, rest) -> (part, forced) of each path that ends a character or more.

    begun: the first bytes, before `state`, of a character. rest: the same before `target`.
    """
    found: dict[tuple[int, str, bytes], tuple[str, bool]] = {}
    for path in _paths(ways, state, (), begun):
        data = begun + _bytes(path)
        whole = data.decode(errors="ignore")
        part = ", ".join(path[0].labels[:PARTS_SHOWN])
        forced = all(len(ways[edge.source]) == 1 and not edge.data for edge in path)
        rest = data[len(whole.encode()) :]
        found.setdefault((path[-1].target, _text(whole, begun, path), rest), (part, forced))
    return found


def _paths(
    ways: Mapping[int, Sequence[Edge]], state: int, before: tuple[Edge, ...], begun: bytes
) -> Iterator[tuple[Edge, ...]]:
    """The continuations of `before`, up to the end of the character that `begun` begins."""
    for edge in ways.get(state, ()):
        path = (*before, edge)
        if (begun + _bytes(path)).decode(errors="ignore"):
            yield path
        else:
            yield from _paths(ways, edge.target, path, begun)


def _bytes(path: Sequence[Edge]) -> bytes:
    """One of the texts of the edges."""
    return b"".join(_first(edge) + edge.forced for edge in path)


def _text(whole: str, begun: bytes, path: Sequence[Edge]) -> str:
    """`whole`, one of the texts of `path` after `begun`: in quotes where there is no other."""
    choices: dict[int, Edge] = {}
    place = len(begun)
    for edge in path:
        if not _is_single(edge):
            choices[place] = edge
        place += len(_first(edge) + edge.forced)
    parts, forced, place = [], "", 0
    for character in whole:
        end = place + len(character.encode())
        chosen = [choices[at] for at in range(place, end) if at in choices]
        if chosen:
            ranges = "".join(_range(low, high) for low, high in chosen[0].data)
            parts += [repr(forced)] if forced else []
            parts.append(f"[{ranges}]" if character.isascii() else BEYOND_ASCII)
        forced, place = "" if chosen else forced + character, end
    return " ".join([*parts, repr(forced)] if forced else parts)


def _first(edge: Edge) -> bytes:
    return bytes([edge.data[0][0]]) if edge.data else b""


def _is_single(edge: Edge) -> bool:
    """Whether the edge has one text only."""
    return not edge.data or (len(edge.data) == 1 and edge.data[0][0] == edge.data[0][1])


def _range(low: int, high: int) -> str:
    first, last = (
        repr(chr(byte))[1:-1].replace("]", "\\]").replace("-", "\\-") for byte in (low, high)
    )
    return first if low == high else f"{first}{last}" if high == low + 1 else f"{first}-{last}"
