"""A compressed automaton as lines for people: its transitions, and the tokens at each choice.

Characters are whole here: one that spans several edges is shown with the edge that ends it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .advice import Encoder
from .automaton.compressed import Edge
from .automaton.dfa import START
from .compiler import CompiledGrammar
from .masks import TokenMasks
from .vocabulary import Vocabulary

BEYOND_ASCII = "[not ASCII]"
ALL_BEYOND_ASCII = 0x110000 - 0x800 - 0x80
"""How many characters that is, if it is all of them."""

SOME_TOKENS = 6
PARTS_SHOWN = 2


class Tokenizer(Encoder, Protocol):
    """An encoder whose tokens can be listed."""

    @property
    def vocabulary(self) -> Vocabulary: ...


Path = tuple[str, ...]
"""Bytes in turn, as latin-1: those that may come next, as pairs of the first and the last of a
range, or "" where none may be chosen; then those that are forced; and so on."""


@dataclass(frozen=True, slots=True)
class Line:
    """A transition between states of the compressed automaton."""

    start: int
    target: int
    text: str  # one of the characters in brackets, then what is forced, in quotes
    part: str  # of the pattern or schema that it comes from
    forced: bool  # whether it is the only transition from `start`
    final: bool  # whether the text may end at `target`
    paths: tuple[Path, ...]  # the bytes that lead to `target`: one of them


@dataclass(frozen=True, slots=True)
class Allowed:
    """The tokens that a state allows."""

    state: int
    count: int
    some: tuple[bytes, ...]  # those with the lowest ids


def lines(grammar: CompiledGrammar, most: int | None = None) -> list[Line]:
    """The compressed automaton, breadth first, with `most` about so many transitions; nothing
    without an automaton."""
    if grammar.automaton is None:
        return []
    ways: dict[int, list[Edge]] = {}
    for edge in grammar.compressed.edges():
        ways.setdefault(edge.source, []).append(edge)
    final, found = grammar.automaton.final, list[Line]()
    queue, seen = [(START, b"")], {(START, b"")}
    known: dict[tuple[Any, ...], Piece] = {}
    for state, begun in queue:
        if most is not None and len(found) >= most:
            break
        for (target, text, rest), found_paths in _from(ways, state, begun, known).items():
            first = found_paths[0][0]
            part = ", ".join(first[0].labels[:PARTS_SHOWN])
            forced = all(len(ways[edge.source]) == 1 and not edge.data for edge in first)
            paths = tuple(path for _, path in found_paths)
            found.append(Line(state, target, text, part, forced, bool(final[target]), paths))
            if (target, rest) not in seen:
                seen.add((target, rest))
                queue.append((target, rest))
    return found


def joint_texts(edges: Sequence[Line]) -> list[str]:
    """The texts of lines for a drawing, where those with the same ends stand together: `[^a]` for
    all characters but some, with "" for the line that adds those beyond ASCII."""
    texts = [line.text for line in edges]
    ascii_, beyond = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for i, line in enumerate(edges):
        if line.text == BEYOND_ASCII and sum(map(_characters, line.paths)) == ALL_BEYOND_ASCII:
            beyond[line.start, line.target] = i
        elif len(line.paths) == 1 and len(line.paths[0]) == 2 and not line.paths[0][1]:
            ascii_[line.start, line.target] = i
    for ends in ascii_.keys() & beyond.keys():
        text = _but(edges[ascii_[ends]].paths[0][0])
        if len(text) < len(edges[ascii_[ends]].text) + len(" | "):
            texts[ascii_[ends]], texts[beyond[ends]] = text, ""
    return texts


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


Piece = tuple[str, bytes, Path]
"""A path's text, the first bytes at its end of a character that it leaves open, and its bytes."""


def _from(
    ways: Mapping[int, Sequence[Edge]],
    state: int,
    begun: bytes,
    known: dict[tuple[Any, ...], Piece],
) -> dict[tuple[int, str, bytes], list[tuple[Sequence[Edge], Path]]]:
    """(target, text, rest) -> the paths that end there with a character or more.

    begun: the first bytes, before `state`, of a character. rest: the same before `target`. known:
    what was found for edges alike.
    """
    found: dict[tuple[int, str, bytes], list[tuple[Sequence[Edge], Path]]] = {}
    for path in _paths(ways, state, (), begun):
        key = begun, *[(edge.data, edge.forced) for edge in path]
        if key not in known:
            known[key] = _piece(path, begun)
        text, rest, own = known[key]
        found.setdefault((path[-1].target, text, rest), []).append((path, own))
    return found


def _paths(
    ways: Mapping[int, Sequence[Edge]], state: int, before: tuple[Edge, ...], data: bytes
) -> Iterator[tuple[Edge, ...]]:
    """The continuations of `before`, whose bytes are `data`, up to the end of a character."""
    for edge in ways.get(state, ()):
        path, more = (*before, edge), data + _first(edge) + edge.forced
        if more.decode(errors="ignore"):
            yield path
        else:
            yield from _paths(ways, edge.target, path, more)


def _piece(path: Sequence[Edge], begun: bytes) -> Piece:
    data = begun + _bytes(path)
    whole = data.decode(errors="ignore")
    return _text(whole, begun, path), data[len(whole.encode()) :], _path(path)


def _path(edges: Sequence[Edge]) -> Path:
    parts = []
    for edge in edges:
        parts += [bytes(byte for pair in edge.data for byte in pair), edge.forced]
    return tuple(part.decode("latin-1") for part in parts)


def _characters(path: Path) -> int:
    """Of how many texts it is the path."""
    sizes = [
        sum(ord(high) - ord(low) + 1 for low, high in zip(part[::2], part[1::2], strict=True))
        for part in path[::2]
    ]
    return math.prod(size for size in sizes if size)


def _but(ranges: str) -> str:
    """All characters but the ASCII ones outside of the ranges."""
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    inside = {byte for low, high in pairs for byte in range(ord(low), ord(high) + 1)}
    runs: list[tuple[int, int]] = []
    for byte in range(0x80):
        if byte not in inside:
            first = runs.pop()[0] if runs and runs[-1][1] == byte - 1 else byte
            runs.append((first, byte))
    return f"[^{''.join(_range(*run) for run in runs)}]"


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
