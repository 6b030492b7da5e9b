"""What a program appends to its state: frozen nodes that can be concatenated, kept and used again.

Nodes say what is wanted; they know neither state nor executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ProgramError
from .executor import ChoiceScore
from .location import Location, caller

ChoicesMethod = Callable[[Sequence[ChoiceScore]], list[float]]


class ExpressionError(ProgramError, ValueError):
    """Something that is neither text nor a word of the language was used as one."""


class Expr:
    """Text or words of the language. `a + b` appends b after a; plain strings join in."""

    __slots__ = ()

    def __add__(self, other: Any) -> Concat:
        return Concat((*parts(self), *parts(other)))

    def __radd__(self, other: Any) -> Concat:
        return Concat((*parts(other), *parts(self)))


@dataclass(frozen=True, slots=True)
class Text(Expr):
    text: str


@dataclass(frozen=True, slots=True)
class Gen(Expr):
    """A generation. `options` are the sampling parameters that were given, under their
    `SamplingParams` names."""

    name: str | None
    options: tuple[tuple[str, Any], ...]
    location: Location = field(compare=False)


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """The best of `choices` by `method`; with a temperature, one drawn by their scores."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod
    temperature: float
    seed: int | None
    location: Location = field(compare=False)


@dataclass(frozen=True, slots=True)
class RoleBegin(Expr):
    role: str


@dataclass(frozen=True, slots=True)
class RoleEnd(Expr):
    role: str


@dataclass(frozen=True, slots=True)
class Concat(Expr):
    """Nodes one after the other; never nested."""

    nodes: tuple[Expr, ...]


def parts(value: Any) -> tuple[Expr, ...]:
    """The plain nodes of an expression or string. Anything else is an ExpressionError that names
    the line."""
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, Concat):
        return value.nodes
    if isinstance(value, Expr):
        return (value,)
    if value is None:
        hint = "a function that returns nothing was used as text; leave out the `+=`, or return an expression"
    else:
        hint = "append str(value), or an expression such as gen(...)"
    raise ExpressionError(f"{caller()}: {value!r} cannot be appended to a program", hint)
