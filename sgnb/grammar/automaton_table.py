"""A compressed automaton in readable lines: transitions, and the allowed tokens at each choice.

Lines show whole characters: a character that spans several edges belongs to its last edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .automaton.compressed import Edge
from .automaton.dfa import START
from .compiler import CompiledGrammar
from .grammar_warnings import Encoder
from .masks import TokenMasks
from .vocabulary import Vocabulary

BEYOND_ASCII = "[not ASCII]"
ALL_BEYOND_ASCII = 0x110000 - 0x800 - 0x80
"""Number of all characters beyond ASCII, without surrogates."""

SOME_TOKENS = 6
PARTS_SHOWN = 2


class VocabularyEncoder(Encoder, Protocol):
    """An encoder with access to the vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary: ...


Path = tuple[str, ...]
"""Bytes as latin-1 strings, alternately: a choice, as (first, last) pairs of ranges, or "" without
a choice; then the forced bytes."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition between states of the compressed automaton."""

    start: int
    target: int
    text: str  # characters of the choice in brackets, then the forced text in quotes
    part: str  # label of the part of the pattern or schema
    forced: bool  # True for the only transition from `start`
    final: bool  # True if the text may end at `target`
    paths: tuple[Path, ...]  # alternative byte paths to `target`


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """The tokens allowed in a state."""

    state: int
    count: int
    some: tuple[bytes, ...]  # texts of the tokens with the lowest ids


def lines(grammar: CompiledGrammar, most: int | None = None) -> list[Transition]:
    """Return the transitions of the compressed automaton, breadth first; empty without an
    automaton.

    Args:
        grammar: compiled grammar.
        most: approximate limit on the number of transitions; None for all.
    """
    if grammar.automaton is None:
        return []
    ways: dict[int, list[Edge]] = {}
    for edge in grammar.compressed.edges():
        ways.setdefault(edge.source, []).append(edge)
    final, result = grammar.automaton.final, list[Transition]()
    queue, visited = [(START, b"")], {(START, b"")}
    pieces: dict[tuple[Any, ...], Piece] = {}

    for state, begun in queue:
        if most is not None and len(result) >= most:
            break
        for (target, text, remainder), found_paths in _from(ways, state, begun, pieces).items():
            first = found_paths[0][0]
            part = ", ".join(first[0].labels[:PARTS_SHOWN])
            forced = all(len(ways[edge.source]) == 1 and not edge.data for edge in first)
            paths = tuple(path for _, path in found_paths)
            transition = Transition(
                start=state,
                target=target,
                text=text,
                part=part,
                forced=forced,
                final=bool(final[target]),
                paths=paths,
            )
            result.append(transition)
            if (target, remainder) not in visited:
                visited.add((target, remainder))
                queue.append((target, remainder))

    return result


def joint_texts(edges: Sequence[Transition]) -> list[str]:
    """Return the texts of `edges` for a drawing, with parallel lines joined.

    `[^a]` stands for all characters except some; the joined line beyond ASCII gets "".

    Args:
        edges: lines of an automaton.
    """
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
    grammar: CompiledGrammar, tokenizer: VocabularyEncoder, states: Iterable[int]
) -> list[AllowedTokens]:
    """Return the allowed tokens in each of the states; empty without an automaton.

    Args:
        grammar: compiled grammar.
        tokenizer: tokenizer with a vocabulary.
        states: numbers of the automaton's states.
    """
    if grammar.automaton is None:
        return []
    vocabulary = tokenizer.vocabulary
    masks = TokenMasks(grammar.automaton, vocabulary)
    rows = []
    for state in states:
        bits = np.unpackbits(masks.mask(state).view(np.uint8), bitorder="little")
        tokens = np.flatnonzero(bits)
        some = tuple(vocabulary.pieces[i] for i in tokens[:SOME_TOKENS].tolist())
        rows.append(AllowedTokens(state, len(tokens), some))
    return rows


Piece = tuple[str, bytes, Path]
"""(text, trailing bytes of an incomplete character, bytes) of a path."""


def _from(
    ways: Mapping[int, Sequence[Edge]],
    state: int,
    begun: bytes,
    pieces: dict[tuple[Any, ...], Piece],
) -> dict[tuple[int, str, bytes], list[tuple[Sequence[Edge], Path]]]:
    """Return (target, text, remainder) -> paths that complete at least a character.

    `begun`: leading bytes of a character before `state`; `remainder`: the same before `target`;
    `pieces`: memo for edges with equal bytes.
    """
    groups: dict[tuple[int, str, bytes], list[tuple[Sequence[Edge], Path]]] = {}
    for path in _paths(ways, state, (), begun):
        key = begun, *[(edge.data, edge.forced) for edge in path]
        if key not in pieces:
            pieces[key] = _piece(path, begun)
        text, remainder, byte_path = pieces[key]
        groups.setdefault((path[-1].target, text, remainder), []).append((path, byte_path))
    return groups


def _paths(
    ways: Mapping[int, Sequence[Edge]], state: int, prefix: tuple[Edge, ...], data: bytes
) -> Iterator[tuple[Edge, ...]]:
    """Yield continuations of `prefix`, whose bytes are `data`, up to the end of a character."""
    for edge in ways.get(state, ()):
        path, more = (*prefix, edge), data + _first(edge) + edge.forced
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
    """Return the number of texts of `path`."""
    sizes = [
        sum(ord(high) - ord(low) + 1 for low, high in zip(part[::2], part[1::2], strict=True))
        for part in path[::2]
    ]
    return math.prod(size for size in sizes if size)


def _but(ranges: str) -> str:
    """Return `[^...]` with the ASCII characters outside of `ranges`."""
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    inside = {byte for low, high in pairs for byte in range(ord(low), ord(high) + 1)}
    runs: list[tuple[int, int]] = []
    for byte in range(0x80):
        if byte not in inside:
            first = runs.pop()[0] if runs and runs[-1][1] == byte - 1 else byte
            runs.append((first, byte))
    return f"[^{''.join(_range(*run) for run in runs)}]"


def _bytes(path: Sequence[Edge]) -> bytes:
    """Return an example text of the edges."""
    return b"".join(_first(edge) + edge.forced for edge in path)


def _text(whole: str, begun: bytes, path: Sequence[Edge]) -> str:
    """Describe `whole`, an example text of `path` after `begun`: forced text in quotes, choices in
    brackets."""
    choices: dict[int, Edge] = {}
    offset = len(begun)
    for edge in path:
        if not _is_single(edge):
            choices[offset] = edge
        offset += len(_first(edge) + edge.forced)
    parts, forced, offset = [], "", 0

    for character in whole:
        end = offset + len(character.encode())
        chosen = [choices[at] for at in range(offset, end) if at in choices]
        if chosen:
            ranges = "".join(_range(low, high) for low, high in chosen[0].data)
            parts += [repr(forced)] if forced else []
            parts.append(f"[{ranges}]" if character.isascii() else BEYOND_ASCII)
        forced, offset = "" if chosen else forced + character, end
    return " ".join([*parts, repr(forced)] if forced else parts)


def _first(edge: Edge) -> bytes:
    return bytes([edge.data[0][0]]) if edge.data else b""


def _is_single(edge: Edge) -> bool:
    """True if the edge has exactly one text."""
    return not edge.data or (len(edge.data) == 1 and edge.data[0][0] == edge.data[0][1])


def _range(low: int, high: int) -> str:
    first, last = (
        repr(chr(byte))[1:-1].replace("]", "\\]").replace("-", "\\-") for byte in (low, high)
    )
    return first if low == high else f"{first}{last}" if high == low + 1 else f"{first}-{last}"
