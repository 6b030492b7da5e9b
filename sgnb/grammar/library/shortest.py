"""A shortest text of rules, as Knuth (1977) finds it: the least of all derivations, bottom-up."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import GrammarError
from ..automaton.automaton import START, build
from ..automaton.limits import Recursive, TooLarge
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
from .normal import SET_LIMITS, children, postorder, users

LONGEST = 100_000
"""Bytes; what is longer is not looked for."""


class _Unknown(Exception):
    """Some part is not known."""


def shortest_text(rules: Rules) -> bytes | None:
    """None where it is not known: of `Intersect` and `Without` that are too large, and where it is
    longer than `LONGEST`. Rules without any text have none."""
    found: dict[str, bytes] = {}
    sets: dict[int, bytes | None] = {}
    above = users(rules.rules)
    stale = set(rules.rules)
    try:
        while stale:
            for name in reversed(list(rules.rules)):  # the rules that one needs come after it
                if name in stale:
                    stale.remove(name)
                    text = _shortest(rules.rules[name], found, rules, sets)
                    if text is not None and (name not in found or len(text) < len(found[name])):
                        found[name] = text
                        stale |= above[name]
        return _shortest(rules.start, found, rules, sets)
    except _Unknown:
        return None


def _below(node: Node) -> tuple[Node, ...]:
    if isinstance(node, (Intersect, Without)):
        return ()
    return (node.node,) if isinstance(node, Lexeme) else children(node)


def _shortest(
    root: Node, known: Mapping[str, bytes], rules: Rules, sets: dict[int, bytes | None]
) -> bytes | None:
    """Of the tree, with the rules' texts that are `known` so far; None if there is none yet."""
    made: dict[int, bytes | None] = {}
    for node in postorder(root, _below):
        texts = [made[id(child)] for child in _below(node)]
        whole = [text for text in texts if text is not None]
        complete = len(whole) == len(texts)
        text: bytes | None = None
        match node:
            case Literal(literal):
                text = literal.encode("utf-8", "surrogatepass")
            case Chars(ranges):
                text = chr(ranges[0][0]).encode() if ranges else None
            case Reference(name):
                text = known.get(name)
            case Concat():
                text = b"".join(whole) if complete else None
            case Alternate():
                text = min(whole, key=len, default=None)
            case Repeat(_, least, _):
                if least == 0:
                    text = b""
                elif complete:
                    if least * len(whole[0]) > LONGEST:
                        raise _Unknown
                    text = whole[0] * least
            case Source() | Lexeme():
                text = texts[0]
            case Intersect() | Without():
                if id(node) not in sets:
                    sets[id(node)] = _of_set(node, rules)
                text = sets[id(node)]
        if text is not None and len(text) > LONGEST:
            raise _Unknown
        made[id(node)] = text
    return made[id(root)]


def _of_set(node: Node, rules: Rules) -> bytes | None:
    try:
        return build(Rules(node, rules.rules), SET_LIMITS).completion(START)
    except (TooLarge, Recursive):
        raise _Unknown from None
    except GrammarError:
        return None
