"""Syntax tree to byte NFA, from the end to the start: references inlined, counted repeats unrolled.

Knows no tokens. Intersections and differences are computed as DFAs and embedded as positions.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...errors import GrammarError
from ..syntax import (
    Alternate,
    Chars,
    Concatenate,
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
from .build_limits import Budget
from .common_lexemes import CommonLexeme, common_lexeme
from .determinise import determinise
from .dfa import START, Dfa
from .minimise import minimise
from .nfa import FINAL, Follow, Nfa, Word
from .product import difference, intersection
from .utf8 import fragment

_OFTEN = 1024  # visits between two counts of work

_Part = tuple[Node, Follow, int]
_Key = tuple[int, Follow, int]
_Visit = Generator[_Part, Any, Follow]
"""Coroutine: yields parts (node, follow, label set), receives the first positions of each part,
returns its own first positions."""


def expand(rules: Rules, nfa: Nfa, budget: Budget) -> Follow:
    """Add the texts of `rules` to `nfa`, ending in FINAL.

    Args:
        rules: non-recursive rules.
        nfa: receives the positions.
        budget: limits of the build.

    Returns:
        The first positions of the texts.

    Raises:
        TooLarge: the NFA exceeds the limits.
        GrammarError: a text is not valid UTF-8.
    """
    return _Expansion(rules, nfa, budget).run(rules.start)


def common_automaton(node: Node) -> CommonLexeme:
    """Return the cached automaton of the tree of a common lexeme.

    Args:
        node: tree without references and labels; the cache identifies the tree by its object.
    """
    return common_lexeme(node, expand)


class _Expansion:
    def __init__(self, rules: Rules, nfa: Nfa, budget: Budget) -> None:
        self._rules = rules.rules
        self._nfa = nfa
        self._budget = budget
        self._products: dict[tuple[int, int], Dfa] = {}
        self._paid: set[int] = set()  # ids of the common lexemes so far
        self._embedded: dict[_Key, Follow] = {}

    def run(self, node: Node) -> Follow:
        """Return the first positions of `node` followed by FINAL. The stack is explicit because
        trees may be deep."""
        results: dict[_Key, Follow] = {}
        first = self._visit(node, (FINAL,), 0)
        visits: list[tuple[_Key, _Visit]] = [((id(node), (FINAL,), 0), first)]
        result: Follow | None = None
        steps = 0

        while visits:
            steps += 1
            if not steps % _OFTEN:
                self._budget.spend(2 * _OFTEN)
            key, visit = visits[-1]
            try:
                part = visit.send(result)
            except StopIteration as end:
                visits.pop()
                result = results[key] = end.value
                continue
            key = (id(part[0]), part[1], part[2])
            result = results.get(key)
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
            case Concatenate(parts):
                return (yield from self._row(parts, follow, label))
            case Alternate(options):
                return (yield from self._choice(options, follow, label))
            case Repeat():
                return (yield from self._repeat(node, follow, label))
            case Intersect() | Without():
                return (yield from self._product(node, follow, label))
            case Source(inner, name):
                return (yield inner, follow, self._nfa.labels.single(name))
            case Lexeme(inner, is_common):
                if is_common and follow:
                    common = self._common(inner, follow, label)
                    if common is not None:
                        return common
                return (yield inner, follow, label)
            case Reference(name):
                return (yield self._rules[name], follow, label)

    def _row(self, parts: tuple[Node, ...], follow: Follow, label: int) -> _Visit:
        for part in reversed(parts):
            if follow:
                follow = yield part, follow, label
        return follow

    def _choice(self, options: tuple[Node, ...], follow: Follow, label: int) -> _Visit:
        """Expand alternatives. Options that begin with text share a trie, so thousands of options
        stay cheap."""
        words: list[Word] = []
        others: list[Follow] = []
        for option in options:
            head, head_label, tail, tail_label = self._head(option, label)
            if head:
                after = yield from self._row(tail, follow, tail_label)
                if after:
                    words.append((_encoded(head), after, head_label))
            else:
                others.append((yield option, follow, label))
        return self._nfa.union(*([self._nfa.words(words)] if words else []), *others)

    def _head(self, option: Node, label: int) -> tuple[str, int, tuple[Node, ...], int]:
        """Return the leading text ("" for none) with its label set, and the remaining parts with
        their label set."""
        option, label = self._unlabelled(option, label)
        parts = option.parts if isinstance(option, Concatenate) else (option,)
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
        product = self._products.get((id(node), label))
        if product is None:
            combine = intersection if isinstance(node, Intersect) else difference
            for part in node.parts if isinstance(node, Intersect) else (node.node, node.removed):
                begin = yield part, (FINAL,), label
                dfa = self._minimised(determinise(self._nfa, begin, self._budget))
                product = dfa if product is None else combine(product, dfa, self._budget)
            assert product is not None
            product = self._products[id(node), label] = self._minimised(product)
        return self._embed(product, follow)

    def _common(self, node: Node, follow: Follow, label: int) -> Follow | None:
        """Embed the cached automaton of a common lexeme; None without an automaton."""
        dfa, steps = common_automaton(node)
        if id(node) not in self._paid:
            self._paid.add(id(node))
            self._budget.spend(steps)
        if dfa is None:
            return None
        key = (id(node), follow, label)
        if key not in self._embedded:
            self._embedded[key] = self._embed(dfa, follow, label)
        return self._embedded[key]

    def _minimised(self, dfa: Dfa) -> Dfa:
        return minimise(dfa, self._nfa.labels, self._budget)

    def _embed(self, dfa: Dfa, follow: Follow, label: int | None = None) -> Follow:
        """Copy `dfa` as positions, with `follow` after the final states.

        Args:
            dfa: automaton to copy.
            follow: positions after the automaton.
            label: label set of all edges; None for the label sets of the automaton.
        """
        begins: list[Follow] = [()]
        positions = [FINAL]
        for state in range(START, dfa.size):
            moves = dfa.offsets[state] < dfa.offsets[state + 1]
            positions.append(self._nfa.reserve() if moves else FINAL)
            start = (positions[-1],) if moves else ()
            begins.append(self._nfa.union(start, follow) if dfa.final[state] else start)

        for state, position in enumerate(positions):
            if position != FINAL:
                self._nfa.edges[position] = tuple(
                    (low, high, begins[to], edge_label if label is None else label)
                    for low, high, to, edge_label in dfa.edges(state)
                )
        return begins[START] if dfa.size > START else ()


def _flattened(node: Repeat) -> tuple[Node, int, int | None]:
    """Return (part, least, most) with nested repeats collapsed if the texts stay the same."""
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
        message = f"{character} in {text!r:.80} is not a character"
        raise GrammarError(message, "remove surrogates") from None
