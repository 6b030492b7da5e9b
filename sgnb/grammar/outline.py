"""A compressed automaton as lines for a person: what each edge forces or allows, and the tokens at each choice.

Characters are whole here: the states inside a character of several bytes are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .advice import Writer
from .automaton.compressed import Edge
from .automaton.dfa import START
from .compiler import CompiledGrammar
from .masks import TokenMasks
from .vocabulary import Vocabulary

BEYOND_ASCII = "[not ASCII]"

SOME_TOKENS = 6
PARTS_SHOWN = 2


class Tokenizer(Writer, Protocol):
    """A writer whose tokens can be listed."""

    @property
    def vocabulary(self) -> Vocabulary: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A way from state to state: `text` is one of the characters in brackets, then what is forced, in quotes.

    part: of the pattern or schema that it comes from. forced: there is no other way. final: the text may end there.
    """

    start: int
    target: int
    text: str
    part: str
    forced: bool
    final: bool


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many tokens may follow in a state, and some of them, those with the lowest ids."""

    state: int
    count: int
    some: tuple[bytes, ...]


def lines(grammar: CompiledGrammar) -> list[Line]:
    """The compressed automaton from the start on, nearest first; nothing without an automaton."""
    if grammar.automaton is None:
        return []
    ways: dict[int, list[Edge]] = {}
    for edge in grammar.compressed.edges():
        ways.setdefault(edge.source, []).append(edge)
    final, found = grammar.automaton.final, []
    queue, seen = [START], {START}
    for state in queue:
        for target, text, part in _from(ways, state):
            forced = len(ways[state]) == 1 and not ways[state][0].data
            found.append(Line(state, target, text, part, forced, bool(final[target])))
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return found


def allowed_tokens(grammar: CompiledGrammar, tokenizer: Tokenizer, states: Iterable[int]) -> list[Allowed]:
    """The tokens that may follow in each of the `states`; nothing without an automaton."""
    if grammar.automaton is None:
        return []
    vocabulary = tokenizer.vocabulary
    masks = TokenMasks(grammar.automaton, vocabulary)
    rows = []
    for state in states:
        bits = np.unpackbits(masks.mask(state).view(np.uint8), bitorder="little")
        tokens = np.flatnonzero(bits)
        rows.append(Allowed(state, len(tokens), tuple(vocabulary.pieces[i] for i in tokens[:SOME_TOKENS].tolist())))
    return rows


def _from(ways: dict[int, list[Edge]], state: int) -> Iterator[tuple[int, str, str]]:
    """(target, text, part) of each way from a state to the end of a character."""
    beyond: dict[tuple[int, str], tuple[str, ...]] = {}
    for edge in ways.get(state, ()):
        begun = _first(edge) + edge.forced
        if _is_whole(begun):
            yield edge.target, _text(edge), ", ".join(edge.labels[:PARTS_SHOWN])
        else:
            beyond |= dict.fromkeys(_ends(ways, edge.target, begun, _is_single(edge)), edge.labels)
    for (target, text), labels in beyond.items():
        yield target, text, ", ".join(labels[:PARTS_SHOWN])


def _ends(ways: dict[int, list[Edge]], state: int, begun: bytes, single: bool) -> Iterator[tuple[int, str]]:
    """(target, text) of each way from inside a character to its end. `single`: `begun` is the only way there."""
    for edge in ways.get(state, ()):
        more, alone = begun + _first(edge) + edge.forced, single and _is_single(edge)
        if not _is_whole(more):
            yield from _ends(ways, edge.target, more, alone)
        elif alone:
            yield edge.target, _quoted(more)
        else:
            after = more.decode()[len(begun.decode(errors="ignore")) + 1 :].encode()
            yield edge.target, BEYOND_ASCII + (f" {_quoted(after)}" if after else "")


def _first(edge: Edge) -> bytes:
    return bytes([edge.data[0][0]]) if edge.data else b""


def _is_single(edge: Edge) -> bool:
    """Whether the edge stands for one text only."""
    return not edge.data or (len(edge.data) == 1 and edge.data[0][0] == edge.data[0][1])


def _is_whole(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(edge: Edge) -> str:
    if _is_single(edge):
        return _quoted(_first(edge) + edge.forced)
    ranges = "".join(_range(low, high) for low, high in edge.data)
    return f"[{ranges}]" + (f" {_quoted(edge.forced)}" if edge.forced else "")


def _range(low: int, high: int) -> str:
    first, last = (repr(chr(byte))[1:-1].replace("]", "\\]").replace("-", "\\-") for byte in (low, high))
    return first if low == high else f"{first}{last}" if high == low + 1 else f"{first}-{last}"


def _quoted(text: bytes) -> str:
    return repr(text.decode())
