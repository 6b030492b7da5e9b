"""What to beware of in a grammar: parts that can go on for ever, texts that begin one another or
share a first token.

Pure functions over an automaton. Knows a tokenizer only as `Writer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Protocol

from .automaton.automaton import DEAD, Automaton
from .automaton.dfa import START

FEW_TEXTS = 32
"""Up to so many texts a grammar is a choice between them, which is worth comparing them for."""

SHOWN = 5
"""So many parts or pairs are named; the others are counted."""

_BEGINS = {
    False: "after it ending and going on compete",
    True: "their scores are over the same tokens up to there",
}
_SHARE = {
    False: "it gets the probability of all of them, and the model chooses between them only after it",
    True: "only what follows it tells them apart",
}
"""What comes of it when texts are written token by token (False) or scored as a whole (True)."""

_DIGITS = frozenset(b"0123456789")


Labelled = Mapping[tuple[int, int], frozenset[str]]
"""Edges, as (state, next state), and their labels."""


class Writer(Protocol):
    """What is asked of a tokenizer: the tokens for bytes that continue a text, and the bytes of a
    token."""

    def write(self, data: bytes) -> Sequence[int]: ...

    def piece(self, token: int) -> bytes: ...


def readable(text: str) -> str:
    """`text` with escapes in place of line breaks and of all that does not show or changes how the
    rest is shown."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def endless(automaton: Automaton, kind: str, stops: Collection[str] = ()) -> list[str]:
    """One line for each part in which the text can go on for ever; `kind` is the grammar's, which
    says how to bound it.

    Such a part is a cycle of states, from which a final state can be reached but never has to be.
    Not one that some of the `stops` would end at its first character.
    """
    found: dict[str, None] = {}
    ends = {stop.encode()[0] for stop in stops if len(stop.encode()) == 1}
    for cycle in cycles(automaton):
        bytes_ = _bytes_inside(automaton, cycle)
        if not bytes_ <= ends:
            found |= dict.fromkeys(_endless_lines(automaton, cycle, kind, bytes_ <= _DIGITS))
    return _cut(list(found), "parts that can go on for ever")


def collisions(automaton: Automaton, writer: Writer | None = None) -> list[str]:
    """Of a grammar of few texts: those that begin another, and with a `writer` those that share
    their first token."""
    texts = all_texts(automaton, FEW_TEXTS)
    return (
        []
        if texts is None
        else compare(texts, [writer.write(t) for t in texts] if writer else [], writer)
    )


def compare(
    texts: Sequence[bytes],
    tokens: Sequence[Sequence[int]] = (),
    writer: Writer | None = None,
    *,
    scored: bool = False,
) -> list[str]:
    """As `collisions`, for these texts and the `tokens` of each (none: only their letters are
    compared).

    scored: each text is scored as a whole, as in a select, and not written token by token.
    """
    lines = [
        f"{_shown(short)} begins {_shown(long)}: {_BEGINS[scored]}; give each an end of its own"
        for short, long in _beginnings(sorted(texts))
    ]
    if tokens and writer is not None:
        common = _common_length(tokens)
        first = sorted(
            (ids[common], text)
            for ids, text in zip(tokens, texts, strict=True)
            if len(ids) > common
        )
        for token, group in groupby(first, key=itemgetter(0)):
            sharing = [_shown(text) for _, text in group]
            if len(sharing) > 1:
                names = ", ".join(sharing[:3]) + (", ..." if len(sharing) > 3 else "")
                lines.append(
                    f"{names} share the token {_shown(writer.piece(token))}: {_SHARE[scored]}"
                )
    return _cut(lines, "texts that collide")


def all_texts(automaton: Automaton, limit: int) -> list[bytes] | None:
    """Every text of the grammar, sorted, or None if there are more than `limit`."""
    if cycles(automaton):
        return None
    texts: list[bytes] = []
    paths = [(START, b"")]
    while paths:
        state, text = paths.pop()
        if automaton.final[state]:
            texts.append(text)
        paths += [
            (automaton.step(state, bytes([byte])), text + bytes([byte]))
            for byte in automaton.next_bytes(state)
        ]
        if len(texts) + len(paths) > limit:  # every path leads to a text of its own
            return None
    return sorted(texts)


