"""The syntax tree that regexes and JSON schemas are parsed to, and automata are built from.

A tree describes a set of texts (sequences of characters). It knows neither bytes nor tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Ranges = tuple[tuple[int, int], ...]
"""Code points as inclusive ranges, sorted, disjoint, not adjacent, without surrogates."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text; "" is the empty one."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of `ranges`; no ranges, no text at all."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Any of the options; without options, no text at all."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node` from `least` to `most` times; None is unbounded."""

    node: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Intersect:
    """The texts that all of the parts describe."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """The texts of `node` that `removed` does not describe."""

    node: Node
    removed: Node


@dataclass(frozen=True, slots=True)
class Source:
    """`node`, from the part of the pattern or schema called `label`; the innermost label counts."""

    node: Node
    label: str


@dataclass(frozen=True, slots=True)
class Lexeme:
    """`node`, never empty, as one symbol of a language such as a whole JSON string: where one of
    its texts ends, the next character continues no lexeme that is possible in its place."""

    node: Node


@dataclass(frozen=True, slots=True)
class Reference:
    """The rule of this name."""

    name: str


Node = (
    Literal
    | Chars
    | Concat
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
    """A tree and the rules it refers to, recursive ones too but for Intersect and Without."""

    start: Node
    rules: Mapping[str, Node] = field(default_factory=dict)


EMPTY = Literal("")
NOTHING = Alternate(())


def concat(*parts: Node) -> Node:
    """The parts one after the other, without needless nesting."""
    flat: list[Node] = []
    for part in parts:
        for node in part.parts if isinstance(part, Concat) else (part,):
            if isinstance(node, Literal) and flat and isinstance(flat[-1], Literal):
                flat[-1] = Literal(flat[-1].text + node.text)
            elif node != EMPTY:
                flat.append(node)
    return flat[0] if len(flat) == 1 else Concat(tuple(flat)) if flat else EMPTY


def alternate(*options: Node) -> Node:
    """Any of the options, without needless nesting."""
    flat: list[Node] = []
    for option in options:
        flat += option.options if isinstance(option, Alternate) else (option,)
    return flat[0] if len(flat) == 1 else Alternate(tuple(flat))


def optional(node: Node) -> Node:
    return Repeat(node, 0, 1)
