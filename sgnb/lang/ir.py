"""What a program appends to its state: frozen nodes that can be concatenated, kept and used again.

Nodes say what is wanted; they know neither state nor executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import isawaitable
from typing import Any

from ..errors import OptionError, ProgramError, nearest
from ..sampling import SamplingParams
from ..segment import Kind, Segment
from .chat import ROLES, ChatTemplate
from .chat.reasoning import Reasoning
from .chat.tools import Tool, ToolCall, ToolUse
from .executor import ChoiceScore, Executor
from .location import Location, caller

ChoicesMethod = Callable[[Sequence[ChoiceScore]], list[float]]
"""Or a `ChoicesSamplingMethod`; see `choices`."""


REGEX_INT = r"[-+]?[0-9]+[ \n]*"
REGEX_FLOAT = r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
REGEX_BOOL = "(True|False)"
REGEX_STR = r'"[\w\d\s]*"'
"""Patterns of the texts of a `dtype`."""


class ExpressionError(ProgramError, ValueError):
    """Something that is neither text nor an expression of the language was used as one."""


class Expr:
    """Text, primitives and their concatenations. `a + b` appends b after a; either may be a str."""

    __slots__ = ()

    def __add__(self, other: Any) -> Concat:
        return Concat((*parts(self), *parts(other)))

    def __radd__(self, other: Any) -> Concat:
        return Concat((*parts(other), *parts(self)))

    def __format__(self, spec: str) -> str:
        return str(self)

    def __str__(self) -> str:
        """A text, such as an f-string, would put the expression's representation into the prompt;
        `repr` shows it."""
        hint = 'append it beside the text: s += "Name: " + gen("name")'
        message = f"{caller()}: a text cannot hold a {type(self).__name__.lower()}"
        raise ExpressionError(message, hint)


@dataclass(frozen=True, slots=True)
class Text(Expr):
    text: str
    kind: Kind | None = None  # None: by where it stands, see `Program._split_by_taint`


@dataclass(frozen=True, slots=True)
class Gen(Expr):
    """A generation."""

    name: str | None
    options: tuple[tuple[str, Any], ...]  # those given, under their `SamplingParams` names
    location: Location = field(compare=False)
    backend: Executor | None = None  # of this call; None for the run's
    reasoning: Reasoning | None = None  # a variable of its own for the reasoning that comes first
    tools: ToolUse | None = None  # calls of these, or text
    timeout: float | None = None  # seconds from the first call to the end


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """The best of `choices` by `method`; with a temperature, one drawn by their scores."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod
    temperature: float
    seed: int | None
    location: Location = field(compare=False)
    kind: Kind | None = None  # of the choices' text, as `Text`'s
    backend: Executor | None = None  # as `Gen`'s
    timeout: float | None = None  # as `Gen`'s

    def __post_init__(self) -> None:
        """OptionError for a choice that cannot be scored, or is there twice."""
        for choice in self.choices:
            if not isinstance(choice, str) or not choice:
                hint = "choices are non-empty strings"
                raise OptionError(f"choice {choice!r} cannot be scored", hint)
            if self.choices.count(choice) > 1:
                raise OptionError(f"choice {choice!r} is there twice", "each choice once")


@dataclass(frozen=True, slots=True)
class RoleBegin(Expr):
    role: str


@dataclass(frozen=True, slots=True)
class RoleEnd(Expr):
    role: str


@dataclass(frozen=True, slots=True)
class UseTools(Expr):
    """The model is told of `tools` where the conversation begins."""

    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True)
class ToolResults(Expr):
    """What tools returned, in the tool role."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Concat(Expr):
    """Nodes one after the other; never nested."""

    nodes: tuple[Expr, ...]


def parts(value: Any) -> tuple[Expr, ...]:
    """The nodes of an expression or string. Anything else is an ExpressionError with the line."""
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, Concat):
        return value.nodes
    if isinstance(value, Expr):
        return (value,)
    if value is None:
        hint = (
            "a function that returns nothing was used as text; leave out the `+=`, or return an"
            " expression"
        )
    elif isawaitable(value):
        hint = 'await it first: s += await s["name"]'
    else:
        hint = "append str(value), or an expression such as gen(...)"
    raise ExpressionError(f"{caller()}: {value!r} cannot be appended to a program", hint)


def role(name: str, expr: Any) -> Concat:
    """`expr` between the marks of the role `name`; nothing for None."""
    if name not in ROLES:
        raise ProgramError(f"{caller()}: there is no role {name!r}", nearest(name, ROLES))
    return Concat((RoleBegin(name), *parts("" if expr is None else expr), RoleEnd(name)))


def role_text(template: ChatTemplate, op: RoleBegin | RoleEnd, previous: str | None) -> Segment:
    """The template's text for a role's beginning, after the role `previous`, or its end; it knows
    what it stands for, so that another template's can take its place."""
    begins = isinstance(op, RoleBegin)
    text = template.opening(op.role, previous) if begins else template.roles[op.role][1]
    return Segment(text, "raw", (), (op, previous))


SglExpr, SglExprList, SglConstantText, SglGen, SglSelect = Expr, Concat, Text, Gen, Select
SglRoleBegin, SglRoleEnd, SglSamplingParams = RoleBegin, RoleEnd, SamplingParams
"""SGLang's names, for annotations and `isinstance`; also `SglFunction`."""


def __getattr__(name: str) -> Any:
    if name == "SglFunction":  # knows this module
        return import_module(".decorator", __package__).SglFunction
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
