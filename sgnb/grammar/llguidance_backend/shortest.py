"""Shortest text of rules, and a bound of its length, by Knuth's method (1977): the minimum over all
derivations, bottom-up."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import GrammarError
from ..automaton.automaton import START, build
from ..automaton.build_limits import Recursive, TooLarge
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
from .normal import SET_LIMITS, children, postorder, users

LONGEST = 100_000
"""Maximum length in bytes; the search ignores longer texts."""


class _UnknownText(Exception):
    """The shortest text of a part is unknown."""


def shortest_text(rules: Rules) -> bytes | None:
    """Return a shortest text.

    Args:
        rules: syntax tree with rules.

    Returns:
        The text in UTF-8. None if unknown (a large `Intersect` or `Without`), if longer than
        `LONGEST`, or if the rules have no text.
    """
    try:
        texts, sets = _rule_texts(rules)
        return _texts(rules.start, texts, rules, sets)[id(rules.start)]
    except _UnknownText:
        return None


def _rule_texts(rules: Rules) -> tuple[dict[str, bytes], dict[int, bytes | None]]:
    """Return a shortest text of each rule with a text, and the texts of sets by node."""
    texts: dict[str, bytes] = {}
    sets: dict[int, bytes | None] = {}
    above = users(rules.rules)
    stale = set(rules.rules)

    while stale:
        for name in reversed(list(rules.rules)):  # dependencies usually follow their users
            if name in stale:
                stale.remove(name)
                root = rules.rules[name]
                text = _texts(root, texts, rules, sets)[id(root)]
                if text is not None and (name not in texts or len(text) < len(texts[name])):
                    texts[name] = text
                    stale |= above[name]
    return texts, sets


def least_length(rules: Rules) -> int:
    """Return a lower bound of the length of every text in bytes, of any size.

    Exact without `Intersect` and `Without`, which count as their longest and their first part.

    Args:
        rules: syntax tree with rules.

    Returns:
        The bound; 0 if the rules have no text.
    """
    lengths: dict[str, int] = {}
    above = users(rules.rules)
    stale = set(rules.rules)
    while stale:
        for name in reversed(list(rules.rules)):
            if name in stale:
                stale.remove(name)
                length = _least(rules.rules[name], lengths)
                if length is not None and length < lengths.get(name, length + 1):
                    lengths[name] = length
                    stale |= above[name]
    return _least(rules.start, lengths) or 0


def remaining_texts(rules: Rules, most: int) -> list[bytes]:
    """Return shortest texts of the parts that may remain inside a rule, the shortest first. Empty
    if the texts are unknown, as in `shortest_text`.

    Args:
        rules: syntax tree with rules.
        most: maximum number of texts.
    """
    try:
        remaining = _remaining_texts(rules)
    except _UnknownText:
        return []
    return sorted(remaining - {b""}, key=lambda text: (len(text), text))[:most]


def _remaining_texts(rules: Rules) -> set[bytes]:
    texts, sets = _rule_texts(rules)
    remaining: set[bytes] = set()
    for root in (rules.start, *rules.rules.values()):
        results = _texts(root, texts, rules, sets)

        for node in postorder(root, _below):
            if isinstance(node, Repeat) and node.least > 1:
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


def _least(root: Node, rule_lengths: Mapping[str, int]) -> int | None:
    """Return the bound of a tree by the `rule_lengths` so far; None without a text."""
    results: dict[int, int | None] = {}
    for node in postorder(root, _parts):
        lengths = [results[id(child)] for child in _parts(node)]
        whole = [length for length in lengths if length is not None]
        complete = len(whole) == len(lengths)
        length: int | None = None

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

    return results[id(root)]


def _below(node: Node) -> tuple[Node, ...]:
    if isinstance(node, (Intersect, Without)):
        return ()
    return _parts(node)


def _texts(
    root: Node, rule_texts: Mapping[str, bytes], rules: Rules, sets: dict[int, bytes | None]
) -> dict[int, bytes | None]:
    """Return a shortest text of each part of the tree by the `rule_texts` so far, by the part's
    id; None without a text."""
    results: dict[int, bytes | None] = {}

    for node in postorder(root, _below):
        texts = [results[id(child)] for child in _below(node)]
        whole = [text for text in texts if text is not None]
        complete = len(whole) == len(texts)
        text: bytes | None = None
        match node:
            case Literal(literal):
                text = literal.encode("utf-8", "surrogatepass")
            case Chars(ranges):
                text = chr(ranges[0][0]).encode() if ranges else None
            case Reference(name):
                text = rule_texts.get(name)
            case Concatenate():
                text = b"".join(whole) if complete else None
            case Alternate():
                text = min(whole, key=len, default=None)
            case Repeat(_, least, _):
                if least == 0:
                    text = b""
                elif complete:
                    if least * len(whole[0]) > LONGEST:
                        raise _UnknownText
                    text = whole[0] * least
            case Source() | Lexeme():
                text = texts[0]
            case Intersect() | Without():
                if id(node) not in sets:
                    sets[id(node)] = _of_set(node, rules)
                text = sets[id(node)]

        if text is not None and len(text) > LONGEST:
            raise _UnknownText
        results[id(node)] = text

    return results


def _of_set(node: Node, rules: Rules) -> bytes | None:
    try:
        return build(Rules(node, rules.rules), SET_LIMITS).completion(START)
    except (TooLarge, Recursive):
        raise _UnknownText from None
    except GrammarError:
        return None
