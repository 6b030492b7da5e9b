"""Syntax trees of the decoded strings of a `FlatSchema`. Knows no other types."""

from __future__ import annotations

from functools import lru_cache

from ...errors import GrammarError
from ..regex.parser import parse
from ..syntax import (
    NOTHING,
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Repeat,
    Source,
    Without,
    concat,
)
from .flat import FlatSchema
from .string_formats import format_tree
from .text import ANY_CHARACTER, either

Span = tuple[int, int | None]
"""(minimum, maximum) length of the texts in characters; None is unbounded."""


def decoded(flat: FlatSchema) -> Node:
    """Return the unescaped texts that the string keywords allow.

    Args:
        flat: keywords of a disjunct.

    Raises:
        GrammarError: a pattern is not supported.
    """
    parts = [pattern_tree(pattern) for pattern in flat.patterns]
    parts += [tree for name in flat.formats if (tree := format_tree(name)) is not None]
    most = flat.max_length
    if most is not None and flat.min_length > most:
        return NOTHING
    node: Node = Repeat(ANY_CHARACTER, flat.min_length, most)
    if parts:
        parts[0] = limited(parts[0], flat.min_length, most)
        node = parts[0] if len(parts) == 1 else Intersect(tuple(parts))
    removed = [pattern_tree(pattern, forbidden=True) for pattern in flat.other_patterns]
    removed += [Literal(value) for value in flat.excluded if isinstance(value, str)]
    return Without(node, either(removed)) if removed else node


@lru_cache(maxsize=256)
def pattern_tree(pattern: str, forbidden: bool = False) -> Node:
    """Return the texts in which Python and ECMAScript both find `pattern`.

    Args:
        pattern: pattern in the syntax of `re`.
        forbidden: True for the texts in which Python finds `pattern`, a superset, for exclusion.
    """
    node = parse(pattern, whole=False, portable=True)
    return parse(pattern, whole=False) if forbidden else node


def limited(node: Node, least: int, most: int | None) -> Node:
    """Return the texts of `node` with `least` to `most` characters, by a tighter repeat if
    possible.

    Args:
        node: tree of texts.
        least: minimum length in characters.
        most: maximum length in characters; None is unbounded.
    """
    shortest, longest = span(node)
    if shortest >= least and (most is None or (longest is not None and longest <= most)):
        return node
    parts = list(_parts(node))
    spans = [span(part) for part in parts]
    loose = [index for index, (low, high) in enumerate(spans) if low != high]
    part = parts[loose[0]] if len(loose) == 1 else None
    if isinstance(part, Repeat) and span(part.node) == (1, 1):
        fixed = sum(low for index, (low, _) in enumerate(spans) if index != loose[0])
        low = max(part.least, least - fixed)
        limits = [part.most, None if most is None else most - fixed]
        high = min((limit for limit in limits if limit is not None), default=None)
        parts[loose[0]] = Repeat(part.node, low, high)
        return NOTHING if high is not None and low > high else concat(*parts)

    return Intersect((node, Repeat(ANY_CHARACTER, least, most)))


def _parts(node: Node) -> tuple[Node, ...]:
    while isinstance(node, Source):
        node = node.node
    if not isinstance(node, Concatenate):
        return (node,)
    return tuple(inner for part in node.parts for inner in _parts(part)) or (node,)


def apart(a: Node, b: Node) -> bool:
    """Return True if the trees start with different literals, so no text is common. False if
    unknown.

    Args:
        a: first tree.
        b: second tree.
    """
    first, second = _start(a), _start(b)
    return not first.startswith(second) and not second.startswith(first)


def _start(node: Node) -> str:
    first = _parts(node)[0]
    return first.text if isinstance(first, Literal) else ""


def span(node: Node) -> Span:
    """Return the lengths of the texts of `node`; the maximum is an upper bound.

    Args:
        node: tree without references.
    """
    match node:
        case Literal(text):
            return len(text), len(text)
        case Chars():
            return 1, 1
        case Source(inner, _):
            return span(inner)
        case Repeat(inner, least, most):
            low, high = span(inner)
            if high == 0 or most == 0:
                return 0, 0
            return low * least, None if high is None or most is None else high * most
        case Concatenate(parts):
            spans = [span(part) for part in parts]
            return sum(low for low, _ in spans), _sum([high for _, high in spans])
        case Alternate(options) if options:
            spans = [span(option) for option in options]
            highs = [high for _, high in spans if high is not None]
            return min(low for low, _ in spans), max(highs) if len(highs) == len(spans) else None
        case Intersect(parts):
            spans = [span(part) for part in parts]
            longest = min((high for _, high in spans if high is not None), default=None)
            return max(low for low, _ in spans), longest
        case Without(kept, _):
            return span(kept)
        case Alternate():
            return 0, 0

    raise GrammarError(f"a string made of {type(node).__name__}", "strings hold no references")


def _sum(lengths: list[int | None]) -> int | None:
    bounded = [length for length in lengths if length is not None]
    return sum(bounded) if len(bounded) == len(lengths) else None
