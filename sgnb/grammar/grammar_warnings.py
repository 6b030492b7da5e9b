"""Warnings about a grammar: unbounded parts, ambiguous choices, and mismatches at the end of the
prompt.

Pure functions over an automaton. Knows a tokenizer only as `Encoder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from operator import itemgetter
from typing import Protocol

from .automaton.automaton import DEAD, Automaton
from .automaton.dfa import START

FEW_TEXTS = 32
"""Largest number of texts that are compared with each other; such a grammar is a choice between
texts."""

SHOWN = 5
"""Maximum number of listed parts or pairs; the others are only counted."""

_BEGINS = {
    False: "after it, the end and the longer choice compete",
    True: "their scores are over the same tokens up to there",
}
_SHARE = {
    False: "the token gets the sum of their probabilities, "
    "and the model chooses a text only after it",
    True: "only later tokens distinguish the texts",
}
"""Consequence for texts that are generated token by token (False) or scored as a whole (True)."""

_BEFORE_BLANKS = (b"=", b":", b",", b";", b".", b"?", b"!")

_BLANKS = frozenset(b" \n\t")

_DIGITS = frozenset(b"0123456789")

Labelled = Mapping[tuple[int, int], frozenset[str]]
"""Edges, as (state, next state) -> labels."""


class Encoder(Protocol):
    """Minimal tokenizer interface: encode bytes that continue a text, decode a token."""

    def write(self, data: bytes) -> Sequence[int]: ...

    def piece(self, token: int) -> bytes: ...


def readable(text: str) -> str:
    """Return `text` with line breaks and all non-printable characters escaped.

    Args:
        text: text to print on a single line.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def endless(automaton: Automaton, kind: str, stops: Collection[str] = ()) -> list[str]:
    """Return a warning for each cycle of states, because a cycle lets the text continue without
    limit.

    Args:
        automaton: the grammar's automaton.
        kind: kind of the grammar, which determines the suggested bound.
        stops: stop strings; a cycle that consists only of stop characters is ignored.
    """
    lines: dict[str, None] = {}
    ends = {stop.encode()[0] for stop in stops if len(stop.encode()) == 1}
    for cycle in cycles(automaton):
        bytes_ = _bytes_inside(automaton, cycle)
        if not bytes_ <= ends:
            lines |= dict.fromkeys(_endless_lines(automaton, cycle, kind, bytes_ <= _DIGITS))
    return _cut(list(lines), "unbounded parts")


def collisions(automaton: Automaton, encoder: Encoder | None = None) -> list[str]:
    """Return warnings about a grammar of few texts: prefixes of other texts and shared first
    tokens.

    Args:
        automaton: the grammar's automaton.
        encoder: tokenizer for the comparison of tokens; None compares bytes only.
    """
    texts = all_texts(automaton, FEW_TEXTS)
    if texts is None:
        return []
    return compare(texts, [encoder.write(text) for text in texts] if encoder else [], encoder)


def compare(
    texts: Sequence[bytes],
    tokens: Sequence[Sequence[int]] = (),
    encoder: Encoder | None = None,
    *,
    scored: bool = False,
) -> list[str]:
    """Return warnings about texts that are prefixes of other texts or share a first token.

    Args:
        texts: the texts, as bytes.
        tokens: token ids of each text; empty compares bytes only.
        encoder: tokenizer that produced `tokens`.
        scored: True if each text is scored as a whole, as in `select`, instead of generated.
    """
    lines = [
        f"{_shown(short)} begins {_shown(long)}: {_BEGINS[scored]}; use different ends"
        for short, long in _beginnings(sorted(texts))
    ]

    if tokens and encoder is not None:
        common = list(takewhile(lambda ids: len(set(ids)) == 1, zip(*tokens, strict=False)))
        pairs = zip(tokens, texts, strict=True)
        first = sorted((ids[len(common)], text) for ids, text in pairs if len(ids) > len(common))
        for token, group in groupby(first, key=itemgetter(0)):
            sharing = [_shown(text) for _, text in group]
            if len(sharing) > 1:
                names = ", ".join(sharing[:3]) + (", ..." if len(sharing) > 3 else "")
                piece = _shown(encoder.piece(token))
                lines.append(f"{names} share the token {piece}: {_SHARE[scored]}")
    return _cut(lines, "texts that collide")


