"""Conversion of compiled grammars (`grammar`) to drawing events (`events`). Draws nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from ..events import AutomatonDrawn
from ..grammar.automaton.dfa import START
from ..grammar.automaton_table import VocabularyEncoder, allowed_tokens, joint_texts, lines
from ..grammar.compiler import CompiledGrammar
from ..grammar.layout import layout

LARGEST = 20_000
"""Maximum number of byte-level states of a drawing: about a second for the slowest automaton."""
EDGES, BYTES = 6_000, 200_000
"""Approximate limit of edges, and limit of bytes on distinct edges, of a drawing: 500 kB."""
SOURCE, PART, TEXT = 2_000, 80, 200
"""Maximum characters of a pattern or schema, of a part's name, and of an edge label."""
COUNTED = 500
"""Maximum number of states with counted tokens."""

T = TypeVar("T", bound=Hashable)


def drawing(
    grammar: CompiledGrammar, tokenizer: VocabularyEncoder | None = None
) -> AutomatonDrawn | None:
    """Return the layout of a grammar's automaton.

    Args:
        grammar: Compiled grammar.
        tokenizer: Tokenizer to count the allowed tokens per state, or None.

    Returns:
        The layout; None without an automaton or for an oversized automaton.
    """
    automaton = grammar.automaton
    if automaton is None or automaton.states > LARGEST:
        return None

    edges = lines(grammar, EDGES)
    states = _numbered([START, *(end for line in edges for end in (line.start, line.target))])
    texts = joint_texts(edges)
    labels = [(text[:TEXT], line.paths) for text, line in zip(texts, edges, strict=True)]
    ways = _numbered(labels)
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
        ways=tuple(ways[way] for way in labels),
        parts=tuple(parts[line.part[:PART]] for line in edges),
        tracks=tuple(tracks),
        texts=tuple(text for text, _ in ways),
        paths=tuple(paths for _, paths in ways),
        part_names=tuple(parts),
        allowed=tuple(row.count for row in counted),
    )


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """Number the distinct values in order of appearance."""
    return {value: i for i, value in enumerate(dict.fromkeys(values))}