def cycles(automaton: Automaton) -> list[set[int]]:
    """The strongly connected sets of states that have a way round."""
    rows = enumerate(automaton.table.tolist())
    return _components({state: set(row) - {DEAD} for state, row in rows if state != DEAD})


def _components(targets: Mapping[int, set[int]]) -> list[set[int]]:
    """The strongly connected sets of a graph that have a way round. By Tarjan, without
    recursion."""
    found = []
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    work: list[tuple[int, Iterator[int]]] = []

    def enter(state: int) -> None:
        number[state] = low[state] = len(number)
        path.append(state)
        on_path.add(state)
        work.append((state, iter(targets.get(state, ()))))

    def leave(state: int) -> None:
        component: set[int] = set()
        while state not in component:
            component.add(path.pop())
        on_path.difference_update(component)
        if len(component) > 1 or state in targets.get(state, ()):
            found.append(component)

    for root in targets:
        if root not in number:
            enter(root)
        while work:
            state, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[state])
                if low[state] == number[state]:
                    leave(state)
            elif target not in number:
                enter(target)
            elif target in on_path:
                low[state] = min(low[state], number[target])
    return found


def _endless_lines(automaton: Automaton, cycle: set[int], kind: str, digits: bool) -> list[str]:
    edges = {edge: _labels(automaton, edge) for edge in _edges_inside(automaton, cycle)}
    if kind == "json_schema":
        parts = _unbounded(edges, digits)
        return [
            f"{readable(part)} has no {cure}; the text can go on until max_tokens"
            for part, cure in parts
        ]
    labels = sorted({label for labels in edges.values() for label in labels})
    alone = [label for label in labels if _components(_graph(edges, {label}))]
    around = "a part with " + " and ".join(labels[:2]) if labels else "a part"
    how = "can be repeated for ever; the text can go on until max_tokens: bound it, as in {0,40}"
    return [f"{readable(part)} {how}" for part in alone or [around]]


def _unbounded(edges: Labelled, digits: bool) -> Iterator[tuple[str, str]]:
    """(path, the keyword that would bound it) of the values of a schema that go round on their own
    edges."""
    labels = sorted({label for labels in edges.values() for label in labels})
    for label in labels:
        inside = {
            other
            for other in labels
            if other == label or other.startswith((label + ".", label + "["))
        }
        for component in _components(_graph(edges, inside)):
            used = {
                other
                for edge, others in edges.items()
                if component.issuperset(edge)
                for other in others & inside
            }
            if label in used:
                yield (
                    label,
                    "maxItems or maxProperties"
                    if len(used) > 1
                    else "maximum"
                    if digits
                    else "maxLength",
                )
    if not labels:
        yield "the text", "bound"


def _graph(edges: Labelled, labels: set[str]) -> dict[int, set[int]]:
    """The edges that have one of the labels, as state -> next states."""
    graph: dict[int, set[int]] = {}
    for (state, target), own in edges.items():
        if own & labels:
            graph.setdefault(state, set()).add(target)
    return graph


def _edges_inside(automaton: Automaton, cycle: set[int]) -> Iterator[tuple[int, int]]:
    for state in cycle:
        for target in set(automaton.table[state].tolist()) & cycle:
            yield state, target


def _labels(automaton: Automaton, edge: tuple[int, int]) -> frozenset[str]:
    return frozenset(automaton.labels[id] for id in automaton.sources.get(edge, ()))


def _bytes_inside(automaton: Automaton, cycle: set[int]) -> set[int]:
    return {
        byte
        for state in cycle
        for byte in automaton.next_bytes(state)
        if automaton.step(state, bytes([byte])) in cycle
    }


def _beginnings(texts: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Of sorted texts, each that begins a later one, with the next such."""
    for short, long in pairwise(texts):
        if long.startswith(short):
            yield short, long


def _common_length(tokens: Sequence[Sequence[int]]) -> int:
    length = min(map(len, tokens), default=0)
    return next((i for i in range(length) if len({t[i] for t in tokens}) > 1), length)


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="replace"))


def _cut(lines: list[str], what: str) -> list[str]:
    hidden = len(lines) - SHOWN
    return lines if hidden <= 0 else [*lines[:SHOWN], f"and {hidden} more {what}"]