def seam(automaton: Automaton, kind: str, last: bytes, pieces: Sequence[bytes]) -> list[str]:
    """Return a warning if the model's usual tokenization puts the blank on the other side of the
    prompt's end.

    Args:
        automaton: the grammar's automaton.
        kind: kind of the grammar, which determines the remedy.
        last: bytes of the prompt's last token.
        pieces: bytes of every token of the vocabulary.
    """
    is_blank = last != b"" and not last.strip(b" ")
    longer = (p for p in pieces if is_blank and len(p) > len(last) and p.startswith(last))
    joined = [p for p in longer if automaton.step(START, p[len(last) :]) != DEAD]
    allows_blank = not _BLANKS.isdisjoint(automaton.next_bytes(START))
    if joined:
        problem = f"a blank, with which tokens such as {_shown(joined[-1])} begin"
        cure = "leave it out of the prompt, and start the pattern with ' ?'"
    elif last[-1:] in _BEFORE_BLANKS and not allows_blank and not automaton.final[START]:
        problem = f"{_shown(last[-1:])} and the text cannot begin with the blank of most models"
        cure = "begin the pattern with ' ?'"
    else:
        return []

    if kind == "json_schema":
        cure = "end the prompt with a line break"
    return [f"the prompt ends with {problem}: {cure}"]


def all_texts(automaton: Automaton, limit: int) -> list[bytes] | None:
    """Return every text of the grammar, sorted, or None if there are more than `limit`.

    Args:
        automaton: the grammar's automaton.
        limit: maximum number of texts.
    """
    if cycles(automaton):
        return None
    texts: list[bytes] = []
    paths = [(START, b"")]
    while paths:
        state, text = paths.pop()
        if automaton.final[state]:
            texts.append(text)
        steps = [bytes([byte]) for byte in automaton.next_bytes(state)]
        paths += [(automaton.step(state, byte), text + byte) for byte in steps]
        if len(texts) + len(paths) > limit:  # every path leads to a distinct text
            return None

    return sorted(texts)


def cycles(automaton: Automaton) -> list[set[int]]:
    """Return the strongly connected components of `automaton` that contain a cycle.

    Args:
        automaton: the grammar's automaton.
    """
    rows = enumerate(automaton.table.tolist())
    return _components({state: set(row) - {DEAD} for state, row in rows if state != DEAD})


def _components(targets: Mapping[int, set[int]]) -> list[set[int]]:
    """Return the strongly connected components with a cycle (Tarjan's algorithm, iterative)."""
    components = []
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
            components.append(component)

    for root in targets:
        if root not in number:
            enter(root)
        while work:
            state, successors = work[-1]
            target = next(successors, None)
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
    return components


def _endless_lines(automaton: Automaton, cycle: set[int], kind: str, digits: bool) -> list[str]:
    edges = {edge: _labels(automaton, edge) for edge in _edges_inside(automaton, cycle)}
    if kind == "json_schema":
        end = "the text can continue until max_tokens"
        return [
            f"{readable(part)} has no {hint}; {end}" for part, hint in _unbounded(edges, digits)
        ]
    labels = sorted({label for labels in edges.values() for label in labels})
    alone = [label for label in labels if _components(_graph(edges, {label}))]
    around = "a part with " + " and ".join(labels[:2]) if labels else "a part"
    how = "can repeat until max_tokens: set a bound, such as {0,40}"
    return [f"{readable(part)} {how}" for part in alone or [around]]


def _unbounded(edges: Labelled, digits: bool) -> Iterator[tuple[str, str]]:
    """Yield (path, keyword that would bound the value) for each schema value with an internal
    cycle."""
    labels = sorted({label for labels in edges.values() for label in labels})
    keyword = "maximum" if digits else "maxLength"
    for label in labels:
        below = (f"{label}.", f"{label}[")
        inside = {other for other in labels if other == label or other.startswith(below)}
        for component in _components(_graph(edges, inside)):
            within = (
                edge_labels for edge, edge_labels in edges.items() if component.issuperset(edge)
            )
            used = inside & set[str]().union(*within)
            if label in used:
                yield label, "maxItems or maxProperties" if len(used) > 1 else keyword

    if not labels:
        yield "the text", "bound"


def _graph(edges: Labelled, labels: set[str]) -> dict[int, set[int]]:
    """Return the edges with at least one of `labels`, as state -> next states."""
    graph: dict[int, set[int]] = {}
    for (state, target), edge_labels in edges.items():
        if edge_labels & labels:
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
    """Yield adjacent pairs of the sorted `texts` in which the first is a prefix of the second."""
    return ((short, long) for short, long in pairwise(texts) if long.startswith(short))


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="replace"))


def _cut(lines: list[str], noun: str) -> list[str]:
    hidden = len(lines) - SHOWN
    return lines if hidden <= 0 else [*lines[:SHOWN], f"and {hidden} more {noun}"]
