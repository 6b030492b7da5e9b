"""Syntax tree of regexes and JSON schemas, the input of the automaton build.

A tree describes a set of texts (sequences of characters). Knows neither bytes nor tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

Ranges = tuple[tuple[int, int], ...]
"""Code points as inclusive ranges: sorted, disjoint, not adjacent, without surrogates."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text; "" is the empty text."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """A single character of `ranges`; without ranges, no text at all."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concatenate:
    """Concatenation of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Any of the options; without options, no text at all."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node` repeated from `least` to `most` times; None is unbounded."""

    node: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Intersect:
    """Intersection: the texts that all parts describe."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Difference: the texts of `node` except the texts of `removed`."""

    node: Node
    removed: Node


@dataclass(frozen=True, slots=True)
class Source:
    """`node`, labelled with its part of the pattern or schema; the innermost label applies."""

    node: Node
    label: str


@dataclass(frozen=True, slots=True)
class Lexeme:
    """`node`, never empty, as a single symbol of a language, such as a whole JSON string.

    After a text of `node`, the next character must not continue any lexeme allowed at the same
    position. `is_common` marks trees without labels that many grammars share as the same object,
    such as the tree of all numbers: builds cache their automata.
    """

    node: Node
    is_common: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference to a rule by name."""

    name: str


Node = (
    Literal
    | Chars
    | Concatenate
    | Alternate
    | Repeat
    | Intersect
    | Without
    | Source
    | Lexeme
    | Reference
)


@dataclass(frozen=True, slots=True)
class Rules:
    """A tree and its rules. Rules may be recursive, except inside Intersect and Without."""

    start: Node
    rules: Mapping[str, Node] = field(default_factory=dict)
    # True for JSON texts with arrays of distinct items, or objects with distinct unlisted names,
    # which the tree cannot express.
    distinct: bool = False


EMPTY = Literal("")
NOTHING = Alternate(())


def concat(*parts: Node) -> Node:
    """Return the concatenation of the parts, flattened.

    Args:
        parts: trees in order.
    """
    flat: list[Node] = []
    for part in parts:
        for node in part.parts if isinstance(part, Concatenate) else (part,):
            if isinstance(node, Literal) and flat and isinstance(flat[-1], Literal):
                flat[-1] = Literal(flat[-1].text + node.text)
            elif node != EMPTY:
                flat.append(node)
    return flat[0] if len(flat) == 1 else Concatenate(tuple(flat)) if flat else EMPTY


def alternate(*options: Node) -> Node:
    """Return the alternation of the options, flattened.

    Args:
        options: alternative trees.
    """
    flat: list[Node] = []
    for option in options:
        flat += option.options if isinstance(option, Alternate) else (option,)
    return flat[0] if len(flat) == 1 else Alternate(tuple(flat))


def optional(node: Node) -> Node:
    return Repeat(node, 0, 1)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below `node`; references and lexemes have none.

    Args:
        node: any node.
    """
    match node:
        case Concatenate(parts) | Intersect(parts):
            return parts
        case Alternate(options):
            return options
        case Repeat(inner, _, _) | Source(inner, _):
            return (inner,)
        case Without(kept, removed):
            return (kept, removed)
    return ()


def postorder(node: Node, below: Callable[[Node], tuple[Node, ...]] = children) -> Iterator[Node]:
    """Yield every node object of a tree once, children first.

    Args:
        node: root of the tree.
        below: returns the children of a node.
    """
    visited: set[int] = set()
    stack = [(node, False)]
    while stack:
        top, below_done = stack.pop()
        if below_done:
            yield top
        elif id(top) not in visited:
            visited.add(id(top))
            stack.append((top, True))
            stack += [(child, False) for child in reversed(below(top))]
