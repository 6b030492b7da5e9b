"""Syntax tree to byte NFA, from the end to the start: references inlined, counted repeats unrolled.

Knows no tokens. Intersections and differences go through a DFA and come back as positions.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...errors import GrammarError
from ..syntax import (
    Alternate,
    Chars,
    Concat,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
)
from .determinise import determinise
from .dfa import START, Dfa
from .limits import Budget
from .minimise import minimise
from .nfa import FINAL, Follow, Nfa, Word
from .product import difference, intersection
from .utf8 import fragment

_Part = tuple[Node, Follow, int]
_Key = tuple[int, Follow, int]
_Visit = Generator[_Part, Any, Follow]
"""Yields parts (node, follow, label set), is sent where each begins, returns where all begin."""


def expand(rules: Rules, nfa: Nfa, budget: Budget) -> Follow:
    """Where the texts of `rules`, which must not be recursive, begin in `nfa`; they end in FINAL.

    Raises TooLarge, and GrammarError for text that UTF-8 cannot write.
    """
    return _Expansion(rules, nfa, budget).run(rules.start)


class _Expansion:
    def __init__(self, rules: Rules, nfa: Nfa, budget: Budget) -> None:
        self._rules = rules.rules
        self._nfa = nfa
        self._budget = budget
        self._products: dict[tuple[int, int], Dfa] = {}

    def run(self, node: Node) -> Follow:
        """Where `node`, with FINAL behind it, begins. The stack is explicit: trees may be deep."""
        known: dict[_Key, Follow] = {}
        first = self._visit(node, (FINAL,), 0)
        visits: list[tuple[_Key, _Visit]] = [((id(node), (FINAL,), 0), first)]
        result: Follow | None = None
        steps = 0
        while visits:
            steps += 1
            if not steps % 1024:
                self._budget.check_time()
            key, visit = visits[-1]
            try:
                part = visit.send(result)
            except StopIteration as end:
                visits.pop()
                result = known[key] = end.value
                continue
            key = (id(part[0]), part[1], part[2])
            result = known.get(key)
            if result is None:
                visits.append((key, self._visit(*part)))
        assert result is not None
        return result

    def _visit(self, node: Node, follow: Follow, label: int) -> _Visit:
        match node:
            case Literal(text):
                return self._nfa.literal(_encoded(text), follow, label) if follow else ()
            case Chars(ranges):
                return self._nfa.character(fragment(ranges), follow, label) if follow else ()
            case Concat(parts):
                return (yield from self._row(parts, follow, label))
            case Alternate(options):
                return (yield from self._choice(options, follow, label))
            case Repeat():
                return (yield from self._repeat(node, follow, label))
            case Intersect() | Without():
                return (yield from self._product(node, follow, label))
            case Source(inner, name):
                return (yield inner, follow, self._nfa.labels.single(name))
            case Lexeme(inner):
                return (yield inner, follow, label)
            case Reference(name):
                return (yield self._rules[name], follow, label)

    def _row(self, parts: tuple[Node, ...], follow: Follow, label: int) -> _Visit:
        for part in reversed(parts):
            if follow:
                follow = yield part, follow, label
        return follow

    def _choice(self, options: tuple[Node, ...], follow: Follow, label: int) -> _Visit:
        """Options that begin with text share one trie, so that thousands of them stay cheap."""
        words: list[Word] = []
        others: list[Follow] = []
        for option in options:
            head, head_label, rest, rest_label = self._head(option, label)
            if head:
                after = yield from self._row(rest, follow, rest_label)
                if after:
                    words.append((_encoded(head), after, head_label))
            else:
                others.append((yield option, follow, label))
        return self._nfa.union(*([self._nfa.words(words)] if words else []), *others)

    def _head(self, option: Node, label: int) -> tuple[str, int, tuple[Node, ...], int]:
        """The leading text ("" for none) and its label set, the parts behind it and theirs."""
        option, label = self._unlabelled(option, label)
        parts = option.parts if isinstance(option, Concat) else (option,)
        if parts:
            first, first_label = self._unlabelled(parts[0], label)
            if isinstance(first, Literal):
                return first.text, first_label, parts[1:], label
        return "", label, (), label

    def _unlabelled(self, node: Node, label: int) -> tuple[Node, int]:
        while isinstance(node, (Source, Lexeme)):
            if isinstance(node, Source):
                label = self._nfa.labels.single(node.label)
            node = node.node
        return node, label

    def _repeat(self, node: Repeat, follow: Follow, label: int) -> _Visit:
        inner, least, most = _flattened(node)
        begin = follow
        if most is None:
            joint = self._nfa.reserve()
            body = yield inner, (joint,), label
            self._nfa.joints[joint] = self._nfa.union(body, follow)
            begin = body if least else (joint,)
            least -= 1
        else:
            for _ in range(most - least):
                previous = begin
                begin = self._nfa.union((yield inner, begin, label), follow)
                if begin == previous:
                    break
        for _ in range(least):
            previous = begin
            begin = yield inner, begin, label
            if begin == previous:
                break
        return begin

    def _product(self, node: Intersect | Without, follow: Follow, label: int) -> _Visit:
        found = self._products.get((id(node), label))
        if found is None:
            combine = intersection if isinstance(node, Intersect) else difference
            for part in node.parts if isinstance(node, Intersect) else (node.node, node.removed):
                begin = yield part, (FINAL,), label
                dfa = self._minimised(determinise(self._nfa, begin, self._budget))
                found = dfa if found is None else combine(found, dfa, self._budget)
            assert found is not None
            found = self._products[id(node), label] = self._minimised(found)
        return self._embed(found, follow)

    def _minimised(self, dfa: Dfa) -> Dfa:
        return minimise(dfa, self._nfa.labels, self._budget)

    def _embed(self, dfa: Dfa, follow: Follow) -> Follow:
        """A copy of `dfa` as positions, with `follow` behind its final states."""
        begins: list[Follow] = [()]
        positions = [FINAL]
        for state in range(START, dfa.size):
            moves = dfa.offsets[state] < dfa.offsets[state + 1]
            positions.append(self._nfa.reserve() if moves else FINAL)
            own = (positions[-1],) if moves else ()
            begins.append(self._nfa.union(own, follow) if dfa.final[state] else own)
        for state, position in enumerate(positions):
            if position != FINAL:
                edges = (
                    (low, high, begins[to], label) for low, high, to, label in dfa.edges(state)
                )
                self._nfa.edges[position] = tuple(edges)
        return begins[START] if dfa.size > START else ()


def _flattened(node: Repeat) -> tuple[Node, int, int | None]:
    """(part, least, most), with nested repeats collapsed where that keeps the texts."""
    inner, least, most = node.node, node.least, node.most
    while isinstance(inner, Repeat) and most != 0:
        if inner.most is None and inner.least <= 1:
            least, most = least * inner.least, None
        elif (inner.least, inner.most) == (0, 1):
            least = 0
        else:
            break
        inner = inner.node
    return inner, least, most


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        message = f"{character} in {text!r:.80} is no character"
        raise GrammarError(message, "leave surrogates out") from None
