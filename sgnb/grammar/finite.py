"""Numbers of texts of syntax trees, without an automaton: lower bounds, and small finite sets."""

from __future__ import annotations

import math

from .syntax import (
    Alternate,
    Chars,
    Concatenate,
    Lexeme,
    Literal,
    Node,
    Repeat,
    Source,
    Without,
    children,
    postorder,
)

MOST_TEXTS = 4096
"""Maximum size of a listed finite set."""


def fewest_texts(root: Node) -> float:
    """Return a lower bound of the number of different texts; infinity for certainly infinite sets.

    References and intersections count as 0.

    Args:
        root: syntax tree.
    """
    counts: dict[int, float] = {}
    for node in postorder(root, _kept):
        counts[id(node)] = _fewest(node, [counts[id(child)] for child in _kept(node)])
    return counts[id(root)]


def _kept(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Without):
        return (node.node,)
    return (node.node,) if isinstance(node, Lexeme) else children(node)


def _fewest(node: Node, below: list[float]) -> float:
    match node:
        case Literal():
            return 1
        case Chars(ranges):
            return sum(high - low + 1 for low, high in ranges)
        case Source() | Lexeme():
            return below[0]
        case Concatenate():
            return max(below, default=1) if all(below) else 0
        case Alternate(options):
            literals = {option for option in options if isinstance(option, Literal)}
            return max([len(literals), *below])
        case Repeat(inner, least, limit):
            count = 1 if limit == 0 else below[0]
            if limit is None and (count > 1 or (isinstance(inner, Literal) and inner.text)):
                return math.inf
            return max(count, 1) if least == 0 else count
        case Without(_, removed):
            texts = finite_texts(removed) if below[0] else None
            return 0 if texts is None else max(below[0] - len(texts), 0)
    return 0


def finite_texts(root: Node) -> frozenset[str] | None:
    """Return all texts of a tree; None if unknown, or if more than `MOST_TEXTS`.

    Args:
        root: syntax tree.
    """
    sets: dict[int, frozenset[str]] = {}
    for node in postorder(root, _parts):
        texts = _finite(node, [sets[id(child)] for child in _parts(node)])
        if texts is None:
            return None
        sets[id(node)] = texts
    return sets[id(root)]


def _parts(node: Node) -> tuple[Node, ...]:
    return (node.node,) if isinstance(node, Lexeme) else children(node)


def _finite(node: Node, below: list[frozenset[str]]) -> frozenset[str] | None:
    match node:
        case Literal(text):
            return frozenset((text,))
        case Chars(ranges):
            if sum(high - low + 1 for low, high in ranges) > MOST_TEXTS:
                return None
            return frozenset(chr(code) for low, high in ranges for code in range(low, high + 1))
        case Source() | Lexeme():
            return below[0]
        case Repeat(_, least, 1):
            return below[0] if least else below[0] | {""}
        case Alternate():
            return frozenset().union(*below) if sum(map(len, below)) <= MOST_TEXTS else None
        case Concatenate():
            return _product(below)
    return None


def _product(sets: list[frozenset[str]]) -> frozenset[str] | None:
    product = frozenset(("",))
    for texts in sets:
        if len(product) * len(texts) > MOST_TEXTS:
            return None
        product = frozenset(first + second for first in product for second in texts)
    return product
