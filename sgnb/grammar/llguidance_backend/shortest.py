"""Shortest text of rules, and a bound of its length, by Knuth's method (1977): the minimum over all
derivations, bottom-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import GrammarError
from ..automaton.automaton import START, build
from ..automaton.build_limits import Recursive, TooLarge
from ..finite import finite_texts
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
    children,
    postorder,
)
from .normal import SET_LIMITS, least_solution, references

LONGEST = 100_000
"""Maximum length in bytes; the search ignores longer texts."""


class UnknownText(Exception):
    """The shortest text of a part is unknown."""


def shortest_text(rules: Rules, solved: ShortestTexts | None = None) -> bytes | None:
    """Return a shortest text.

    Args:
        rules: syntax tree with rules.
        solved: see `ShortestTexts`.

    Returns:
        The text in UTF-8. None if unknown (a large `Intersect` or `Without`), if longer than
        `LONGEST`, or if the rules have no text.
    """
    try:
        return ShortestTexts(rules, solved).of(rules.start)
    except UnknownText:
        return None


def least_length(rules: Rules) -> int:
    """Return a lower bound of the length of every text in bytes, of any size.

    Exact without `Intersect` and `Without`, which count as their longest and their first part.

    Args:
        rules: syntax tree with rules.

    Returns:
        The bound; 0 if the rules have no text.
    """
    orders = {name: list(postorder(node, _parts)) for name, node in rules.rules.items()}
    lengths = least_solution(orders, lambda name, values: _least(orders[name], values), int)
    return _least(list(postorder(rules.start, _parts)), lengths) or 0


def remaining_texts(rules: Rules, most: int) -> list[bytes]:
    """Return shortest texts of the parts that may remain inside a rule, the shortest first. Empty
    if the texts are unknown, as in `shortest_text`.

    Args:
        rules: syntax tree with rules.
        most: maximum number of texts.
    """
    try:
        remaining = _remaining_texts(rules)
    except UnknownText:
        return []
    return sorted(remaining - {b""}, key=lambda text: (len(text), text))[:most]


def _remaining_texts(rules: Rules) -> set[bytes]:
    texts = ShortestTexts(rules)
    remaining: set[bytes] = set()
    waiting = [rules.start, *rules.rules.values()]
    visited: set[int] = set()
    while waiting:
        root = waiting.pop()
        order = [node for node in postorder(root, _below) if id(node) not in visited]
        visited.update(map(id, order))
        results = texts.of_parts(root)

        for node in order:
            if isinstance(node, Lexeme):
                waiting.append(node.node)
            elif isinstance(node, Repeat) and node.least > 1:
                remaining.add(results[id(node.node)] or b"")
            elif isinstance(node, Concatenate):
                suffix = b""
                for part in node.parts[:0:-1]:
                    text = results[id(part)]
                    if text is None or len(suffix) + len(text) > LONGEST:
                        break
                    suffix = text + suffix
                    remaining.add(suffix)
    return remaining


def _parts(node: Node) -> tuple[Node, ...]:
    return (node.node,) if isinstance(node, Lexeme) else children(node)


def _least(order: Sequence[Node], rule_lengths: Mapping[str, int]) -> int | None:
    """Return the bound of a tree, whose nodes come children first, by the `rule_lengths` so far;
    None without a text."""
    results: dict[int, int | None] = {}
    length: int | None = None
    for node in order:
        lengths = [results[id(child)] for child in _parts(node)]
        whole = [length for length in lengths if length is not None]
        complete = len(whole) == len(lengths)
        length = None

        match node:
            case Literal(literal):
                length = len(literal.encode("utf-8", "surrogatepass"))
            case Chars(ranges):
                length = len(chr(ranges[0][0]).encode()) if ranges else None
            case Reference(name):
                length = rule_lengths.get(name)
            case Concatenate():
                length = sum(whole) if complete else None
            case Alternate():
                length = min(whole, default=None)
            case Repeat(_, least, _):
                length = 0 if least == 0 else least * whole[0] if complete else None
            case Source() | Lexeme() | Without():
                length = lengths[0]
            case Intersect():
                length = max(whole) if complete else None
        results[id(node)] = length

    return length


def _below(node: Node) -> tuple[Node, ...]:
    """Return the children that a shortest text is made of; sets and lexemes are evaluated
    separately."""
    return () if isinstance(node, (Intersect, Without)) else children(node)


class ShortestTexts:
    """Shortest texts of the parts of rules.

    Args:
        rules: syntax tree with rules.
        solved: texts of other rules, of which the lexemes' texts are shared.

    Raises:
        UnknownText: the text of a rule is unknown.
    """

    def __init__(self, rules: Rules, solved: ShortestTexts | None = None) -> None:
        self._rules = rules
        self._lexemes: dict[int, bytes | UnknownText | None] = solved._lexemes if solved else {}
        self._sets: dict[int, bytes | None] = {}
        orders = {name: list(postorder(node, _below)) for name, node in rules.rules.items()}

        def evaluate(name: str, texts: Mapping[str, bytes]) -> bytes | None:
            return self._results(orders[name], texts)[id(rules.rules[name])]

        self._texts = least_solution(orders, evaluate, len)

    def of(self, node: Node) -> bytes | None:
        """Return a shortest text of a part; None without a text.

        Args:
            node: part of the rules.

        Raises:
            UnknownText: the text is unknown.
        """
        return self.of_parts(node)[id(node)]

    def of_parts(self, root: Node) -> dict[int, bytes | None]:
        """Return shortest texts of the parts of a tree outside of lexemes, by the part's id; None
        without a text.

        Args:
            root: part of the rules.

        Raises:
            UnknownText: a text is unknown.
        """
        return self._results(list(postorder(root, _below)), self._texts)

    def _results(
        self, order: Sequence[Node], rule_texts: Mapping[str, bytes]
    ) -> dict[int, bytes | None]:
        results: dict[int, bytes | None] = {}

        for node in order:
            text: bytes | None = None
            match node:
                case Lexeme():
                    text = self.of_lexeme(node)
                case Reference(name):
                    text = rule_texts.get(name)
                case Concatenate(parts):
                    text = _joined([results[id(part)] for part in parts])
                case Alternate(options):
                    option_texts = [
                        text for option in options if (text := results[id(option)]) is not None
                    ]
                    text = min(option_texts, key=len, default=None)
                case Repeat(inner, least, _):
                    text = _repeated(results[id(inner)], least)
                case Literal(literal):
                    text = literal.encode("utf-8", "surrogatepass")
                case Chars(ranges):
                    text = chr(ranges[0][0]).encode() if ranges else None
                case Source(inner):
                    text = results[id(inner)]
                case Intersect() | Without():
                    text = self._of_set(node)

            if text is not None and len(text) > LONGEST:
                raise UnknownText
            results[id(node)] = text

        return results

    def of_lexeme(self, lexeme: Lexeme) -> bytes | None:
        """Return a shortest text of a lexeme, which refers to no rule; evaluated once.

        Args:
            lexeme: lexeme of any rules; the caller keeps the lexeme alive.

        Raises:
            UnknownText: the text is unknown.
        """
        if id(lexeme) not in self._lexemes:
            try:
                results = self._results(list(postorder(lexeme.node, _below)), {})
                self._lexemes[id(lexeme)] = results[id(lexeme.node)]
            except UnknownText as error:
                self._lexemes[id(lexeme)] = error
        text = self._lexemes[id(lexeme)]
        if isinstance(text, UnknownText):
            raise text
        return text

    def _of_set(self, node: Intersect | Without) -> bytes | None:
        if id(node) not in self._sets:
            text = self._unremoved(node) if isinstance(node, Without) else None
            self._sets[id(node)] = self._completion(node) if text is None else text
        return self._sets[id(node)]

    def _unremoved(self, difference: Without) -> bytes | None:
        """Return the shortest text of the first part, unless it is among the removed texts; None
        if an automaton must decide."""
        inner, removed = difference.node, finite_texts(difference.removed)
        if removed is None or references(inner):
            return None
        text = self._results(list(postorder(inner, _below)), {})[id(inner)]
        is_allowed = text is not None and text.decode("utf-8", "surrogatepass") not in removed
        return text if is_allowed else None

    def _completion(self, node: Intersect | Without) -> bytes | None:
        try:
            return build(Rules(node, self._rules.rules), SET_LIMITS).completion(START)
        except (TooLarge, Recursive):
            raise UnknownText from None
        except GrammarError:
            return None


def _joined(texts: list[bytes | None]) -> bytes | None:
    parts = [text for text in texts if text is not None]
    return b"".join(parts) if len(parts) == len(texts) else None


def _repeated(text: bytes | None, least: int) -> bytes | None:
    if least == 0 or text is None:
        return None if least else b""
    if least * len(text) > LONGEST:
        raise UnknownText
    return text * least
