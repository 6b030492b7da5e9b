"""Grammars as what the views draw: joins `grammar`, which lays them out, and `events`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from ..events import AutomatonDrawn
from ..grammar.automaton.dfa import START
from ..grammar.compiler import CompiledGrammar
from ..grammar.layout import layout
from ..grammar.outline import VocabularyEncoder, allowed_tokens, joint_texts, lines

LARGEST = 20_000
"""States of an automaton, byte by byte, that is drawn: a second for the slowest of them."""
EDGES, BYTES = 6_000, 200_000
"""Edges that are drawn, about, and bytes on different ones, at most: 500 kB."""
SOURCE, PART, TEXT = 2_000, 80, 200
"""Characters kept of a pattern or schema, of the name of a part, and of what people read of an
edge."""
COUNTED = 500
"""States whose allowed tokens are counted."""

T = TypeVar("T", bound=Hashable)


def drawing(
    grammar: CompiledGrammar, tokenizer: VocabularyEncoder | None = None
) -> AutomatonDrawn | None:
    """None where there is no automaton, or one that is too large. tokenizer: counts the allowed
    tokens."""
    automaton = grammar.automaton
    if automaton is None or automaton.states > LARGEST:
        return None
    edges = lines(grammar, EDGES)
    states = _numbered([START, *(end for line in edges for end in (line.start, line.target))])
    texts = joint_texts(edges)
    own = [(text[:TEXT], line.paths) for text, line in zip(texts, edges, strict=True)]
    ways = _numbered(own)
    if sum(len(part) for _, paths in ways for path in paths for part in path) > BYTES:
        return None
    parts = _numbered(line.part[:PART] for line in edges)
    starts = [states[line.start] for line in edges]
    targets = [states[line.target] for line in edges]
    columns, rows, tracks = layout(len(states), list(zip(starts, targets, strict=True)))
    ends = [s for s in states.keys() - {line.start for line in edges} if automaton.next_bytes(s)]
    counted = allowed_tokens(grammar, tokenizer, list(states)[:COUNTED]) if tokenizer else []
    return AutomatonDrawn(
        automaton=grammar.number,
        grammar=grammar.spec.kind,
        source=grammar.spec.text[:SOURCE],
        complete=not ends,
        states=tuple(states),
        columns=tuple(columns),
        rows=tuple(rows),
        final=tuple(state for state in states if automaton.final[state]),
        starts=tuple(starts),
        targets=tuple(targets),
        ways=tuple(ways[way] for way in own),
        parts=tuple(parts[line.part[:PART]] for line in edges),
        tracks=tuple(tracks),
        texts=tuple(text for text, _ in ways),
        paths=tuple(paths for _, paths in ways),
        part_names=tuple(parts),
        allowed=tuple(row.count for row in counted),
    )


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """Each value once, in order -> its index."""
    return {value: i for i, value in enumerate(dict.fromkeys(values))}
